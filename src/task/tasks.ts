import type { ModelRef } from "../domain/agent.ts";
import { answer, answerWords, endedBy } from "../domain/ask.ts";
import { cancel } from "../domain/cancel.ts";
import { openAsks, type TaskState } from "../domain/task.ts";
import { isActive } from "../domain/summary.ts";
import type { DomainEvent } from "../domain/event.ts";
import { dueNow, type Engine } from "../engine/engine.ts";
import { ServiceError } from "../errors.ts";
import { newID } from "../id.ts";
import type { Log } from "../log.ts";
import type { AttachmentRef } from "../protocol/event.ts";
import type { Limits } from "../protocol/limits.ts";
import type {
  AnswerAccepted,
  CancelAccepted,
  MessageAccepted,
  MessagePage,
  TaskBoard,
  TaskDetail,
  TaskStatus,
  TaskSummary,
} from "../protocol/status.ts";
import type { TaskAnswer, TaskCancel, TaskCreate, TaskMessage, TaskPatch } from "../protocol/task.ts";
import type { Squads } from "../squad/squad.ts";
import type { ListQuery, Once, Store, Write } from "../store/store.ts";
import { keepText } from "../store/text.ts";
import type { Project, Workspaces } from "../workspace/workspace.ts";
import { checkSpecs, modelFor, titleOf } from "./create.ts";
import { createReads } from "./reads.ts";

/** The idempotency key of a request: the answer is stored in the commit of the effect. */
export type OnceKey = { scope: string; key: string; bodyHash: string };

/** `replayed`: the key stood already, this is its first answer. */
export type Accepted<T> = { status: 200 | 202; body: T; replayed: boolean };

export type TaskCreated = {
  task_id: string;
  taskID: string;
  directory: string;
  squad: { id: string; version: string; digest: string };
};

/** A finished ZIP in a temporary file; disposing removes it. */
export type ArchiveFile = AsyncDisposable & { path: string; bytes: number; filename: string };

/**
 * What the service does with Tasks; HTTP (later also Missions) calls these. Refusals reject with ServiceError and have
 * written nothing. `directory` is the caller's text, not yet checked; a Task of another project is
 * `directory_mismatch`.
 */
export interface Tasks {
  create(directory: string, body: TaskCreate, once?: OnceKey): Promise<Accepted<TaskCreated>>;
  /** Of the whole project, whichever of its worktrees or subfolders the directory is. */
  list(directory: string, query: Omit<ListQuery, "project">): Promise<TaskSummary[]>;
  get(taskID: string): Promise<TaskDetail>;
  status(taskID: string): Promise<TaskStatus>;
  board(taskID: string): Promise<TaskBoard>;
  messages(taskID: string, page: { after: number; limit: number }): Promise<MessagePage>;
  diff(taskID: string): Promise<string>;
  checkLog(taskID: string, checkID: string): Promise<Buffer>;
  message(directory: string, taskID: string, body: TaskMessage, once?: OnceKey): Promise<Accepted<MessageAccepted>>;
  cancel(directory: string, taskID: string, body: TaskCancel, once?: OnceKey): Promise<Accepted<CancelAccepted>>;
  /** Answers what the Task waits for; of two answers the first stands, the other is refused as `ask_closed`. */
  answer(
    directory: string,
    taskID: string,
    askID: string,
    body: TaskAnswer,
    once?: OnceKey,
  ): Promise<Accepted<AnswerAccepted>>;
  update(directory: string, taskID: string, patch: TaskPatch): Promise<TaskStatus>;
  remove(directory: string, taskID: string): Promise<void>;
  archive(directory: string, taskID: string, signal: AbortSignal): Promise<ArchiveFile>;
}

export type TasksDeps = {
  store: Store;
  engine: Engine;
  workspaces: Workspaces;
  squads: Squads;
  /** The model of a new Task; refuses one that cannot be called. */
  resolveModel: (ref: string | undefined) => ModelRef;
  archive: (state: TaskState, signal: AbortSignal) => Promise<ArchiveFile>;
  /** Refuses new Tasks while the disk is nearly full. */
  checkDisk: () => Promise<void>;
  defaults: { squad: string; landing: "commit" | "branch" };
  limits: Limits;
  log: Log;
  now: () => Date;
};

export const createTasks = (deps: TasksDeps): Tasks => {
  const { store, engine, workspaces, limits } = deps;
  const reads = createReads(deps);
  const stateOf = reads.state;

  /** The Task, if it belongs to the caller's project. */
  const own = async (directory: string, taskID: string): Promise<TaskState> => {
    const { project } = await workspaces.inspect(directory);
    const state = await stateOf(taskID);
    if (state.project === project) return state;
    throw new ServiceError(
      "directory_mismatch",
      `Expected the project of ${taskID} (${state.directory}), got ${directory}.`,
    );
  };

  /** Commits what `decide` makes of the newest state, again when somebody else was quicker. */
  const decideAndCommit = async <T>(
    taskID: string,
    once: OnceKey | undefined,
    decide: (state: TaskState) => Decision<T> | Promise<Decision<T>>,
  ): Promise<Accepted<T>> => {
    for (;;) {
      const state = await stateOf(taskID);
      const decision = await decide(state);
      const { status, body, events, due, revoke } = decision;
      if (events.length === 0 && once === undefined)
        return { status, body: { ...body, eventID: state.position }, replayed: false };
      const write: Write = {
        appends: [{ stream: taskID, expected: state.version, events }],
        ...(due === undefined ? {} : { due: [{ stream: taskID, due }] }),
        ...(revoke ? { revoke: [taskID] } : {}),
        ...(once === undefined
          ? {}
          : { once: onceOf(once, status, { ...body, eventID: state.position }, events.length > 0) }),
      };
      const done = await store.commit(write);
      if (done.ok) {
        const eventID = done.recorded.at(-1)?.position ?? state.position;
        if (revoke) void engine.interrupt(taskID);
        if (due) engine.nudge(taskID, due);
        return { status, body: { ...body, eventID }, replayed: false };
      }
      if (done.reason === "once") return replay(done.bodyHash, done.stored, once);
    }
  };

  return {
    ...reads,

    async create(directory, body, once) {
      const project = await workspaces.inspect(directory);
      const place = placeOf(project, body, deps.defaults.landing);
      const squad = await deps.squads.pin(body.promptProfile ?? deps.defaults.squad);
      const { orchestrator } = await deps.squads.load(squad);
      const model = modelFor(orchestrator, body.model, deps.resolveModel);
      await deps.checkDisk();
      if ((await store.waiting()) >= limits.waiting)
        throw new ServiceError("queue_full", `Expected fewer than ${limits.waiting} waiting Tasks.`);

      const taskID = newID("task");
      const created: DomainEvent = {
        type: "task.created",
        data: {
          taskID,
          title: body.title ?? titleOf(body.request),
          titleBy: body.title === undefined ? "service" : "caller",
          request: await keepText(store.blobs, body.request),
          productPillar: body.productPillar,
          priority: body.priority ?? "normal",
          source: body.source ?? "api",
          directory: project.directory,
          project: project.project,
          checks: checkSpecs(body.checks ?? []),
          attachments: await keepAttachments(body.attachments ?? []),
          metadata: body.metadata ?? {},
          squad,
          model,
          ...place,
          budget: body.budget ?? null,
          sessionID: newID("ses"),
          agent: orchestrator.name,
        },
      };
      const { id, version, digest } = squad;
      const reply: TaskCreated = {
        task_id: taskID,
        taskID,
        directory: project.directory,
        squad: { id, version, digest },
      };
      const due = dueNow(deps.now(), created.data.priority);
      const done = await store.commit({
        appends: [{ stream: taskID, expected: 0, events: [created] }],
        due: [{ stream: taskID, due }],
        ...(once === undefined ? {} : { once: onceOf(once, 202, reply, false) }),
      });
      if (done.ok) {
        engine.nudge(taskID, due);
        return { status: 202, body: reply, replayed: false };
      }
      if (done.reason === "once") return replay(done.bodyHash, done.stored, once);
      throw new Error(`A new Task could not be written: ${done.reason}`);
    },

    async message(directory, taskID, body, once) {
      refuseBusy(await own(directory, taskID), body);
      const messageID = newID("msg");
      const text = await keepText(store.blobs, body.text);
      const attachments = await keepAttachments(body.attachments ?? []);
      return decideAndCommit<MessageAccepted>(taskID, once, (state) => {
        refuseBusy(state, body);
        const active = isActive(state);
        const interrupt = active && body.onBusy === "interrupt" && state.landingStarted === null;
        const disposition = !active
          ? "restarted"
          : interrupt
            ? "interrupted"
            : body.onBusy === "queue" || state.landingStarted !== null
              ? "queued"
              : "steered";
        const sessionID = state.sessions[0]?.sessionID ?? "";
        const ended = endedBy(state, disposition);
        return {
          status: 202,
          body: {
            taskID,
            messageID,
            accepted: true,
            disposition,
            status: "running",
            lifecycleStatus: "active",
            eventID: 0,
          },
          events: [
            {
              type: "message.received",
              data: { messageID, sessionID, source: body.source, text, attachments, disposition },
            },
            ...ended,
          ],
          ...(active && !interrupt && ended.length === 0 && (state.deferred === null || disposition === "queued")
            ? {}
            : { due: dueNow(deps.now(), state.priority) }),
          revoke: interrupt,
        };
      });
    },

    async cancel(directory, taskID, body, once) {
      await own(directory, taskID);
      const request = { surface: body.surface ?? "api", reason: body.reason ?? "", mode: body.mode ?? "stop" };
      return decideAndCommit<CancelAccepted>(taskID, once, async (state) => {
        const decision = cancel(state, request, deps.now().toISOString());
        const accepted = (lifecycleStatus: "active" | "cancelled") => ({
          taskID,
          accepted: true as const,
          status: lifecycleStatus === "active" ? ("running" as const) : ("inactive" as const),
          lifecycleStatus,
          eventID: 0,
        });
        switch (decision.kind) {
          case "landing":
          case "settled": {
            const found = decision.kind === "landing" ? await landed(taskID) : state;
            throw new ServiceError(
              "task_settled",
              `Expected ${taskID} to be active, it is ${found.lifecycle === "active" ? "landing" : found.lifecycle}.`,
              { details: { taskID, lifecycleStatus: found.lifecycle } },
            );
          }
          case "nothing": {
            const active = isActive(state);
            return { status: active ? 202 : 200, body: accepted(active ? "active" : "cancelled"), events: [] };
          }
          case "events": {
            const ends = decision.events.some((event) => event.type === "task.settled");
            return {
              status: ends ? 200 : 202,
              body: accepted(ends ? "cancelled" : "active"),
              events: decision.events,
              // Whoever waited for an answer is to hear of it too.
              ...(ends
                ? { due: null }
                : decision.stops || openAsks(state).length > 0
                  ? { due: dueNow(deps.now(), "critical") }
                  : {}),
              revoke: decision.stops,
            };
          }
        }
      });
    },

    async answer(directory, taskID, askID, body, once) {
      await own(directory, taskID);
      return decideAndCommit<AnswerAccepted>(taskID, once, async (state) => {
        const decision = answer(state, askID, { ...body, source: body.source ?? "api" }, deps.now());
        switch (decision.kind) {
          case "closed":
            throw await closed(taskID, askID);
          case "mismatch":
            throw new ServiceError(
              "invalid_request",
              `Expected ${decision.expected} for ${askID}, got ${decision.expected === "answer" ? "decision" : "answer"}.`,
            );
          case "events":
            return {
              status: 200,
              body: { taskID, askID, accepted: true, status: "running", lifecycleStatus: "active", eventID: 0 },
              events: decision.events,
              due: dueNow(deps.now(), state.priority),
            };
        }
      });
    },

    async update(directory, taskID, patch) {
      await own(directory, taskID);
      const { title, priority, archived, budget } = patch;
      const data = {
        ...(title === undefined ? {} : { title }),
        ...(priority === undefined ? {} : { priority }),
        ...(archived === undefined ? {} : { archived }),
        ...(budget === undefined ? {} : { budget }),
      };
      await decideAndCommit(taskID, undefined, (state) => ({
        status: 200,
        body: {},
        events: [{ type: "task.updated", data }],
        ...(priority !== undefined && isActive(state) && state.attemptStartedAt === null
          ? { due: dueNow(new Date(state.createdAt), priority) }
          : {}),
      }));
      return reads.status(taskID);
    },

    async remove(directory, taskID) {
      for (;;) {
        const state = await own(directory, taskID);
        if (isActive(state))
          throw new ServiceError("task_active", `Expected ${taskID} to be inactive, it is running. Cancel it first.`);
        workspaces.doom(taskID);
        // A message that came in between restarted it; then it is not inactive any more.
        if (await store.erase(taskID, state.version)) break;
      }
      // Its last run may still be at its end, with the files open.
      await engine.interrupt(taskID);
      await workspaces.remove(taskID);
    },

    async archive(directory, taskID, signal) {
      return deps.archive(await own(directory, taskID), signal);
    },
  };

  /** Why an ask takes no answer: how it was closed, or that the Task never asked it. */
  async function closed(taskID: string, askID: string): Promise<ServiceError> {
    const asks = await store.read(taskID, { types: ["ask.opened", "ask.answered"] });
    const of = asks.filter((event) => "askID" in event.data && event.data.askID === askID);
    if (of.length === 0)
      return new ServiceError(
        "route_not_found",
        `Expected the id of something ${taskID} asked, got ${JSON.stringify(askID)}.`,
      );
    const last = of.at(-1);
    return last?.type === "ask.answered"
      ? new ServiceError("ask_closed", `Expected ${askID} to be open, got: ${answerWords(last.data)}.`, {
          details: { askID, by: last.data.by, at: last.at },
        })
      : new ServiceError("ask_closed", `Expected ${askID} to be open, its time is over.`, {
          details: { askID, by: "timeout", at: null },
        });
  }

  async function keepAttachments(attachments: NonNullable<TaskCreate["attachments"]>): Promise<AttachmentRef[]> {
    return Promise.all(
      attachments.map(async ({ filename, mime, data }) => {
        const { sha256, bytes } = await store.blobs.put(Buffer.from(data, "base64"));
        return { filename, mime, bytes, sha256 };
      }),
    );
  }

  /** A landing under way ends within moments; the answer names what it ended as. */
  async function landed(taskID: string): Promise<TaskState> {
    for (let tries = 0; tries < 100; tries++) {
      const state = await stateOf(taskID);
      if (!isActive(state)) return state;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return stateOf(taskID);
  }
};

const refuseBusy = (state: TaskState, body: TaskMessage): void => {
  if (isActive(state) && body.onBusy === "reject")
    throw new ServiceError("task_busy", `Expected ${state.taskID} to be inactive (onBusy: reject), it is running.`);
};

type Decision<T> = {
  status: 200 | 202;
  body: T;
  events: readonly DomainEvent[];
  due?: ReturnType<typeof dueNow> | null;
  revoke?: boolean;
};

/** The key with its answer; `positionAs` lets the store name the event that does not stand yet. */
const onceOf = (once: OnceKey, status: number, body: object, positioned: boolean): Once => ({
  ...once,
  answer: { status, body: { ...body } },
  ...(positioned ? { positionAs: "eventID" } : {}),
});

const replay = <T>(
  bodyHash: string,
  stored: { status: number; body: unknown },
  once: OnceKey | undefined,
): Accepted<T> => {
  if (bodyHash !== once?.bodyHash)
    throw new ServiceError(
      "idempotency_key_reused",
      "Expected the same body as the first request with this Idempotency-Key, got another.",
    );
  return { status: stored.status === 200 ? 200 : 202, body: stored.body as T, replayed: true };
};

/** Where the Task works and where its result goes. */
const placeOf = (
  project: Project,
  body: TaskCreate,
  landing: "commit" | "branch",
): { isolation: "worktree" | "directory"; landing: "commit" | "branch" | "none" } => {
  const inPlace = body.isolation === "directory" || project.git === undefined || project.git.head === null;
  if (!inPlace) return { isolation: "worktree", landing: body.landing ?? landing };
  if (body.landing !== undefined)
    throw new ServiceError(
      "invalid_request",
      body.isolation === "directory"
        ? `Expected no landing with isolation "directory" (edits are final at once), got "${body.landing}".`
        : `Expected no landing: ${project.directory} has no Git commit, so the Task works in place; got "${body.landing}".`,
      { issues: [{ path: "body.landing", message: "Expected to be absent", code: "custom" }] },
    );
  return { isolation: "directory", landing: "none" };
};
