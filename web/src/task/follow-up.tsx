import { useMutation, useQueryClient } from "@tanstack/react-query";
import { CornerDownRight, Paperclip, SendHorizontal, X } from "lucide-react";
import { useState } from "react";
import type { TaskStatus } from "../../../src/protocol/status.ts";
import { ask, client, wordsOf } from "../api.ts";
import { type Attached, readFiles } from "../parts/attach.ts";
import { say } from "../parts/toast.tsx";
import { headOf, type Item } from "./conversation.ts";
import type { Log } from "./log.ts";

/** Words for the Task, at any time. What has not been read yet is shown until it is. */

const waitingIn = (items: readonly Item[]): Extract<Item, { kind: "said" }>[] => {
  const found: Extract<Item, { kind: "said" }>[] = [];
  for (const item of items.toReversed()) {
    if (item.kind === "turn") break;
    if (item.kind === "said" && item.source !== "checks") found.unshift(item);
  }
  return found;
};

const done = {
  steered: "Sent: read at the next step",
  queued: "Sent: read when its turn comes",
  interrupted: "Sent: the step was interrupted for it",
  restarted: "Sent: the Task goes on",
};

export const FollowUp = ({ task, log }: { task: TaskStatus; log: Log }) => {
  const { taskID, directory } = task;
  const active = task.lifecycleStatus === "active";
  const [text, setText] = useState("");
  const [files, setFiles] = useState<Attached[]>([]);
  const queries = useQueryClient();
  const send = useMutation({
    mutationFn: () =>
      ask(
        client.task.message({
          path: { taskID },
          query: { directory },
          body: {
            source: "web",
            text,
            ...(files.length === 0
              ? {}
              : { attachments: files.map(({ filename, mime, data }) => ({ filename, mime, data })) }),
          },
        }),
      ),
    onSuccess: ({ disposition }) => {
      setText("");
      setFiles([]);
      say(done[disposition]);
      void queries.invalidateQueries({ queryKey: ["board", taskID] });
    },
  });
  const submit = () => {
    if (text.trim() !== "" && !send.isPending) send.mutate();
  };
  // The request itself is no message that waits.
  const queued = active ? waitingIn(log.items()).filter((item) => item !== log.items()[0]) : [];
  const label = active ? "Send a message to this Task" : "Send a message to continue this Task";
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
              <span className="shrink-0 text-xs text-faint">waits to be read</span>
            </li>
          ))}
        </ul>
      )}
      <div className="card flex items-end gap-1 p-1.5 focus-within:border-edge">
        <label className="button button-quiet px-2 focus-within:outline-2 focus-within:outline-accent">
          <Paperclip size={17} aria-hidden="true" />
          <span className="sr-only">Attach files</span>
          <input
            type="file"
            multiple
            className="sr-only"
            onChange={({ target }) => {
              void readFiles(target.files).then((read) => setFiles((now) => [...now, ...read].slice(0, 16)));
              target.value = "";
            }}
          />
        </label>
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
          className="field-sizing-content max-h-[30vh] min-h-8.5 min-w-0 flex-1 resize-none bg-transparent px-1.5 py-1.5 outline-none"
        />
        <button type="submit" className="button button-primary" disabled={send.isPending || text.trim() === ""}>
          <SendHorizontal size={16} aria-hidden="true" />
          <span className="max-sm:sr-only">{active ? "Send" : "Continue"}</span>
        </button>
      </div>
      {files.length > 0 && (
        <ul aria-label="Attachments" className="mt-2 flex flex-wrap gap-2">
          {files.map((file) => (
            <li key={file.filename} className="flex items-center gap-1 rounded-lg bg-hover py-0.5 pr-1 pl-2.5 text-sm">
              {file.filename}
              <button
                type="button"
                className="rounded p-1"
                aria-label={`Remove ${file.filename}`}
                onClick={() => setFiles(files.filter((each) => each !== file))}
              >
                <X size={13} aria-hidden="true" />
              </button>
            </li>
          ))}
        </ul>
      )}
      {send.error !== null && (
        <p role="alert" className="mt-2 text-sm text-fail">
          {wordsOf(send.error)}
        </p>
      )}
    </form>
  );
};
