import { Check, Folder as FolderIcon } from "lucide-react";
import type { FileData } from "react-diff-view";
import { type Folder, idOf, nowAt, pathOf, sizeOf } from "./files.ts";

/** The changed files in their folders. */

type Props = { folder: Folder; depth?: number; isViewed: (file: FileData) => boolean };

const Row = ({ file, viewed }: { file: FileData; viewed: boolean }) => {
  const { added, removed } = sizeOf(file);
  return (
    <a
      href={`#${idOf(file)}`}
      className={`flex items-center gap-2 rounded-md px-2 py-1 text-sm hover:bg-hover ${viewed ? "text-faint" : ""}`}
      title={pathOf(file)}
    >
      <span className="min-w-0 flex-1 truncate">{nowAt(file).split("/").at(-1)}</span>
      {viewed && <Check size={13} role="img" aria-label="viewed" className="shrink-0 text-done" />}
      <span className="tabular shrink-0 text-xs">
        <span className="text-done">+{added}</span> <span className="text-fail">−{removed}</span>
      </span>
    </a>
  );
};

export const Tree = ({ folder, depth = 0, isViewed }: Props) => (
  <ul className={depth === 0 ? "flex flex-col gap-1" : "ms-2 flex flex-col gap-1 border-s border-line ps-1"}>
    {folder.folders.map((child) => (
      <li key={child.path}>
        <span className="flex items-center gap-2 px-2 py-1 text-xs text-faint" title={child.path}>
          <FolderIcon size={13} aria-hidden="true" className="shrink-0" />
          <span className="truncate">{child.name}</span>
        </span>
        <Tree folder={child} depth={depth + 1} isViewed={isViewed} />
      </li>
    ))}
    {folder.files.map((file) => (
      <li key={pathOf(file)}>
        <Row file={file} viewed={isViewed(file)} />
      </li>
    ))}
  </ul>
);
