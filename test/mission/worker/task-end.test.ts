import { expect, test } from "vitest";
import type { DomainEvent, Recorded } from "../../../src/domain/event.ts";
import { deliveriesOf } from "../../../src/mission/delivery.ts";
import type { MissionRun } from "../../../src/mission/run.ts";
import { recordTaskEnds } from "../../../src/mission/worker/task-end.ts";
import { dispatched, missionLog, phase, woken } from "../../harness/mission-log.ts";

/** What a Mission records of its Tasks' attempts, also of those that it hears of late. */

const sessionID = "ses_1";
const taskID = "task_work";
const at = "2026-11-21T08:00:00.000Z";
const [first, second, third] = ["a", "b", "c"].map((letter) => letter.repeat(40)) as [string, string, string];

const settled = (lifecycleStatus: "completed" | "failed", summary: string) =>
  ({ type: "task.settled", data: { lifecycleStatus, summary } }) as unknown as DomainEvent;
const landing = (commit: string): DomainEvent => ({
  type: "landing.finished",
  data: { commit, tree: commit, ref: "refs/heads/main", kept: [] },
});

/** The Mission hears of these facts of its one Task, whose newest attempt runs; its log afterwards. */
const heard = async (facts: readonly DomainEvent[], attempt: number) => {
  const log = missionLog("branch");
  log.add(...woken(), { type: "plan.written", data: { sessionID, callID: "p", phases: [phase("a")] } });
  log.add(dispatched("work"));
  const recorded = facts.map((fact, index) => ({ ...fact, stream: taskID, version: index + 1, at }) as Recorded);
  const row = {
    taskID,
    attempt,
    lifecycleStatus: "active",
    pending: [],
    git: { landedCommit: null, branch: null },
    usage: log.state().usage,
  };
  const run = {
    stream: sessionID,
    state: log.state,
    record: (events: readonly DomainEvent[]) => Promise.resolve(log.add(...events)),
    store: {
      dispatched: () => Promise.resolve([row]),
      state: () => Promise.resolve(undefined),
      read: (_stream: string, { types }: { types?: readonly string[] }) =>
        Promise.resolve(recorded.filter(({ type }) => types?.includes(type))),
    },
  } as unknown as MissionRun;
  await recordTaskEnds(run);
  return log.state();
};

test("an attempt that landed is told with its commit, although a follow-up began before the Mission heard of it", async () => {
  const state = await heard([landing(first), settled("completed", "There is a.")], 2);
  expect(state.tasks[0]?.ends).toMatchObject([{ attempt: 1, outcome: "completed", landedCommit: first }]);
  expect(state.unmerged).toBe(true);
  expect(deliveriesOf(state, "a")).toMatchObject([{ summary: "There is a." }]);
});

test("each attempt has what landed in it, the newest; control: none where nothing did, or the attempt failed", async () => {
  const facts = [
    landing(first),
    settled("completed", "One."),
    settled("completed", "An answer."),
    landing(second),
    landing(third),
    settled("completed", "Three."),
    settled("failed", "Four."),
  ];
  const state = await heard(facts, 5);
  expect(state.tasks[0]?.ends.map(({ landedCommit }) => landedCommit)).toEqual([first, null, third, null]);
});
