import { Link } from "@tanstack/react-router";
import {
  Ban,
  ChevronDown,
  CircleCheck,
  CircleDashed,
  CircleDot,
  CircleX,
  Hammer,
  LoaderCircle,
  type LucideIcon,
  Pencil,
} from "lucide-react";
import type { MissionPhase, MissionStatus } from "../../../src/protocol/mission/status.ts";
import type { TaskSummary } from "../../../src/protocol/task/status.ts";
import { Aside } from "../component/layout/aside.tsx";
import { Progress } from "../component/layout/progress.tsx";
import { Inline } from "../component/text/inline.tsx";
import { StateIcon } from "../component/text/state.tsx";
import { Ago } from "../component/text/time.tsx";
import { stateOf, stateWord } from "../format.ts";
import { sharesOf } from "./state.ts";

/** The plan: each phase with what it waits for, its squad, and its Task. */

const states: Record<MissionPhase["state"], { icon: LucideIcon; tone: string; words: string }> = {
  waiting: { icon: CircleDashed, tone: "text-faint", words: "Blocked by earlier phases" },
  ready: { icon: CircleDot, tone: "text-need", words: "Ready" },
  producing: { icon: Hammer, tone: "text-run", words: "Its squad is being created" },
  running: { icon: LoaderCircle, tone: "text-run animate-turn", words: "In progress" },
  done: { icon: CircleCheck, tone: "text-done", words: "Done" },
  failed: { icon: CircleX, tone: "text-fail", words: "Failed" },
  cancelled: { icon: Ban, tone: "text-soft", words: "Cancelled" },
};

const TaskLine = ({ task, label }: { task: TaskSummary; label?: string }) => (
  <Link
    to="/ui/task/$taskID"
    params={{ taskID: task.taskID }}
    className="flex items-center gap-2 rounded-lg border border-line bg-card px-2 py-1 text-sm hover:border-edge"
  >
    <StateIcon state={stateOf(task)} size={14} />
    <span className="min-w-0 flex-1 truncate" dir="auto">
      {label !== undefined && <span className="text-faint">{label}: </span>}
      {task.title}
    </span>
    <span className="tabular shrink-0 text-xs text-soft">
      {stateWord(task)}
      {task.queue !== null && `, place ${task.queue.position}`}
    </span>
  </Link>
);

/** What the phase waits for from a person. */
const Waits = ({ wait: { kind, of, since } }: { wait: NonNullable<MissionPhase["waits"]> }) => (
  <span className="text-need">
    {`, waits for your ${kind === "question" ? "answer" : kind}${of === null ? "" : ` of the ${of}`}`}
    {since !== null && (
      <>
        {", asked "}
        <Ago at={since} />
      </>
    )}
  </span>
);

const Phase = ({
  phase,
  titles,
  tasks,
  general,
}: {
  phase: MissionPhase;
  titles: ReadonlyMap<string, string>;
  tasks: ReadonlyMap<string, TaskSummary>;
  /** Why a general squad does the phase; null: an earlier phase has shown the same reason. */
  general: string | null;
}) => {
  const { icon: Icon, tone, words } = states[phase.state];
  const made = tasks.get(phase.productionTaskID ?? "");
  const done = tasks.get(phase.taskID ?? "");
  const after = phase.after.map((id) => titles.get(id) ?? id).join(", ");
  const blocked = phase.state === "waiting" && after !== "";
  return (
    <li className="group/phase flex items-stretch gap-2 px-2">
      <span className="flex w-4 shrink-0 flex-col items-center">
        <Icon size={17} aria-hidden="true" className={`mt-0.5 shrink-0 ${tone}`} />
        <span
          aria-hidden="true"
          className={`my-1 w-0.5 flex-1 rounded-full group-last/phase:hidden ${phase.state === "done" ? "bg-done/45" : "bg-line"}`}
        />
      </span>
      <div className="flex min-w-0 flex-1 flex-col gap-2 pb-5">
        <p>
          <span className="font-medium" dir="auto">
            {phase.title}
          </span>
          <span className={`block text-xs ${tone.replace("animate-turn", "")}`}>
            {blocked ? `Blocked by ${after}` : words}
            {phase.waits !== null && <Waits wait={phase.waits} />}
            {phase.squad !== null && `, squad ${phase.squad.id}`}
            {phase.attempts > 1 && `, attempt ${phase.attempts}`}
            {phase.correction !== null &&
              `; a correction ${phase.correction === "failed" ? "failed" : "was cancelled"}`}
          </span>
        </p>
        {after !== "" && !blocked && <p className="text-xs text-faint">After {after}</p>}
        {general !== null && (
          <p className="line-clamp-2 text-xs text-faint" dir="auto" title={general}>
            General squad: {general}
          </p>
        )}
        {made !== undefined && <TaskLine task={made} label="Creating its squad" />}
        {done !== undefined && <TaskLine task={done} />}
        <details className="group text-sm">
          <summary className="flex list-none items-center gap-1 text-xs text-faint hover:text-ink">
            <ChevronDown size={13} aria-hidden="true" className="transition-transform group-open:rotate-180" />
            Objective
          </summary>
          <p className="mt-1 whitespace-pre-wrap text-soft" dir="auto">
            <Inline text={phase.objective} />
          </p>
          <ul className="mt-1 list-disc pl-4 text-soft">
            {phase.acceptance.map((line) => (
              <li key={line} dir="auto">
                <Inline text={line} />
              </li>
            ))}
          </ul>
        </details>
      </div>
    </li>
  );
};

const List = ({ mission }: { mission: MissionStatus }) => {
  const titles = new Map(mission.plan.map(({ id, title }) => [id, title]));
  const tasks = new Map(mission.tasks.map((task) => [task.taskID, task]));
  const planned = new Set(mission.plan.flatMap(({ taskID, productionTaskID }) => [taskID, productionTaskID]));
  const others = mission.tasks.filter(({ taskID }) => !planned.has(taskID));
  return (
    <>
      {mission.plan.length === 0 && <p className="px-2 text-soft">No plan yet.</p>}
      <ol className="flex flex-col">
        {mission.plan.map((phase) => (
          <Phase
            key={phase.id}
            phase={phase}
            titles={titles}
            tasks={tasks}
            general={mission.plan.find(({ general }) => general === phase.general) === phase ? phase.general : null}
          />
        ))}
      </ol>
      {others.length > 0 && (
        <section aria-label="Other Tasks" className="mt-3 flex flex-col gap-2 px-2">
          <h3 className="label">Other Tasks of this Mission</h3>
          {others.map((task) => (
            <TaskLine key={task.taskID} task={task} />
          ))}
        </section>
      )}
    </>
  );
};

export const Plan = ({ mission, onEdit }: { mission: MissionStatus; onEdit: () => void }) => {
  const done = mission.plan.filter(({ state }) => state === "done").length;
  const title = (
    <>
      Plan
      {mission.plan.length > 0 && (
        <span className="tabular font-normal text-faint">
          {done} of {mission.plan.length} done
        </span>
      )}
    </>
  );
  return (
    <Aside label="Plan" title={title}>
      {mission.plan.length > 0 && (
        <div className="mb-4 px-2">
          <Progress label="Phases" shares={sharesOf(mission)} />
        </div>
      )}
      <List mission={mission} />
      <button type="button" className="button mx-2 mt-3" onClick={onEdit}>
        <Pencil size={15} aria-hidden="true" />
        Edit plan
      </button>
    </Aside>
  );
};
