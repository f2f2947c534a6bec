import { ChevronRight } from "lucide-react";
import { AgentDot } from "../../component/text/agent.tsx";
import { Markdown } from "../../component/text/markdown.tsx";
import { clock, duration } from "../../format.ts";
import { CallRow } from "./call-row.tsx";
import { headOf, isBad, type Turn } from "./fold.ts";
import type { Log } from "./log.ts";
import { At, type ReadMessage, Whole } from "./long-text.tsx";

/** One turn of an agent: its text, with its calls below. */

/** How many calls of a turn are shown at first; the others appear on request. */
const callsShown = 8;

export const TurnRow = ({
  item,
  read,
  log,
  folded,
  opened,
  onToggle,
}: {
  item: Turn;
  read: ReadMessage;
  log: Log;
  folded: boolean;
  opened: ReadonlySet<string>;
  onToggle: (key: string) => void;
}) => {
  const key = `turn-${item.id}`;
  const open = folded === opened.has(key);
  const all = opened.has(`all-${item.id}`);
  const bad = item.calls.filter(isBad).length;
  const calls = all ? item.calls : item.calls.slice(0, callsShown);
  const text = headOf(item.text);
  return (
    <article aria-label={`${item.agent}, ${clock(item.at)}`}>
      <button
        type="button"
        aria-expanded={open}
        onClick={() => onToggle(key)}
        className="-mx-2 flex w-[calc(100%+16px)] items-center gap-2 rounded-md px-2 py-1 text-start hover:bg-hover"
      >
        <ChevronRight
          size={14}
          aria-hidden="true"
          className={`shrink-0 text-faint transition-transform ${open ? "rotate-90" : ""}`}
        />
        <AgentDot agent={item.agent} />
        <span className="text-sm font-semibold">{item.agent}</span>
        {!open && (
          <span className="min-w-0 flex-1 truncate text-sm text-soft" dir="auto">
            {text.split("\n", 1)[0]}
          </span>
        )}
        {!open && item.calls.length > 0 && (
          <span className={`shrink-0 text-xs ${bad > 0 ? "text-fail" : "text-faint"}`}>
            {item.calls.length} {item.calls.length === 1 ? "call" : "calls"}
            {bad > 0 && `, ${bad} failed`}
          </span>
        )}
        <span className={open ? "flex-1" : ""} />
        <span className="tabular shrink-0 text-xs text-faint">{duration(item.durationMs)}</span>
        <At at={item.at} />
      </button>
      {open && (
        <div className="mt-1 flex flex-col gap-2 pl-6">
          {text !== "" && (
            <Whole text={item.text} load={async () => (await read(item.id)).text}>
              {(words) => <Markdown text={words} />}
            </Whole>
          )}
          {item.failure !== null && (
            <p className="rounded-lg bg-fail-tint px-3 py-2 text-fail" dir="auto">
              {item.failure.message}
              {item.failure.remedy !== null &&
                !item.failure.message.includes(item.failure.remedy) &&
                ` ${item.failure.remedy}`}
            </p>
          )}
          {calls.length > 0 && (
            <ul className="overflow-hidden rounded-xl border border-line bg-card">
              {calls.map((call) => (
                <CallRow
                  key={call.callID}
                  call={call}
                  read={read}
                  log={log}
                  open={opened.has(call.callID)}
                  onToggle={() => onToggle(call.callID)}
                />
              ))}
              {calls.length < item.calls.length && (
                <li className="border-t border-line p-1">
                  <button
                    type="button"
                    className="button button-quiet w-full text-sm"
                    onClick={() => onToggle(`all-${item.id}`)}
                  >
                    {item.calls.length - calls.length} more calls
                  </button>
                </li>
              )}
            </ul>
          )}
        </div>
      )}
    </article>
  );
};
