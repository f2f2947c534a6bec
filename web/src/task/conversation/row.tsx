import { CircleAlert, CircleCheck, Dot, FileText, LoaderCircle, TriangleAlert, UserRound } from "lucide-react";
import { memo } from "react";
import { Inline } from "../../component/text/inline.tsx";
import { Markdown } from "../../component/text/markdown.tsx";
import { bytes, clock } from "../../format.ts";
import { headOf, type Item, type Tone } from "./fold.ts";
import type { Log, Saying } from "./log.ts";
import { TurnRow } from "./turn-row.tsx";
import { At, type ReadMessage, Whole } from "./long-text.tsx";

/** One row of the conversation. */

type Fact = Extract<Item, { kind: "fact" }>;

const tones: Record<Tone, { icon: typeof Dot; text: string }> = {
  plain: { icon: Dot, text: "text-soft" },
  good: { icon: CircleCheck, text: "text-done" },
  bad: { icon: CircleAlert, text: "text-fail" },
  warn: { icon: TriangleAlert, text: "text-need" },
};

const ends: Record<Tone, string> = {
  plain: "border-line bg-card",
  good: "border-done/35 bg-done-tint",
  bad: "border-fail/35 bg-fail-tint",
  warn: "border-line bg-card",
};

/** How the Task or Mission ended, which most readers look for. */
const EndRow = ({ item }: { item: Fact }) => {
  const { icon: Icon, text } = tones[item.tone];
  const detail = item.detail === undefined ? "" : headOf(item.detail);
  return (
    <section aria-label="How it ended" className={`rounded-xl border px-4 py-3 ${ends[item.tone]}`}>
      <div className="flex items-start gap-2">
        <Icon size={17} aria-hidden="true" className={`mt-0.5 shrink-0 ${text}`} />
        <p className={`min-w-0 flex-1 font-semibold ${text}`} dir="auto">
          <Inline text={item.words} />
        </p>
        <At at={item.at} />
      </div>
      {detail !== "" && detail !== item.words && (
        <div className="mt-2 ps-6">
          <Markdown text={detail} />
        </div>
      )}
    </section>
  );
};

const FactRow = ({ item }: { item: Fact }) => {
  const { icon: Icon, text } = tones[item.tone];
  const detail = item.detail === undefined ? "" : headOf(item.detail);
  return (
    <div className="flex items-start gap-2">
      <Icon size={14} aria-hidden="true" className={`mt-0.5 shrink-0 ${text}`} />
      <div className="min-w-0 flex-1">
        <p className={`text-sm ${text}`} dir="auto">
          <Inline text={item.words} />
          {item.times > 1 && <span className="tabular text-faint"> ×{item.times}</span>}
        </p>
        {detail !== "" && detail !== item.words && (
          <div className="mt-1 text-soft">
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
        return item.end ? <EndRow item={item} /> : <FactRow item={item} />;
    }
  },
  // A running call is always rendered again, because its output is not part of the item.
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
      <p className="line-clamp-6 pl-6 text-sm whitespace-pre-wrap text-faint" dir="auto">
        {saying.reasoning.slice(-800)}
      </p>
    )}
    {saying.text !== "" && (
      <div className="pl-6">
        <Markdown text={saying.text} />
      </div>
    )}
  </article>
);
