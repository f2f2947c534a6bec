import { useQuery } from "@tanstack/react-query";
import { Copy } from "lucide-react";
import { type ReactNode, useMemo } from "react";
import { failingLineOf } from "../../../../src/protocol/task/failing-line.ts";
import type { TaskBoard } from "../../../../src/protocol/task/board.ts";
import type { Goal } from "../../../../src/protocol/task/status.ts";
import { checkLogOf } from "../../api.ts";
import { copy } from "../../component/layout/toast.tsx";
import { Inline } from "../../component/text/inline.tsx";
import { Markdown } from "../../component/text/markdown.tsx";
import { CheckIcon, checkWord } from "../../component/text/state.tsx";
import type { Tab } from "../../search.ts";
import { Artifacts } from "./artifacts.tsx";
import { Headline } from "./headline.tsx";
import { commandsOf, type Failing, failingOf } from "./outcome.ts";
import { Preview } from "./preview.tsx";

/** The result of an ended Task, without repetition: outcome, report, checks, review, and where the result is. */

const Part = ({ title, children }: { title: string; children: ReactNode }) => (
  <section aria-label={title} className="flex flex-col gap-2">
    <h3 className="label">{title}</h3>
    {children}
  </section>
);

/** How many lines of a failure are shown, and how many of them precede the failing line. */
const mostLines = 12;
const before = 2;
/** Longer lines are cut, because a line of megabytes would be rendered as a whole. */
const longestLine = 2000;

/** The lines around the first failure in a log, or the log's end if no line names one. */
const excerptOf = (log: string): { lines: string[]; failed: number } => {
  const lines = log.trimEnd().split("\n");
  const at = failingLineOf(log);
  const from = Math.max(0, at < 0 ? lines.length - mostLines : at - before);
  return { lines: lines.slice(from, from + mostLines), failed: at - from };
};

const FailingLines = ({ taskID, check }: { taskID: string; check: Failing }) => {
  const { data } = useQuery(checkLogOf(taskID, check));
  const { lines, failed } = useMemo(() => excerptOf(data ?? check.lines), [data, check.lines]);
  return lines.join("") === "" ? null : (
    <pre
      className="code max-h-72 overflow-auto border-t border-line px-4 py-3"
      tabIndex={0}
      role="region"
      aria-label={`First failing lines of ${check.name}`}
    >
      {lines.map((line, at) => (
        <span key={at} className={at === failed ? "bg-fail-tint text-fail" : ""}>
          {line.slice(0, longestLine)}
          {"\n"}
        </span>
      ))}
    </pre>
  );
};

const FailingChecks = ({ board, onTab }: { board: TaskBoard; onTab: (tab: Tab) => void }) => (
  <>
    {failingOf(board).map((check) => (
      <section key={check.id} aria-label={`Failing: ${check.name}`} className="card overflow-hidden border-fail/35">
        <h3 className="flex items-center gap-3 px-4 py-2 text-sm">
          <code className="min-w-0 flex-1 truncate font-mono text-xs" title={check.name}>
            {check.name}
          </code>
          {check.exitCode !== null && <span className="tabular shrink-0 text-fail">exit {check.exitCode}</span>}
          <button type="button" className="link shrink-0 text-sm" onClick={() => onTab("checks")}>
            Full log
          </button>
        </h3>
        <FailingLines taskID={board.task.taskID} check={check} />
      </section>
    ))}
  </>
);

/** The checks that are not shown above as failing. */
const Checks = ({ board, onTab }: { board: TaskBoard; onTab: (tab: Tab) => void }) => {
  const failing = new Set(failingOf(board).map(({ id }) => id));
  const others = board.checks.filter(({ id }) => !failing.has(id));
  return others.length === 0 ? null : (
    <Part title={failing.size === 0 ? "Checks" : "Other checks"}>
      <ul className="flex flex-wrap gap-2">
        {others.map(({ id, name, state, required, gates, stale, baseline }) => (
          <li key={id} className="max-w-full">
            <button
              type="button"
              onClick={() => onTab("checks")}
              className="inline-flex min-h-8 max-w-full items-center gap-2 rounded-full border border-line bg-card px-3 py-1 text-sm hover:border-edge"
            >
              <CheckIcon state={state} counts={required || gates} size={15} />
              <span className="truncate" dir="auto">
                {name}
              </span>
              <span className="shrink-0 text-soft">
                {checkWord(state)}
                {state === "passed" && baseline?.state === "failed" && ", failed before"}
                {state === "failed" &&
                  !required &&
                  !gates &&
                  (baseline?.state === "failed" ? ", as before the work" : ", not required")}
                {stale && ", stale"}
              </span>
            </button>
          </li>
        ))}
      </ul>
    </Part>
  );
};

/** Whether the tests that the Task added or changed fail without its change. */
const Contrast = ({ goals }: { goals: readonly Goal[] }) => {
  const found = new Map(
    goals
      .flatMap(({ evidence }) => evidence)
      .flatMap((piece) => (piece.contrast === null || piece.stale ? [] : [[piece.id, piece] as const])),
  );
  if (found.size === 0) return null;
  return (
    <Part title="Proof by contrast">
      {[...found.values()].map(({ id, summary, contrast }) => (
        <p
          key={id}
          dir="auto"
          className={`first-letter:uppercase ${contrast?.result === "proves" ? "text-done" : "text-soft"}`}
        >
          <Inline text={summary} />
        </p>
      ))}
    </Part>
  );
};

const Review = ({ goals }: { goals: readonly Goal[] }) => {
  const judged = goals.filter(({ review }) => review.verdict !== null);
  if (judged.length === 0) return null;
  return (
    <Part title="Review">
      <ul className="flex flex-col gap-2">
        {judged.map(({ sliceID, contract, review }) => (
          <li key={sliceID}>
            {goals.length > 1 && <span className="block text-sm text-faint">{contract.title}</span>}
            <p dir="auto" className="line-clamp-4" title={review.notes ?? undefined}>
              <span className={`font-medium capitalize ${review.verdict === "accepted" ? "text-done" : "text-need"}`}>
                {review.verdict}
              </span>{" "}
              <span className="text-soft">by {review.reviewer}</span>
              {review.notes !== null && review.notes !== "" && (
                <>
                  {": "}
                  <Inline text={review.notes} />
                </>
              )}
            </p>
          </li>
        ))}
      </ul>
    </Part>
  );
};

const Commands = ({ board }: { board: TaskBoard }) => {
  const commands = commandsOf(board.task);
  if (commands.length === 0) return null;
  return (
    <Part title="Git">
      <ul className="card divide-y divide-line">
        {commands.map(({ words, command }) => (
          <li key={words} className="flex items-center gap-3 py-1 pr-1 pl-4">
            <span className="w-20 shrink-0 text-sm text-soft">{words}</span>
            <code className="min-w-0 flex-1 truncate font-mono text-xs" title={command}>
              {command}
            </code>
            <button
              type="button"
              className="button button-quiet px-2"
              aria-label={`Copy the command: ${words.toLowerCase()}`}
              onClick={() => void copy(command, "The command")}
            >
              <Copy size={15} aria-hidden="true" />
            </button>
          </li>
        ))}
      </ul>
    </Part>
  );
};

/** Longer outputs are cut, because they would be rendered as a whole; copying takes all of it. */
const longestOutput = 100_000;

const Output = ({ output }: { output: TaskBoard["task"]["output"] }) => {
  const text = useMemo(() => JSON.stringify(output, null, 2), [output]);
  return output === null ? null : (
    <Part title="Output">
      <div className="card flex items-start">
        <pre
          className="code max-h-96 flex-1 overflow-auto px-4 py-3"
          tabIndex={0}
          role="region"
          aria-label="Output as JSON"
        >
          {text.slice(0, longestOutput)}
          {text.length > longestOutput && "\n…"}
        </pre>
        <button
          type="button"
          className="button button-quiet m-1 px-2"
          aria-label="Copy the output"
          onClick={() => void copy(text, "The output")}
        >
          <Copy size={15} aria-hidden="true" />
        </button>
      </div>
    </Part>
  );
};

export const Result = ({ board, onTab }: { board: TaskBoard; onTab: (tab: Tab) => void }) => {
  const { summary, goals, error } = board.task;
  const report = summary !== null && summary !== error ? summary : "";
  return (
    <section aria-label="Result" className="h-full overflow-y-auto" tabIndex={0}>
      <div className="mx-auto flex max-w-3xl flex-col gap-6 px-4 py-5 sm:px-6">
        <Headline board={board} onTab={onTab} />
        <FailingChecks board={board} onTab={onTab} />
        {report !== "" && (
          <Part title="Report">
            <Markdown text={report} />
          </Part>
        )}
        <Output output={board.task.output} />
        <Checks board={board} onTab={onTab} />
        <Contrast goals={goals} />
        <Review goals={goals} />
        <Commands board={board} />
        <Artifacts taskID={board.task.taskID} artifacts={board.artifacts} />
        <Preview task={board.task} />
      </div>
    </section>
  );
};
