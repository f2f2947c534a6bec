import { MessageSquare } from "lucide-react";
import { type ReactNode, useState } from "react";
import type { PendingAsk } from "../../../../src/protocol/task/status.ts";
import { useKeys } from "../../component/keyboard.ts";
import type { Log } from "../conversation/log.ts";
import type { ReadMessage } from "../conversation/long-text.tsx";
import { type Answer, Ask } from "./asks.tsx";
import { type Message, MessageBox } from "./message-box.tsx";

/**
 * Where the user answers the asks of a Task or Mission, or writes to it. While a question is open, the message box is
 * hidden until the user asks for it.
 */
export const Reply = ({
  whose,
  id,
  pending,
  log,
  read,
  onAnswer,
  approvalOf,
  label,
  action,
  active,
  onSend,
}: {
  whose: "Task" | "Mission";
  id: string;
  pending: readonly PendingAsk[];
  log: Log;
  read: ReadMessage;
  onAnswer: (askID: string, answer: Answer) => Promise<unknown>;
  /** Renders what an approval is about. */
  approvalOf?: (pending: PendingAsk) => ReactNode;
  label: string;
  action: string;
  active: boolean;
  onSend: (message: Message) => Promise<string>;
}) => {
  const [writing, setWriting] = useState(false);
  const asked = pending.some(({ kind }) => kind === "question");
  const open = !asked || writing;
  useKeys({
    m: (event) => {
      event.preventDefault();
      setWriting(true);
      // After the box has been rendered.
      requestAnimationFrame(() => document.getElementById("message")?.focus());
    },
  });
  return (
    // On low screens it shrinks and scrolls, instead of covering the conversation.
    <div className="min-h-0 overflow-y-auto border-t border-line bg-page px-4 py-3 sm:px-6">
      {pending.map((ask) => (
        <Ask
          key={ask.id}
          whose={whose}
          pending={ask}
          log={log}
          read={read}
          onAnswer={onAnswer}
          approval={ask.kind === "approval" ? approvalOf?.(ask) : undefined}
        />
      ))}
      {open ? (
        <MessageBox
          key={id}
          id={id}
          label={label}
          action={action}
          items={log.items()}
          active={active}
          onSend={async (message) => {
            const words = await onSend(message);
            setWriting(false);
            return words;
          }}
        />
      ) : (
        <button type="button" className="button button-quiet" onClick={() => setWriting(true)}>
          <MessageSquare size={15} aria-hidden="true" />
          Write a message instead
        </button>
      )}
    </div>
  );
};
