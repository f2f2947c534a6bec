import { timeUntil } from "../../domain/session/work-time.ts";
import type { DomainEvent, Recorded } from "../../domain/event.ts";
import { evolve } from "../../domain/task/evolve.ts";
import { type Dispatched, endedOf, outcomeOf } from "../../domain/state/mission.ts";
import { noUsage } from "../../domain/state/stream.ts";
import type { TaskSummary } from "../../protocol/task/status.ts";
import { loadText } from "../../store/blob/text.ts";
import type { MissionRun } from "../run.ts";
import { verifyProducedSquad } from "./produced-squad.ts";

/**
 * Records what became of a Mission's Tasks: one event for each ended attempt that its fold lacks, committed at the
 * version it was decided at. So each end is recorded exactly once, even if a nudge is lost, doubled or late.
 */

/** Longest text of a Task's last reply or error that is recorded, in characters. */
const longestWords = 4000;

export const recordTaskEnds = async (run: MissionRun): Promise<void> => {
  for (;;) {
    const state = run.state();
    if (state.aborted !== null) return;
    if (state.tasks.length === 0) return;
    const rows = new Map((await run.store.dispatched(run.stream)).map((row) => [row.taskID, row]));
    const events: DomainEvent[] = [];
    for (const task of state.tasks) events.push(...(await endsOf(run, task, rows.get(task.taskID))));
    if (events.length === 0) break;
    await run.record(events, { decidedAt: state.version });
  }
  for (;;) {
    const state = run.state();
    const task = state.tasks.find(
      (one) => one.production !== null && one.reconciled === null && outcomeOf(one) === "completed" && !one.reopened,
    );
    if (task === undefined) return;
    await run.record([await verifyProducedSquad(run, task)], { decidedAt: state.version });
  }
};

const endsOf = async (run: MissionRun, task: Dispatched, row: TaskSummary | undefined): Promise<DomainEvent[]> => {
  const known = endedOf(task);
  const { taskID, phase, title } = task;
  const at = { sessionID: run.stream, taskID, phase, title };
  if (row === undefined)
    return outcomeOf(task) === undefined || task.reopened
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
  const ended = row.lifecycleStatus === "active" ? row.attempt - 1 : row.attempt;
  if (ended <= known) return [];
  const settled = await run.store.read(taskID, { types: ["task.settled"] });
  return Promise.all(
    settled.slice(known, ended).map(async (event, index): Promise<DomainEvent> => {
      if (event.type !== "task.settled") throw new Error(`Expected task.settled, got ${event.type}`);
      const attempt = known + index + 1;
      const { lifecycleStatus, error, summary } = event.data;
      const words = await loadText(run.store.blobs, summary);
      return {
        type: "task.ended",
        data: {
          ...at,
          attempt,
          outcome: lifecycleStatus,
          ...(error === undefined ? {} : { error: error.slice(0, longestWords) }),
          summary: words.length > longestWords ? `${words.slice(0, longestWords)}…` : words,
          landedCommit: attempt === row.attempt && lifecycleStatus === "completed" ? row.git.landedCommit : null,
          branch: row.git.branch,
          usage: row.usage,
          minutes: await minutesOf(run, event),
        },
      };
    }),
  );
};

/**
 * Minutes that the ended attempt worked. For an attempt before the newest one the Task's log is folded anew, which is
 * rare.
 */
const minutesOf = async ({ store }: MissionRun, { stream, version, at }: Recorded): Promise<number> => {
  let state = await store.state(stream);
  if (state?.version !== version) {
    state = undefined;
    for (const event of await store.read(stream, { limit: version })) state = evolve(state, event);
  }
  return state === undefined ? 0 : timeUntil(state, at) / 60_000;
};
