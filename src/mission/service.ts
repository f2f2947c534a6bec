import type { DomainEvent, StreamID } from "../domain/event.ts";
import { type Counts, missionStatusOf, rowOf, summaryOf } from "../domain/mission/status.ts";
import { nextStep } from "../domain/mission/next.ts";
import { answer, asksClosedBy } from "../domain/session/ask.ts";
import type { MissionState } from "../domain/state/mission.ts";
import { dueNow } from "../engine/due.ts";
import { messageOf, ServiceError } from "../error.ts";
import type { MissionAborted, MissionAnswered, MissionPlanned, MissionStatus } from "../protocol/mission/status.ts";
import type { TaskSummary } from "../protocol/task/status.ts";
import { idempotencyRecord, replay } from "../task/operation/idempotency.ts";
import { reachCommits } from "../task/query/elsewhere.ts";
import { withQueuePlaces } from "../task/query/queue-place.ts";
import { soFarOf, withSoFar } from "../task/query/progress.ts";
import { messagesIn } from "../task/query/message.ts";
import type { Accepted, IdempotencyKey } from "../task/tasks.ts";
import { unheardMinutes } from "../task/unreported-end.ts";
import type { Missions, MissionsDeps } from "./missions.ts";
import { createWake } from "./wake.ts";
import { createMerge } from "./merge.ts";
import { planAnswerEvents } from "./plan/approval.ts";
import { editPlan } from "./plan/edit.ts";
import { mayProduce } from "./run.ts";

type Change<T> = { events: DomainEvent[]; wakes?: boolean; revokes?: boolean; body: T };

export const createMissions = (deps: MissionsDeps): Missions => {
  const { store, engine, tasks, now } = deps;

  const find: Missions["find"] = async (directory, missionID) => {
    const project = directory === undefined ? undefined : (await deps.workspaces.inspect(directory)).project;
    const [first, ...others] = await store.missionsNamed(missionID, project);
    if (others.length > 0)
      throw new ServiceError(
        "directory_required",
        `Expected the project directory: the Mission id ${missionID} exists in ${others.length + 1} projects.`,
      );
    if (first !== undefined) return first;
    if (project !== undefined && (await store.missionsNamed(missionID)).length > 0)
      throw new ServiceError(
        "directory_mismatch",
        `Expected the project of the Mission ${missionID}, got ${directory}, which has none of this id.`,
      );
    throw notFound();
  };

  const stateFrom = async (sessionID: StreamID): Promise<MissionState> => {
    const state = await store.mission(sessionID);
    if (state === undefined) throw notFound();
    return state;
  };
  const stateOf = async (directory: string | undefined, missionID: string): Promise<MissionState> =>
    stateFrom(await find(directory, missionID));

  const statusFrom = async (state: MissionState, tasks: TaskSummary[]): Promise<MissionStatus> =>
    missionStatusOf(state, tasks, {
      mayProduce: state.squads.length === 0 && mayProduce(state, deps.production),
      now: now(),
      unheard: await unheardMinutes(store, state, new Map(tasks.map((task) => [task.taskID, task]))),
    });

  const statusOf = async (sessionID: StreamID): Promise<MissionStatus> => {
    const state = await stateFrom(sessionID);
    const dispatched = await store.dispatched(sessionID);
    const tasks = await withQueuePlaces(store, dispatched, now(), deps.disk.shortage());
    const status = await statusFrom(state, withSoFar(store.live, state.project, tasks));
    return { ...status, now: soFarOf(store.live, { taskID: sessionID, project: state.project }, status.now) };
  };

  /** Commits what `decide` returns for the newest state. When another commit came first, it folds and decides again. */
  const change = async <T extends object>(
    directory: string | undefined,
    missionID: string,
    once: IdempotencyKey | undefined,
    decide: (state: MissionState) => Change<T> | Promise<Change<T>>,
    urgent = false,
  ): Promise<Accepted<T>> => {
    for (;;) {
      const state = await stateOf(directory, missionID);
      const { events, wakes = false, revokes = false, body } = await decide(state);
      const stream = state.sessionID;
      const due = dueNow(now(), state.priority);
      if (events.length === 0 && once === undefined) return { status: 200, body, replayed: false };
      const done = await store.commit({
        appends: [{ stream, expected: state.version, events }],
        ...(wakes ? { due: [{ stream, due }] } : revokes ? { due: [{ stream, due: null }] } : {}),
        ...(revokes ? { revoke: [stream] } : {}),
        ...(once === undefined ? {} : { once: idempotencyRecord(once, 200, body, "eventID" in body) }),
        urgent,
      });
      if (done.ok) {
        if (revokes) void engine.interrupt(stream);
        if (wakes) engine.nudge(stream, due);
        const eventID = done.recorded.at(-1)?.position ?? state.position;
        return { status: 200, body: "eventID" in body ? { ...body, eventID } : body, replayed: false };
      }
      if (done.reason === "once") return replay(done.bodyHash, done.stored, once);
    }
  };

  /** Cancels the Mission's running Tasks. */
  const cancelTasks = async (state: MissionState, surface: string, reason: string): Promise<void> => {
    const running = (await store.dispatched(state.sessionID)).filter(({ status }) => status === "running");
    await Promise.all(
      running.map(({ taskID }) =>
        tasks.cancel(state.directory, taskID, { surface, reason }).catch((error: unknown) => {
          // It ended by itself or was deleted, which is as good.
          if (error instanceof ServiceError && (error.code === "task_settled" || error.code === "task_not_found"))
            return;
          deps.log.warn({ task: taskID, error: messageOf(error) }, "a Mission's Task could not be cancelled");
          throw error;
        }),
      ),
    );
  };

  return {
    find,
    wake: createWake(deps, stateOf),

    async list(directory, query, signal) {
      const project = directory === undefined ? {} : { project: (await deps.workspaces.inspect(directory)).project };
      return (await store.missions({ ...query, ...project }, signal)).map(({ row, stats }) => summaryOf(row, stats));
    },

    status: async (directory, missionID) => statusOf(await find(directory, missionID)),
    statusOf,

    async messages(directory, missionID, page, signal) {
      const state = await stateOf(directory, missionID);
      const asked = { ...page, open: state.open };
      return { ...(await messagesIn(store, state.sessionID, asked, signal)), total: state.messages };
    },

    async update(directory, missionID, patch) {
      await change(directory, missionID, undefined, (state) => ({
        events: [{ type: "mission.updated", data: { sessionID: state.sessionID, ...patch } }],
        // A Mission that stands still without having recorded it yet is woken to record it.
        wakes: nextStep(state).kind === "tell",
        body: {},
      }));
      const state = await stateOf(directory, missionID);
      return summaryOf(rowOf(state), statsOf(await store.dispatched(state.sessionID)));
    },

    async abort(directory, missionID, body, once) {
      const { surface = "api", reason = "", cascade = false } = body;
      const before = await stateOf(directory, missionID);
      const { sessionID } = before;
      const abort = (state: MissionState): { events: DomainEvent[]; revokes: boolean; body: object } => ({
        events:
          state.aborted === null || (cascade && !state.aborted.cascade)
            ? [
                ...asksClosedBy(state, "interrupted"),
                { type: "mission.aborted", data: { sessionID, surface, reason, cascade } },
              ]
            : [],
        revokes: true,
        body: {},
      });
      const { replayed } = await change(directory, missionID, undefined, abort, true);
      if (cascade) await cancelTasks(before, surface, reason);
      const running = (await store.dispatched(sessionID)).filter(({ status }) => status === "running").length;
      const answered: MissionAborted = {
        missionID,
        sessionID,
        aborted: true,
        status: running > 0 ? "running" : "inactive",
        tasksRunning: running,
      };
      // The abort is committed and can be repeated, so the key may be committed after it.
      if (once !== undefined) {
        const answer = idempotencyRecord(once, 200, answered, false);
        const done = await store.commit({ appends: [], once: answer, urgent: true });
        if (!done.ok && done.reason === "once") return replay(done.bodyHash, done.stored, once);
      }
      return { status: 200, body: answered, replayed };
    },

    async remove(directory, missionID) {
      for (;;) {
        const state = await stateOf(directory, missionID);
        await store.orphans.markOrphans(state.sessionID);
        if (!(await store.erase(state.sessionID, state.version))) continue;
        // The claim of its run is void; interrupting makes the run end at once.
        await engine.interrupt(state.sessionID);
        return;
      }
    },

    answer: (directory, missionID, askID, body, once, from) =>
      change<MissionAnswered>(directory, missionID, once, (state) => {
        const decision = answer(state, askID, { ...body, source: body.source ?? "api", from }, now());
        switch (decision.kind) {
          case "closed":
            throw new ServiceError(
              "ask_closed",
              `Expected ${JSON.stringify(askID)} to be open, the Mission waits for ${
                state.asks
                  .filter(({ answer: given }) => given === null)
                  .map((ask) => ask.askID)
                  .join(", ") || "nothing"
              }.`,
            );
          case "mismatch":
            throw new ServiceError(
              "invalid_request",
              `Expected ${decision.expected} for ${askID}, got ${decision.expected === "answer" ? "decision" : "answer"}.`,
            );
          case "events":
            return {
              events: [...decision.events, ...(isApproval(state, askID) ? planAnswerEvents(state, askID, body) : [])],
              wakes: true,
              body: { missionID, askID, accepted: true, eventID: 0 },
            };
        }
      }),

    plan: (directory, missionID, body, once, from) =>
      change<MissionPlanned>(directory, missionID, once, (state) => editPlan(deps, state, body, from)),

    merge: createMerge(deps, stateOf),

    async archive(directory, missionID, signal) {
      const state = await stateOf(directory, missionID);
      const { repository, tasks, sessionID } = state;
      const commits = tasks.flatMap(({ ends }) => ends.flatMap(({ landedCommit }) => landedCommit ?? []));
      await reachCommits(deps, { stream: sessionID, repository, commits, dirty: false }, signal);
      // Without places in the queue, which change from moment to moment and would make every archive different.
      return deps.archive(state, await statusFrom(state, await store.dispatched(state.sessionID)), signal);
    },
  };
};

const isApproval = ({ asks }: MissionState, askID: string): boolean =>
  asks.find((ask) => ask.askID === askID)?.kind === "approval";

const statsOf = (tasks: readonly TaskSummary[]): Counts => {
  const stats = { active: 0, completed: 0, failed: 0, cancelled: 0, asking: 0 };
  for (const { lifecycleStatus, pendingCount } of tasks) {
    stats[lifecycleStatus] += 1;
    if (lifecycleStatus === "active" && pendingCount > 0) stats.asking += 1;
  }
  return stats;
};

const notFound = (): ServiceError => new ServiceError("mission_not_found", "No Mission has this id here.");
