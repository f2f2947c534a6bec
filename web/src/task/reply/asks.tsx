import { useMutation } from "@tanstack/react-query";
import { Hand } from "lucide-react";
import type { ReactNode } from "react";
import type { PendingAsk } from "../../../../src/protocol/task/status.ts";
import { wordsOf } from "../../api.ts";
import { useDraft } from "../../component/form/draft.ts";
import { Markdown } from "../../component/text/markdown.tsx";
import { useNow } from "../../component/text/time.tsx";
import { ticking } from "../../format.ts";
import type { Log } from "../conversation/log.ts";
import type { ReadMessage } from "../conversation/long-text.tsx";
import { callOf, Would } from "./would.tsx";

/**
 * The asks of a Task or Mission: permissions, questions and approvals. An ask that expires gets its default answer; an
 * approval does not expire.
 */

export type Answer = { decision: "allow" | "deny"; answer?: string } | { answer: string };
type Answering = (askID: string, answer: Answer) => Promise<unknown>;

/** Marks the answer that applies when nobody answers. */
const Default = () => <span className="font-normal opacity-75">default</span>;

/** What happens when nobody answers. */
const fallbackOf = ({ kind, default: stands }: PendingAsk): string => {
  if (stands === null) return "The agent decides";
  return kind === "permission" ? (stands === "deny" ? "Denied" : "Allowed") : `“${stands}”`;
};

const headings = { permission: "Permission needed", question: "Question", approval: "Approval needed" } as const;

/**
 * Approve or deny. A denial with words tells the agent what to change, and it tries again. After one without words a
 * Task ends, and a Mission stands still until it is woken.
 */
const Decide = ({
  whose,
  busy,
  text,
  onText,
  onAnswer,
}: {
  whose: string;
  busy: boolean;
  text: string;
  onText: (text: string) => void;
  onAnswer: (answer: Answer) => void;
}) => {
  const words = text.trim();
  return (
    <>
      <button
        type="button"
        className="button button-primary"
        disabled={busy || words !== ""}
        onClick={() => onAnswer({ decision: "allow" })}
      >
        Approve
      </button>
      <form
        className="flex min-w-52 flex-1 gap-2"
        onSubmit={(event) => {
          event.preventDefault();
          onAnswer({ decision: "deny", ...(words === "" ? {} : { answer: words }) });
        }}
      >
        <input
          aria-label="What to change"
          placeholder="What to change"
          dir="auto"
          className="field"
          value={text}
          onChange={({ target }) => onText(target.value)}
        />
        <button type="submit" className="button" disabled={busy}>
          Deny
        </button>
      </form>
      <p className="w-full text-xs text-soft">
        If you say what to change, the agent tries again;{" "}
        {whose === "Mission" ? "otherwise the Mission stands still until you wake it." : `otherwise the ${whose} ends.`}
      </p>
    </>
  );
};

export const Ask = ({
  whose,
  pending,
  log,
  read,
  onAnswer,
  approval,
}: {
  whose: string;
  pending: PendingAsk;
  log: Log;
  read: ReadMessage;
  onAnswer: Answering;
  /** The view of what would be approved. */
  approval?: ReactNode;
}) => {
  const [text, setText] = useDraft(pending.id);
  const call = pending.kind === "permission" ? callOf(log, pending.id) : undefined;
  const now = useNow();
  const answer = useMutation({
    mutationFn: (body: Answer) => onAnswer(pending.id, body),
    onSuccess: () => setText(""),
  });
  const { expiresAt } = pending;
  return (
    <section aria-label={`The ${whose} is waiting for you`} className="mb-3 animate-rise rounded-xl bg-need-tint p-3">
      <h2 className="flex items-center gap-2 text-sm font-semibold text-need">
        <Hand size={16} aria-hidden="true" />
        {headings[pending.kind]}
        <span className="tabular ml-auto text-end font-normal">
          {pending.passesAt !== undefined
            ? "Its Mission is asked first, but you can answer too"
            : expiresAt === null
              ? "Waits until you answer"
              : `${fallbackOf(pending)} in ${ticking(Math.max(0, Date.parse(expiresAt) - now))}`}
        </span>
      </h2>
      <div className="mt-1 max-h-40 overflow-y-auto" tabIndex={0}>
        <Markdown text={pending.prompt} />
      </div>
      {call !== undefined && <Would call={call} read={read} />}
      {approval}
      <div className="mt-3 flex flex-wrap items-center gap-2">
        {pending.kind === "approval" ? (
          <Decide
            whose={whose}
            busy={answer.isPending}
            text={text}
            onText={setText}
            onAnswer={(body) => answer.mutate(body)}
          />
        ) : pending.kind === "permission" ? (
          <>
            <button
              type="button"
              className="button button-primary"
              disabled={answer.isPending}
              onClick={() => answer.mutate({ decision: "allow" })}
            >
              Allow
              {pending.default === "allow" && <Default />}
            </button>
            <button
              type="button"
              className="button"
              disabled={answer.isPending}
              onClick={() => answer.mutate({ decision: "deny" })}
            >
              Deny
              {pending.default === "deny" && <Default />}
            </button>
          </>
        ) : (
          <>
            {pending.options.map((option) => (
              <button
                key={option}
                type="button"
                className="button"
                dir="auto"
                disabled={answer.isPending}
                onClick={() => answer.mutate({ answer: option })}
              >
                {option}
                {option === pending.default && <Default />}
              </button>
            ))}
            <form
              className="flex min-w-52 flex-1 gap-2"
              onSubmit={(event) => {
                event.preventDefault();
                if (text.trim() !== "") answer.mutate({ answer: text.trim() });
              }}
            >
              <input
                aria-label="Your own answer"
                placeholder="Your own answer"
                dir="auto"
                className="field"
                value={text}
                onChange={({ target }) => setText(target.value)}
              />
              <button type="submit" className="button" disabled={answer.isPending}>
                Answer
              </button>
            </form>
          </>
        )}
      </div>
      {answer.error !== null && (
        <p role="alert" className="mt-2 text-sm text-fail">
          {wordsOf(answer.error)}
        </p>
      )}
    </section>
  );
};
