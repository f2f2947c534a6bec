import {
  ChevronRight,
  CircleAlert,
  CircleCheck,
  Dot,
  FileText,
  LoaderCircle,
  TriangleAlert,
  UserRound,
} from "lucide-react";
import { memo, useState } from "react";
import type { LongText } from "../../../src/protocol/text.ts";
import { wordsOf } from "../api.ts";
import { Markdown } from "../parts/markdown.tsx";
import { bytes, clock, duration, moment } from "../words.ts";
import { type Call, headOf, isBad, type Item, type Tone, type Turn } from "./conversation.ts";
import type { Log, Saying } from "./log.ts";

/** One row of the conversation. */

const At = ({ at }: { at: string }) => (
  <time dateTime={at} title={moment(at)} className="tabular text-xs text-faint">
    {clock(at)}
  </time>
);

/** Texts of more than 16 KiB stand in the log by their beginning; the rest is asked for. */
const Whole = ({
  text,
  load,
  children,
}: {
  text: LongText;
  load: () => Promise<string>;
  children: (text: string) => React.ReactNode;
}) => {
  const [whole, setWhole] = useState<string | undefined>();
  const [trouble, setTrouble] = useState<string | undefined>();
  if (typeof text === "string") return <>{children(text)}</>;
  return (
    <>
      {children(whole ?? text.head)}
      {whole === undefined && (
        <button
          type="button"
          className="button mt-2 text-sm"
          onClick={() => void load().then(setWhole, (error: unknown) => setTrouble(wordsOf(error)))}
        >
          Show all, {bytes(text.blob.bytes)}
        </button>
      )}
      {trouble !== undefined && <p className="text-sm text-fail">{trouble}</p>}
    </>
  );
};

/** The message of an event with all of its texts. */
export type ReadMessage = (
  eventID: number,
) => Promise<{ text: string; calls: { callID: string; output: string | null }[] }>;

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

/** What a call is about, out of its arguments. */
const subjectOf = (input: unknown): string => {
  if (typeof input !== "object" || input === null) return "";
  const given = input as Record<string, unknown>;
  if (typeof given["head"] === "string" && "blob" in given) return given["head"].slice(0, 200);
  return telling
    .flatMap((name) => given[name])
    .filter((value) => typeof value === "string")
    .join(" ");
};

const CallRow = ({
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
        className="flex w-full items-center gap-2 px-3 py-1.5 text-start -outline-offset-2 transition-colors hover:bg-hover"
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
        <span
          className={`tabular inline-flex shrink-0 items-center gap-1.5 text-xs ${bad ? "text-fail" : "text-soft"}`}
        >
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
        <div className="flex flex-col gap-2 px-3 pt-1.5 pb-3">
          {open && (
            <pre
              className="code max-h-72 overflow-auto rounded-lg bg-sunk p-2.5 whitespace-pre-wrap"
              tabIndex={0}
              aria-label="Input"
              role="region"
            >
              {typeof call.input === "object" &&
              call.input !== null &&
              Object.keys(call.input).length === 1 &&
              typeof Object.values(call.input)[0] === "string"
                ? String(Object.values(call.input)[0])
                : JSON.stringify(call.input, null, 2)}
            </pre>
          )}
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
                  className="code max-h-96 overflow-auto rounded-lg bg-sunk p-2.5 whitespace-pre-wrap"
                  tabIndex={0}
                  aria-label="Output"
                  role="region"
                >
                  {text === "" ? "(no output)" : text}
                </pre>
              )}
            </Whole>
          )}
          {live !== undefined && (
            <pre
              className="code max-h-56 overflow-auto rounded-lg bg-sunk p-2.5 whitespace-pre-wrap"
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

/** Calls of one turn that are shown before the rest is asked for. */
const callsShown = 8;

const TurnRow = ({
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
        className="-mx-2 flex w-[calc(100%+16px)] items-center gap-2 rounded-md px-2 py-0.5 text-start hover:bg-hover"
      >
        <ChevronRight
          size={14}
          aria-hidden="true"
          className={`shrink-0 text-faint transition-transform ${open ? "rotate-90" : ""}`}
        />
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
        <div className="mt-1.5 flex flex-col gap-2.5 pl-5.5">
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
                <li className="border-t border-line p-1.5">
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

const tones: Record<Tone, { icon: typeof Dot; text: string }> = {
  plain: { icon: Dot, text: "text-soft" },
  good: { icon: CircleCheck, text: "text-done" },
  bad: { icon: CircleAlert, text: "text-fail" },
  warn: { icon: TriangleAlert, text: "text-need" },
};

const FactRow = ({ item }: { item: Extract<Item, { kind: "fact" }> }) => {
  const { icon: Icon, text } = tones[item.tone];
  const detail = item.detail === undefined ? "" : headOf(item.detail);
  return (
    <div className="flex items-start gap-2">
      <Icon size={14} aria-hidden="true" className={`mt-1 shrink-0 ${text}`} />
      <div className="min-w-0 flex-1">
        <p className={`text-sm ${text}`} dir="auto">
          {item.words}
        </p>
        {detail !== "" && detail !== item.words && (
          <div className="mt-1.5 text-soft">
            <Markdown text={detail} />
          </div>
        )}
      </div>
      <At at={item.at} />
    </div>
  );
};

const SaidRow = ({ item, read }: { item: Extract<Item, { kind: "said" }>; read: ReadMessage }) => (
  <article aria-label={`${item.source}, ${clock(item.at)}`} className="rounded-xl bg-accent-tint px-4 py-3">
    <div className="mb-1 flex items-center gap-2 text-sm">
      <UserRound size={14} aria-hidden="true" className="text-accent" />
      <span className="flex-1 font-semibold">
        {item.source === "checks" ? "Failed checks, sent back by the service" : item.source}
      </span>
      <At at={item.at} />
    </div>
    <Whole text={item.text} load={async () => (await read(item.id)).text}>
      {(words) => <Markdown text={words} />}
    </Whole>
    {item.attachments.length > 0 && (
      <ul className="mt-2 flex flex-wrap gap-2 text-sm text-soft">
        {item.attachments.map((file) => (
          <li key={file.filename} className="inline-flex items-center gap-1">
            <FileText size={14} aria-hidden="true" />
            {file.filename}, {bytes(file.bytes)}
          </li>
        ))}
      </ul>
    )}
  </article>
);

type RowProps = {
  item: Item;
  read: ReadMessage;
  log: Log;
  folded: boolean;
  opened: ReadonlySet<string>;
  onToggle: (key: string) => void;
};

const isRunning = (item: Item): boolean => item.kind === "turn" && item.calls.some(({ state }) => state === "running");

export const Row = memo(
  ({ item, read, log, folded, opened, onToggle }: RowProps) => {
    switch (item.kind) {
      case "said":
        return <SaidRow item={item} read={read} />;
      case "turn":
        return <TurnRow item={item} read={read} log={log} folded={folded} opened={opened} onToggle={onToggle} />;
      case "fact":
        return <FactRow item={item} />;
    }
  },
  // What a running call writes is not part of its item.
  (before, after) =>
    before.item === after.item &&
    before.folded === after.folded &&
    before.opened === after.opened &&
    !isRunning(after.item),
);

export const SayingRow = ({ saying }: { saying: Saying }) => (
  <article aria-label="Being written" className="flex flex-col gap-2">
    <p className="flex items-center gap-2 text-sm text-run">
      <LoaderCircle size={14} aria-hidden="true" className="animate-turn" />
      {saying.text === "" ? "Thinking" : "Writing"}
      <span className="flex-1" />
      <At at={saying.at} />
    </p>
    {saying.text === "" && saying.reasoning !== "" && (
      <p className="line-clamp-6 pl-5.5 text-sm whitespace-pre-wrap text-faint" dir="auto">
        {saying.reasoning.slice(-800)}
      </p>
    )}
    {saying.text !== "" && (
      <div className="pl-5.5">
        <Markdown text={saying.text} />
      </div>
    )}
  </article>
);
