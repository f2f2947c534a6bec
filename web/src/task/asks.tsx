import { useMutation } from "@tanstack/react-query";
import { Hand } from "lucide-react";
import { useState } from "react";
import type { PendingAsk } from "../../../src/protocol/task/status.ts";
import { wordsOf } from "../api.ts";
import { Markdown } from "../component/text/markdown.tsx";
import { useNow } from "../component/text/time.tsx";
import { ticking } from "../format.ts";

/** The asks of a Task or Mission: permissions and questions. When its time is over, an ask is answered by default. */

type Answer = { decision: "allow" | "deny" } | { answer: string };
type Answering = (askID: string, answer: Answer) => Promise<unknown>;

/** What happens when nobody answers. */
const fallbackOf = ({ kind, default: stands }: PendingAsk): string => {
  if (stands === null) return "The agent decides";
  return kind === "permission" ? (stands === "deny" ? "Denied" : "Allowed") : `“${stands}”`;
};

const Ask = ({ whose, pending, onAnswer }: { whose: string; pending: PendingAsk; onAnswer: Answering }) => {
  const [text, setText] = useState("");
  const now = useNow();
  const answer = useMutation({ mutationFn: (body: Answer) => onAnswer(pending.id, body) });
  const left = Math.max(0, Date.parse(pending.expiresAt) - now);
  return (
    <section aria-label={`The ${whose} waits for you`} className="mb-3 animate-rise rounded-xl bg-need-tint p-3.5">
      <h2 className="flex items-center gap-2 text-sm font-semibold text-need">
        <Hand size={16} aria-hidden="true" />
        {pending.kind === "permission" ? "Permission needed" : "Question"}
        <span className="tabular ml-auto text-end font-normal">
          {fallbackOf(pending)} in {ticking(left)}
        </span>
      </h2>
      <div className="mt-1.5 max-h-40 overflow-y-auto" tabIndex={0}>
        <Markdown text={pending.prompt} />
      </div>
      <div className="mt-3 flex flex-wrap items-center gap-2">
        {pending.kind === "permission" ? (
          <>
            <button
              type="button"
              className="button button-primary"
              disabled={answer.isPending}
              onClick={() => answer.mutate({ decision: "allow" })}
            >
              Allow
            </button>
            <button
              type="button"
              className="button"
              disabled={answer.isPending}
              onClick={() => answer.mutate({ decision: "deny" })}
            >
              Deny
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
                {option === pending.default && <span className="text-faint">default</span>}
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

export const Asks = ({
  whose,
  pending,
  onAnswer,
}: {
  whose: "Task" | "Mission";
  pending: readonly PendingAsk[];
  onAnswer: Answering;
}) => (
  <>
    {pending.map((each) => (
      <Ask key={each.id} whose={whose} pending={each} onAnswer={onAnswer} />
    ))}
  </>
);
