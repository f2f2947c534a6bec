import { useMutation } from "@tanstack/react-query";
import { CornerDownRight, SendHorizontal } from "lucide-react";
import { useState } from "react";
import { wordsOf } from "../../api.ts";
import { useDraft } from "../../component/form/draft.ts";
import type { Attached } from "../../component/form/attachment.ts";
import { AttachButton, AttachedList, sentFiles } from "../../component/form/attachments.tsx";
import { say } from "../../component/layout/toast.tsx";
import { headOf, type Item } from "../conversation/fold.ts";

/** A form for messages to a Task or Mission at any time, with the messages that no agent has read yet. */

const waitingIn = (items: readonly Item[]): Extract<Item, { kind: "said" }>[] => {
  const found: Extract<Item, { kind: "said" }>[] = [];
  for (const item of items.toReversed()) {
    if (item.kind === "turn") break;
    if (item.kind === "said" && item.source !== "checks") found.unshift(item);
  }
  return found;
};

export type Message = { text: string; attachments?: { filename: string; mime: string; data: string }[] };

export const MessageBox = ({
  id,
  label,
  action,
  items,
  active,
  onSend,
}: {
  /** The name under which the draft is kept. */
  id: string;
  label: string;
  /** The label of the button. */
  action: string;
  items: readonly Item[];
  /** Whether an agent will read the waiting messages. */
  active: boolean;
  /** Sends the message; resolves to the confirmation to show. */
  onSend: (message: Message) => Promise<string>;
}) => {
  const [text, setText] = useDraft(id);
  const [files, setFiles] = useState<Attached[]>([]);
  const send = useMutation({
    mutationFn: () => onSend({ text, ...sentFiles(files) }),
    onSuccess: (words) => {
      setText("");
      setFiles([]);
      say(words);
    },
  });
  const submit = () => {
    if (text.trim() !== "" && !send.isPending) send.mutate();
  };
  // The request itself does not count as a waiting message.
  const queued = active ? waitingIn(items).filter((item) => item !== items[0]) : [];
  return (
    <form
      aria-label="Message"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      {queued.length > 0 && (
        <ul aria-label="Not read yet" className="mb-2 flex flex-col gap-1">
          {queued.map((item) => (
            <li key={item.id} className="flex items-center gap-2 text-sm text-soft">
              <CornerDownRight size={14} aria-hidden="true" className="shrink-0 text-faint" />
              <span className="truncate" dir="auto">
                {headOf(item.text)}
              </span>
              <span className="shrink-0 text-xs text-faint">not read yet</span>
            </li>
          ))}
        </ul>
      )}
      <div className="card flex items-end gap-1 p-1 focus-within:border-edge">
        <AttachButton files={files} onFiles={setFiles} />
        <textarea
          id="message"
          aria-label={label}
          placeholder={label}
          dir="auto"
          rows={1}
          value={text}
          onChange={({ target }) => setText(target.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) submit();
          }}
          className="field-sizing-content max-h-[30vh] min-h-9 min-w-0 flex-1 resize-none bg-transparent px-1 py-1 outline-none max-sm:placeholder:text-xs"
        />
        <button type="submit" className="button button-primary" disabled={send.isPending || text.trim() === ""}>
          <SendHorizontal size={16} aria-hidden="true" />
          <span className="max-sm:sr-only">{action}</span>
        </button>
      </div>
      {files.length > 0 && (
        <div className="mt-2">
          <AttachedList files={files} onFiles={setFiles} />
        </div>
      )}
      {send.error !== null && (
        <p role="alert" className="mt-2 text-sm text-fail">
          {wordsOf(send.error)}
        </p>
      )}
    </form>
  );
};
