import { Link } from "@tanstack/react-router";
import { Milestone } from "lucide-react";
import type { TaskSummary } from "../../../src/protocol/task/status.ts";
import { Inline } from "../component/text/inline.tsx";
import { NowLine } from "../component/text/now.tsx";
import { CheckIcon, StateBadge } from "../component/text/state.tsx";
import { Ago, Elapsed } from "../component/text/time.tsx";
import { costWords, count, stateOf } from "../format.ts";

const checksIcon = ({ total, passed, failed, error }: TaskSummary["checkCounts"]) =>
  failed > 0 ? "failed" : error > 0 ? "error" : passed === total ? "passed" : "pending";

/** The details of a card below its title; only those that exist. */
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
        <span className="tabular inline-flex gap-1.5" title={`${count(git.diffStat.files, "file")} changed`}>
          <span className="text-done">+{git.diffStat.insertions}</span>
          <span className="text-fail">−{git.diffStat.deletions}</span>
        </span>
      )}
      {usage.modelCalls > 0 && usage.costUSD !== 0 && <span className="tabular">{costWords(usage)}</span>}
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

const Row = ({ task }: { task: TaskSummary }) => (
  <Link
    to="/ui/task/$taskID"
    params={{ taskID: task.taskID }}
    data-row={task.taskID}
    className="group flex flex-col gap-1.5 px-4 py-3.5 -outline-offset-2 transition-colors hover:bg-hover sm:px-5"
  >
    <span className="flex items-start justify-between gap-4">
      <span className="line-clamp-2 min-w-0 font-semibold" dir="auto" title={task.title}>
        {task.title}
      </span>
      <StateBadge task={task} />
    </span>
    <NowLine now={task.now} />
    {task.pending[0] !== undefined && (
      <span className="line-clamp-2 text-need" dir="auto">
        {task.pending[0].prompt}
      </span>
    )}
    {task.error !== undefined && task.lifecycleStatus === "failed" && (
      <span className="line-clamp-1 text-sm text-fail" dir="auto" title={task.error}>
        <Inline text={task.error} />
      </span>
    )}
    <span className="flex flex-wrap items-center justify-between gap-x-4 gap-y-1">
      <Facts task={task} />
      <span className="text-sm text-faint">
        <Ago at={task.updated} />
      </span>
    </span>
  </Link>
);

const Rows = ({ tasks, tone }: { tasks: readonly TaskSummary[]; tone: string }) => (
  <ul className={`card divide-y divide-line overflow-hidden ${tone}`}>
    {tasks.map((task) => (
      <li key={task.taskID}>
        <Row task={task} />
      </li>
    ))}
  </ul>
);

/** The list, with the Tasks that wait for the user first. */
export const TaskList = ({ tasks }: { tasks: readonly TaskSummary[] }) => {
  const waiting = tasks.filter((task) => stateOf(task) === "need");
  const rest = tasks.filter((task) => stateOf(task) !== "need");
  return (
    <div className="flex flex-col gap-4">
      {waiting.length > 0 && <Rows tasks={waiting} tone="border-need/40" />}
      {rest.length > 0 && <Rows tasks={rest} tone="" />}
    </div>
  );
};
