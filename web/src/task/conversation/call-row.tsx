import { ChevronRight, CircleAlert, CircleCheck, LoaderCircle } from "lucide-react";
import { DiffText } from "../../component/text/diff.tsx";
import { duration } from "../../format.ts";
import { Arguments } from "./arguments.tsx";
import { type Call, isBad } from "./fold.ts";
import type { Log } from "./log.ts";
import { type ReadMessage, Whole } from "./long-text.tsx";

/** One call of a turn: its subject and outcome; arguments and output when it is opened. */

const telling = [
  "phase",
  "command",
  "action",
  "pattern",
  "path",
  "paths",
  "from",
  "to",
  "name",
  "agent",
  "title",
  "question",
  "url",
];

/** The subject of a call, from its arguments. */
const subjectOf = (input: unknown): string => {
  if (typeof input !== "object" || input === null) return "";
  const given = input as Record<string, unknown>;
  if (typeof given["head"] === "string" && "blob" in given) return given["head"].slice(0, 200);
  return telling
    .flatMap((name) => given[name])
    .filter((value) => typeof value === "string")
    .join(" ");
};

export const CallRow = ({
  call,
  read,
  log,
  open,
  onToggle,
}: {
  call: Call;
  read: ReadMessage;
  log: Log;
  open: boolean;
  onToggle: () => void;
}) => {
  const bad = isBad(call);
  const running = call.state === "running";
  const live = running ? log.output(call.callID) : undefined;
  const subject = subjectOf(call.input);
  return (
    <li className="border-t border-line first:border-t-0">
      <button
        type="button"
        aria-expanded={open}
        onClick={onToggle}
        className="flex w-full items-center gap-2 px-3 py-1 text-start -outline-offset-2 transition-colors hover:bg-hover"
      >
        <ChevronRight
          size={14}
          aria-hidden="true"
          className={`shrink-0 text-faint transition-transform ${open ? "rotate-90" : ""}`}
        />
        <span className="shrink-0 text-sm font-medium">{call.tool}</span>
        <code className="min-w-0 flex-1 truncate font-mono text-xs text-soft" dir="ltr">
          {subject}
        </code>
        <span className={`tabular inline-flex shrink-0 items-center gap-2 text-xs ${bad ? "text-fail" : "text-soft"}`}>
          {running ? (
            <LoaderCircle size={13} aria-hidden="true" className="animate-turn text-run" />
          ) : bad ? (
            <CircleAlert size={13} aria-hidden="true" />
          ) : (
            <CircleCheck size={13} aria-hidden="true" className="text-done" />
          )}
          {running ? "running" : call.exitCode !== null ? `exit ${call.exitCode}` : call.state}
          {call.durationMs !== null && <span className="text-faint">{duration(call.durationMs)}</span>}
        </span>
      </button>
      {(open || live !== undefined) && (
        <div className="flex flex-col gap-2 px-3 pt-1 pb-3">
          {open && <Arguments call={call} />}
          {open && call.output !== null && (
            <Whole
              text={call.output}
              load={async () => {
                const { calls } = await read(call.eventID);
                return calls.find(({ callID }) => callID === call.callID)?.output ?? "";
              }}
            >
              {(text) => (
                <pre
                  className="code max-h-96 overflow-auto rounded-lg bg-sunk p-2 whitespace-pre-wrap"
                  tabIndex={0}
                  aria-label="Output"
                  role="region"
                >
                  {text === "" ? "(no output)" : <DiffText text={text} />}
                </pre>
              )}
            </Whole>
          )}
          {live !== undefined && (
            <pre
              className="code max-h-56 overflow-auto rounded-lg bg-sunk p-2 whitespace-pre-wrap"
              tabIndex={0}
              aria-label="Output so far"
              role="region"
            >
              {live.slice(-4000)}
            </pre>
          )}
        </div>
      )}
    </li>
  );
};
