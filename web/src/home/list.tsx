import { Link } from "@tanstack/react-router";
import { Milestone } from "lucide-react";
import type { ReactNode } from "react";
import type { Overview } from "../../../src/protocol/overview.ts";
import type { TaskSummary } from "../../../src/protocol/task/status.ts";
import { Inline } from "../component/text/inline.tsx";
import { NowLine } from "../component/text/now.tsx";
import { CheckIcon, StateIcon } from "../component/text/state.tsx";
import { Ago, Elapsed } from "../component/text/time.tsx";
import { cost, count, stateOf, stateWord } from "../format.ts";
import { nameOf, projectOf } from "../place.ts";
import { AskLink } from "./needs-you.tsx";

const checksIcon = ({ total, passed, failed, error }: TaskSummary["checkCounts"]) =>
  failed > 0 ? "failed" : error > 0 ? "error" : passed === total ? "passed" : "pending";

/** The details below the title of a card; those without a value are left out. */
export const Facts = ({ task }: { task: TaskSummary }) => {
  const { checkCounts: checks, git, usage } = task;
  const active = task.lifecycleStatus === "active";
  return (
    <span className="flex flex-wrap items-center gap-x-4 gap-y-1 text-sm text-soft">
      <span>{task.squad.id}</span>
      {task.startedAt !== null && <Elapsed from={task.startedAt} to={active ? null : task.settledAt} />}
      {checks.total > 0 && (
        <span className="inline-flex items-center gap-1">
          <CheckIcon state={checksIcon(checks)} size={14} />
          <span className="tabular">
            {checks.passed}/{checks.total} checks
          </span>
        </span>
      )}
      {git.diffStat !== null && git.diffStat.files > 0 && (
        <span className="tabular inline-flex gap-2" title={`${count(git.diffStat.files, "file")} changed`}>
          <span className="text-done">+{git.diffStat.insertions}</span>
          <span className="text-fail">−{git.diffStat.deletions}</span>
        </span>
      )}
      {usage.costUSD !== null && usage.costUSD !== 0 && <span className="tabular">{cost(usage)}</span>}
      {task.priority !== "normal" && <span className="capitalize">{task.priority}</span>}
      {task.missionID !== undefined && (
        <span className="inline-flex items-center gap-1">
          <Milestone size={14} aria-hidden="true" />
          Mission
        </span>
      )}
      {task.archived && <span>Archived</span>}
    </span>
  );
};

/** The text after the title: the question, the present activity, or the reason of the failure. */
export const Line = ({ task }: { task: TaskSummary }) => {
  const [ask] = task.pending;
  if (ask !== undefined)
    return (
      <span className="truncate text-sm text-need" dir="auto">
        <Inline text={ask.prompt} />
      </span>
    );
  if (task.now !== null) return <NowLine now={task.now} queue={task.queue} />;
  if (task.error !== undefined && task.lifecycleStatus === "failed")
    return (
      <span className="truncate text-sm text-fail" dir="auto" title={task.error}>
        <Inline text={task.error} />
      </span>
    );
  return stateOf(task) === "doubt" ? <span className="truncate text-sm text-need">Not verified</span> : null;
};

const Marks = ({ task, named }: { task: TaskSummary; named: boolean }) => {
  const { checkCounts: checks, git } = task;
  return (
    <span className="tabular flex shrink-0 items-center gap-3 text-sm text-soft max-sm:flex-wrap max-sm:gap-y-0">
      {named && <span className="max-w-40 truncate">{nameOf(projectOf(task))}</span>}
      {task.repository !== null && task.repository.ref !== null && (
        <span className="max-w-32 truncate font-mono text-xs" title={`${task.repository.url}, ${task.repository.ref}`}>
          {task.repository.ref}
        </span>
      )}
      {task.priority !== "normal" && <span className="capitalize">{task.priority}</span>}
      {task.archived && <span>Archived</span>}
      {task.missionID !== undefined && <Milestone size={14} role="img" aria-label="Part of a Mission" />}
      {checks.total > 0 && task.lifecycleStatus !== "active" && (
        <span className="inline-flex items-center gap-1">
          <CheckIcon state={checksIcon(checks)} size={14} />
          {checks.passed}/{checks.total}
          <span className="sr-only">checks</span>
        </span>
      )}
      {git.diffStat !== null && git.diffStat.files > 0 && (
        <span className="inline-flex gap-2" title={`${count(git.diffStat.files, "file")} changed`}>
          <span className="text-done">+{git.diffStat.insertions}</span>
          <span className="text-fail">−{git.diffStat.deletions}</span>
        </span>
      )}
      <span className="min-w-20 text-faint sm:text-end">
        <Ago at={task.updated} />
      </span>
    </span>
  );
};

const Row = ({ task, named }: { task: TaskSummary; named: boolean }) => (
  <Link
    to="/ui/task/$taskID"
    params={{ taskID: task.taskID }}
    data-row={task.taskID}
    className="flex min-h-11 items-start gap-3 px-4 py-2 -outline-offset-2 transition-colors hover:bg-hover sm:items-center sm:py-1"
  >
    <span className="max-sm:mt-0.5" title={stateWord(task)}>
      <StateIcon state={stateOf(task)} />
    </span>
    <span className="flex min-w-0 flex-1 flex-col gap-x-4 sm:flex-row sm:items-center">
      <span className="flex min-w-0 flex-col gap-x-3 sm:flex-1 sm:flex-row sm:items-baseline">
        <span className="max-w-full min-w-0 shrink-0 truncate font-medium sm:max-w-[60%]" dir="auto" title={task.title}>
          {task.title}
        </span>{" "}
        <span className="sr-only">{stateWord(task)}</span>
        <Line task={task} />
      </span>
      <Marks task={task} named={named} />
    </span>
  </Link>
);

const Group = ({
  words,
  number,
  tone = "",
  children,
}: {
  words: string;
  number: number;
  tone?: string;
  children: ReactNode;
}) => (
  <section aria-label={words} className="flex flex-col gap-2">
    <h2 className={`flex items-baseline gap-2 px-1 text-sm font-semibold ${tone}`}>
      {words}
      <span className="tabular font-normal text-faint">{number}</span>
    </h2>
    <ul className={`card divide-y divide-line overflow-hidden ${tone === "" ? "" : "border-need/40"}`}>{children}</ul>
  </section>
);

/**
 * The Tasks, ordered by how much they need the user. `asks`: the open asks of all projects; those of Tasks in the list
 * are shown with them. `named`: each Task is shown with its project, because the list has several.
 */
export const TaskList = ({
  tasks,
  asks,
  counts,
  named = false,
}: {
  tasks: readonly TaskSummary[];
  asks: Overview["pending"];
  counts: Pick<Overview["total"], "running" | "queued"> | undefined;
  named?: boolean;
}) => {
  const need = tasks.filter((task) => stateOf(task) === "need");
  const run = tasks.filter((task) => stateOf(task) === "run" || stateOf(task) === "queue");
  const recent = tasks.filter((task) => !need.includes(task) && !run.includes(task));
  const elsewhere = asks.filter(({ taskID }) => !need.some((task) => task.taskID === taskID));
  const rows = (list: readonly TaskSummary[]) =>
    list.map((task) => (
      <li key={task.taskID}>
        <Row task={task} named={named} />
      </li>
    ));
  return (
    <div className="flex flex-col gap-5">
      {need.length + elsewhere.length > 0 && (
        <Group words="Needs you" number={need.length + elsewhere.length} tone="text-need">
          {rows(need)}
          {elsewhere.map((ask) => (
            <li key={ask.id}>
              <AskLink ask={ask} />
            </li>
          ))}
        </Group>
      )}
      {run.length > 0 && (
        <Group words="Running" number={Math.max(run.length, (counts?.running ?? 0) + (counts?.queued ?? 0))}>
          {rows(run)}
        </Group>
      )}
      {recent.length > 0 && (
        <Group words="Recent" number={recent.length}>
          {rows(recent)}
        </Group>
      )}
    </div>
  );
};
