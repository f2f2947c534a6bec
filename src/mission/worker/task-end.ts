import type { DomainEvent, Recorded } from "../../domain/event.ts";
import { isPlanDue } from "../../domain/mission/approval.ts";
import { evolveMission } from "../../domain/mission/evolve.ts";
import { type PhaseState, phaseState } from "../../domain/mission/plan.ts";
import { type Dispatched, endedOf, isRunning, type MissionState, outcomeOf } from "../../domain/state/mission.ts";
import { noUsage } from "../../domain/state/stream.ts";
import { publishedCommit } from "../../domain/task/landing.ts";
import { ServiceError } from "../../error.ts";
import type { EventData } from "../../protocol/event/event.ts";
import { ofMission } from "../../protocol/event/source.ts";
import type { TaskStatus, TaskSummary } from "../../protocol/task/status.ts";
import { endedIn, minutesUntil } from "../../task/unreported-end.ts";
import { filesIn } from "../../task/workspace/read-diff.ts";
import { wholeOf } from "../../store/blob/piece.ts";
import { loadText } from "../../store/blob/text.ts";
import { WorkspaceLost } from "../../workspace/error.ts";
import type { MissionRun } from "../run.ts";
import { askFacts } from "./task-ask.ts";
import { verifyProducedSquad } from "./produced-squad.ts";
import { shortDiff } from "../tool/task-evidence.ts";
import { readVerdict } from "../verdict.ts";

/**
 * Records the ends and the questions of a Mission's Tasks: one event for each ended attempt, and for each question,
 * that the fold lacks, committed at the version it was decided at. So each is recorded exactly once, even if a nudge is
 * lost, doubled or late.
 */

/** Most characters of a Task's last reply or error that are recorded. */
const longestWords = 4000;

export const recordTaskEnds = async (run: MissionRun): Promise<void> => {
  for (;;) {
    const state = run.state();
    if (state.aborted !== null) return;
    if (state.tasks.length === 0) return;
    const rows = new Map((await run.store.dispatched(run.stream)).map((row) => [row.taskID, row]));
    const events: DomainEvent[] = askFacts(state, rows);
    for (const task of state.tasks) events.push(...(await endsOf(run, task, rows.get(task.taskID))));
    if (events.length === 0) break;
    await run.record(withPlan(state, events), { decidedAt: state.version });
  }
  for (;;) {
    const state = run.state();
    const task = state.tasks.find(
      (one) => one.production !== null && one.reconciled === null && outcomeOf(one) === "completed" && !isRunning(one),
    );
    if (task === undefined) return;
    await run.record([await verifyProducedSquad(run, task)], { decidedAt: state.version });
  }
};

/** Adds the plan as it is after all events to the last of them, so that it is told once. */
const withPlan = (state: MissionState, events: readonly DomainEvent[]): DomainEvent[] => {
  const after = events.reduce((so, event) => {
    const at = { stream: state.sessionID, position: so.position, version: so.version + 1, at: so.updatedAt };
    return evolveMission(so, { ...event, ...at });
  }, state);
  const phases = (...states: PhaseState[]) =>
    after.plan.filter((phase) => states.includes(phaseState(after, phase))).map(({ id }) => id);
  const plan = {
    ready: phases("ready").slice(0, mostNamed),
    running: phases("running", "producing").slice(0, mostNamed),
    left: after.plan.length - phases("done").length,
    ...(isPlanDue(after) ? { unapproved: true as const } : {}),
  };
  return events.map((event, at) =>
    event.type === "task.ended" && at === events.length - 1 ? { ...event, data: { ...event.data, plan } } : event,
  );
};

const mostNamed = 50;

/** What the service observed of a Task's newest attempt, as far as the Mission's agent decides by it. */
const evidenceOf = async (
  run: MissionRun,
  status: TaskStatus,
): Promise<NonNullable<EventData["task.ended"]["evidence"]>> => ({
  diffStat: status.git.diffStat,
  ...(await filesOf(run, status)),
  checks: await checksOf(run, status),
  contrast:
    status.goals
      .flatMap(({ evidence }) => evidence)
      .findLast(({ kind, stale }) => kind === "contrast" && !stale)
      ?.summary.slice(0, longestNotes) ?? null,
  reviews: status.goals
    .flatMap(({ contract, review }) =>
      review.verdict === null
        ? []
        : [{ title: contract.title, verdict: review.verdict, notes: (review.notes ?? "").slice(0, longestNotes) }],
    )
    .slice(-mostReviews),
});

/** The files of the Task's change, and the diff itself if it is short; empty if the diff is no longer available. */
const filesOf = async (run: MissionRun, { taskID, git }: TaskStatus): Promise<Pick<Evidence, "files" | "diff">> => {
  if (git.diffStat === null || git.diffStat.files === 0) return {};
  const diff = (await orNothing(() => run.tasks.diff(taskID))) ?? "";
  const files = await filesIn(diff, run.signal);
  if (files.length === 0) return {};
  return {
    ...(diff.length <= shortDiff ? { diff } : {}),
    files: files.slice(0, mostFiles).map(({ path, how, insertions, deletions }) => ({
      path: path.slice(0, longestPath),
      how,
      insertions,
      deletions,
    })),
  };
};

const checksOf = async (run: MissionRun, { taskID, checks }: TaskStatus): Promise<Evidence["checks"]> => {
  const red = new Set(checks.filter(isRed).slice(0, mostTails));
  return Promise.all(
    checks.slice(0, mostNamed).map(async (check) => {
      const { id, name, state, required } = check;
      const log = red.has(check)
        ? await orNothing(async () => wholeOf(await run.tasks.checkLog(taskID, id)))
        : undefined;
      const tail = log?.toString("utf8").trimEnd().slice(-longestTail) ?? "";
      return { name: name.slice(0, 200), state, required, ...(tail === "" ? {} : { tail }) };
    }),
  );
};

const isRed = ({ state }: TaskStatus["checks"][number]): boolean => state === "failed" || state === "error";

/** undefined: it is gone, or only another node has it. The Mission does not wait for a node that may be gone. */
const orNothing = async <T>(work: () => Promise<T>): Promise<T | undefined> =>
  work().catch((error: unknown) => {
    if (error instanceof WorkspaceLost) return undefined;
    if (error instanceof ServiceError && (!error.retryable || error.code === "node_away")) return undefined;
    throw error;
  });

type Evidence = NonNullable<EventData["task.ended"]["evidence"]>;

const mostFiles = 20;
const longestPath = 200;
const mostTails = 3;
const longestTail = 1000;
const longestNotes = 1000;
const mostReviews = 10;

const endsOf = async (run: MissionRun, task: Dispatched, row: TaskSummary | undefined): Promise<DomainEvent[]> => {
  const known = endedOf(task);
  const { taskID, phase, title } = task;
  const at = { sessionID: run.stream, taskID, phase, title };
  if (row === undefined)
    return isRunning(task)
      ? [
          {
            type: "task.ended",
            data: {
              ...at,
              attempt: known + 1,
              outcome: "deleted",
              error: "The Task was deleted.",
              summary: "",
              landedCommit: null,
              branch: null,
              usage: noUsage,
            },
          },
        ]
      : [];
  const ended = endedIn(row);
  if (ended <= known) return [];
  const facts = await run.store.read(taskID, { types: ["task.settled", "cancel.requested", "landing.finished"] });
  const settled = facts.filter((event) => event.type === "task.settled");
  return Promise.all(
    settled.slice(known, ended).map(async (event, index): Promise<DomainEvent> => {
      const attempt = known + index + 1;
      const { lifecycleStatus, error, errorInfo, summary } = event.data;
      const newest = attempt === row.attempt && row.lifecycleStatus !== "active";
      const status = newest ? await statusOf(run, taskID) : undefined;
      // The whole report of the work; a Task's last message may be only an answer to its reviewer.
      const words = status?.summary ?? (await loadText(run.store.blobs, summary));
      return {
        type: "task.ended",
        data: {
          ...at,
          attempt,
          outcome: lifecycleStatus,
          ...(error === undefined ? {} : { error: error.slice(0, longestWords) }),
          ...(errorInfo === undefined ? {} : { code: errorInfo.code }),
          ...(lifecycleStatus === "cancelled" ? byUser(facts.slice(0, facts.indexOf(event))) : {}),
          summary: words.length > longestWords ? `${words.slice(0, longestWords)}…` : words,
          landedCommit: lifecycleStatus === "completed" ? landedBetween(facts, settled[attempt - 2], event) : null,
          branch: row.git.branch,
          usage: row.usage,
          ...verdictOf(task, status),
          minutes: await minutesUntil(run.store, event),
          ...(status === undefined ? {} : { evidence: await evidenceOf(run, status) }),
        },
      };
    }),
  );
};

/**
 * The commit that landed in the attempt that ended with `end`, however many began since; null: none. `before`: the end
 * of the attempt before it.
 */
const landedBetween = (facts: readonly Recorded[], before: Recorded | undefined, end: Recorded): string | null => {
  const landing = facts.findLast(
    (event) =>
      event.type === "landing.finished" && event.version > (before?.version ?? 0) && event.version < end.version,
  );
  return landing?.type === "landing.finished" ? publishedCommit(landing.data) : null;
};

/** Whether a person had the Task cancelled, by what was recorded before its end. Aborting a Mission counts as well. */
const byUser = (before: readonly Recorded[]): Pick<EventData["task.ended"], "cancelledByUser"> => {
  const request = before.findLast((event) => event.type === "cancel.requested");
  if (request === undefined || ofMission(request.data.surface, request.data)) return {};
  return { cancelledByUser: { reason: request.data.reason.slice(0, longestWords) } };
};

/** The verdict of a Task that judges the whole, if it gave one. */
const verdictOf = (
  { judges }: Dispatched,
  status: TaskStatus | undefined,
): Pick<EventData["task.ended"], "verdict"> => {
  const said = judges === undefined ? undefined : readVerdict(status?.output);
  return said === undefined ? {} : { verdict: said };
};

/** undefined: the Task was deleted meanwhile. */
const statusOf = async (run: MissionRun, taskID: string): Promise<TaskStatus | undefined> =>
  run.tasks.status(taskID).catch((error: unknown) => {
    if (error instanceof ServiceError && error.code === "task_not_found") return undefined;
    throw error;
  });
