import { useMemo } from "react";
import type { TaskStatus } from "../../../../src/protocol/task/status.ts";
import { useNow } from "../../component/text/time.tsx";
import { duration, ticking } from "../../format.ts";
import type { Log } from "../conversation/log.ts";
import type { Stage } from "../../../../src/protocol/stage.ts";
import { passageOf, type Step, stepsOf } from "./stages.ts";

/** The five stages of a Task with their times; the current one is marked. */

const names: Record<Stage, string> = {
  queue: "Queue",
  work: "Work",
  checks: "Checks",
  review: "Review",
  land: "Land",
};

const looks: Record<Step["state"], { bar: string; text: string; words: string }> = {
  done: { bar: "bg-done", text: "text-soft", words: "done" },
  now: { bar: "bg-run", text: "font-semibold text-run", words: "in progress" },
  failed: { bar: "bg-fail", text: "font-semibold text-fail", words: "failed here" },
  stopped: { bar: "bg-edge", text: "font-semibold text-soft", words: "cancelled here" },
  ahead: { bar: "bg-line", text: "text-faint", words: "not started" },
  skipped: { bar: "bg-line", text: "text-faint", words: "skipped" },
};

const marks: Partial<Record<Step["state"], string>> = { done: "✓", failed: "✕", stopped: "–" };

const Segment = ({ step, waits }: { step: Step; waits: boolean }) => {
  const { stage, state, spent, since } = step;
  const present = useNow(since !== null);
  const { bar, text, words } = looks[state];
  const waiting = state === "now" && waits;
  const running = since === null ? 0 : Math.max(0, present - Date.parse(since));
  const ms = since === null ? spent : (spent ?? 0) + running;
  return (
    <li
      {...(state === "now" ? { "aria-current": "step" as const } : {})}
      data-state={state}
      className="flex min-w-0 flex-1 flex-col gap-1"
    >
      <span aria-hidden="true" className="h-1 overflow-hidden rounded-full bg-line">
        <span
          className={`block h-full rounded-full ${waiting ? "bg-need" : bar} ${state === "now" ? "w-1/2 animate-fill motion-reduce:w-full" : "w-full"}`}
        />
      </span>
      <span className={`flex flex-wrap items-baseline gap-x-2 text-xs ${waiting ? "font-semibold text-need" : text}`}>
        <span className="whitespace-nowrap">
          {names[stage]}
          {marks[state] !== undefined && <span aria-hidden="true"> {marks[state]}</span>}
          <span className="sr-only">, {waiting ? "waits for you" : words}</span>
        </span>
        {ms !== null && state !== "ahead" && (
          <span className="tabular font-normal whitespace-nowrap">{since === null ? duration(ms) : ticking(ms)}</span>
        )}
      </span>
    </li>
  );
};

export const Stages = ({ task, log }: { task: TaskStatus; log: Log }) => {
  const frames = log.frames();
  const whole = log.older() === "none";
  const passage = useMemo(() => (whole ? passageOf(frames) : undefined), [whole, frames]);
  return (
    <ol aria-label="Stages" className="mt-3 flex max-w-3xl gap-2">
      {stepsOf(task, passage).map((step) => (
        <Segment key={step.stage} step={step} waits={task.pending.length > 0} />
      ))}
    </ol>
  );
};
