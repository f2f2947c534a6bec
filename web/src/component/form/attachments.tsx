import { Paperclip, X } from "lucide-react";
import { bytes } from "../../format.ts";
import { type Attached, readFiles } from "./attachment.ts";

/** The attached files of a request or message: a button to choose them, and their list. */

const most = 16;

type Props = { files: readonly Attached[]; onFiles: (files: Attached[]) => void };

export const addFiles = async ({ files, onFiles }: Props, chosen: FileList | null): Promise<void> => {
  const read = await readFiles(chosen);
  onFiles([...files, ...read].slice(0, most));
};

/** The files as part of a request body. */
export const sentFiles = (files: readonly Attached[]) =>
  files.length === 0 ? {} : { attachments: files.map(({ filename, mime, data }) => ({ filename, mime, data })) };

export const AttachButton = ({ words, ...props }: Props & { words?: string }) => (
  <label className="button button-quiet px-2 focus-within:outline-2 focus-within:outline-accent" title="Attach files">
    <Paperclip size={16} aria-hidden="true" />
    <span className={words === undefined ? "sr-only" : "max-sm:sr-only"}>{words ?? "Attach files"}</span>
    <input
      type="file"
      multiple
      className="sr-only"
      onChange={({ target }) => {
        void addFiles(props, target.files);
        target.value = "";
      }}
    />
  </label>
);

export const AttachedList = ({ files, onFiles }: Props) =>
  files.length === 0 ? null : (
    <ul aria-label="Attachments" className="flex flex-wrap gap-2">
      {files.map((file, index) => (
        <li
          key={`${index}-${file.filename}`}
          className="flex max-w-full items-center gap-2 rounded-lg bg-hover py-1 pr-1 pl-2 text-sm"
        >
          <span className="truncate" dir="auto">
            {file.filename}
          </span>
          <span className="shrink-0 text-faint">{bytes(file.bytes)}</span>
          <button
            type="button"
            aria-label={`Remove ${file.filename}`}
            className="rounded p-1 hover:bg-line"
            onClick={() => onFiles(files.filter((each) => each !== file))}
          >
            <X size={14} aria-hidden="true" />
          </button>
        </li>
      ))}
    </ul>
  );
