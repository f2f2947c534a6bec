import { brake } from "../agent/budget.ts";
import { runAgent, type Turn } from "../agent/loop.ts";
import { detectCommands } from "../check/detect.ts";
import { type Conversation, conversationTypes, converse, emptyConversation } from "../domain/conversation.ts";
import type { DomainEvent, Recorded, StreamID } from "../domain/event.ts";
import { evolve, next, settled, type Step, type TaskState } from "../domain/task.ts";
import { dueNow } from "../engine/engine.ts";
import type { Slots } from "../engine/slots.ts";
import { messageOf, ServiceError } from "../errors.ts";
import type { Log } from "../log.ts";
import type { Model } from "../model/model.ts";
import type { ModelRef } from "../domain/agent.ts";
import type { EventData, LiveFrame, TurnFailure } from "../protocol/event.ts";
import type { Limits } from "../protocol/limits.ts";
import type { Squads } from "../squad/squad.ts";
import type { Claim, Due, Store, Write } from "../store/store.ts";
import { selectTools, toolSpecs } from "../tool/select.ts";
import { createFiles } from "../workspace/files.ts";
import type { Processes } from "../workspace/process.ts";
import type { Workspace, Workspaces } from "../workspace/workspace.ts";
import { baseline, check, feedback } from "./check.ts";
import { land } from "./land.ts";
import { openWorkspace, renew } from "./prepare.ts";
import { recover } from "./recover.ts";
import { commitTree, settle } from "./settle.ts";

/**
 * Moves one Task: claim, fold, and then `next` again and again. There is no other way in and no resume path; a worker
 * that died is replaced by one that runs this from the start.
 */

export type RunDeps = {
  store: Store;
  workspaces: Workspaces;
  processes: Processes;
  squads: Squads;
  loadModel(ref: ModelRef): Promise<Model>;
  slots: Slots;
  limits: Limits;
  sandbox: EventData["run.started"]["sandbox"];
  worker: string;
  /** Hears every fact this service recorded, for the metrics. */
  recorded(events: readonly Recorded[]): void;
  log: Log;
  now(): Date;
};

/** What the steps of one run share. */
export type Run = RunDeps & {
  stream: StreamID;
  signal: AbortSignal;
  state(): TaskState;
  chat: Conversation;
  /** Commits facts and folds them in. False: others came in between `expected` and now; ask `next` again. */
  record(events: readonly DomainEvent[], options?: { judged?: number; due?: Due | null }): Promise<boolean>;
  /** The Task's workspace, made or opened once. */
  workspace(): Promise<Workspace>;
  /** Drops the workspace, so that the next use makes it anew. */
  forgetWorkspace(): void;
  /** The project's landing turn, held from the first landing attempt to the end of the run. */
  landingTurn(): Promise<void>;
  slot(): Promise<Disposable>;
};

/** The claim is gone: whatever this run would still say is not wanted. */
class ClaimLost extends Error {}

export const createRunTask =
  (deps: RunDeps) =>
  async (stream: StreamID, signal: AbortSignal): Promise<void> => {
    await using claim = await deps.store.claim(stream, deps.worker);
    if (claim === undefined) return;
    const stop = AbortSignal.any([signal, claim.lost]);
    await using scope = new AsyncDisposableStack();
    try {
      const run = await openRun(deps, claim, stop, scope);
      if (run !== undefined) await move(run).catch((error: unknown) => fault(run, error));
    } catch (error) {
      if (error instanceof ClaimLost || claim.lost.aborted) return;
      if (!signal.aborted) throw error;
      await deps.store.commit({
        appends: [
          { stream, expected: "any", events: [{ type: "run.stopped", data: { reason: "the service stopped" } }] },
        ],
        fence: claim.fence,
      });
    }
  };

const move = async (run: Run): Promise<void> => {
  const squad = await run.squads.load(run.state().squad);
  const model = await run.loadModel(run.state().model);
  const nextStep = (): Step => {
    const stop = brake(run.state(), run.chat, run.limits, run.now());
    return next(run.state(), { checkRounds: run.limits.checkRounds, retries: model.retries, stop });
  };
  const tools = selectTools(squad.orchestrator.tools);
  const specs = toolSpecs(tools);
  const facts = {
    checks: run.state().checks,
    detected: await detectCommands(createFiles(run.state().directory)),
  };
  for (;;) {
    run.signal.throwIfAborted();
    const step = nextStep();
    switch (step.kind) {
      case "done":
        return;
      case "renew":
        await renew(run);
        break;
      case "recover":
        await recover(run, turnOf(false));
        break;
      case "baseline":
        await baseline(run, step.checks);
        break;
      case "turn":
        await runAgent(turnOf(step.last));
        break;
      case "commit":
        await commitTree(run);
        break;
      case "check":
        await check(run, step.checks);
        break;
      case "feedback":
        await feedback(run, step.failed);
        break;
      case "land":
        await land(run);
        break;
      case "settle":
        await settle(run, step.end);
        break;
    }
  }

  function turnOf(last: boolean): Turn {
    return {
      agent: squad.orchestrator,
      sessionID: rootSession(run.state()),
      model,
      tools,
      specs,
      facts,
      limits: run.limits,
      store: run.store,
      log: run.log,
      signal: run.signal,
      chat: run.chat,
      state: run.state,
      async record(events) {
        await run.record(events);
      },
      wanted() {
        const step = nextStep();
        return step.kind === "turn" && step.last === last;
      },
      last,
      workspace: run.workspace,
      slot: run.slot,
      live: (type, id, text) => run.store.live.publish(frame(run, type, id, text)),
      sleep: (ms) => sleep(ms, run.signal),
      now: run.now,
    };
  }
};

/** What nobody foresaw ends this Task, and only it. What the store cannot take now is tried again later. */
const fault = async (run: Run, error: unknown): Promise<void> => {
  run.signal.throwIfAborted();
  if (error instanceof ClaimLost || (error instanceof ServiceError && error.retryable)) throw error;
  run.log.error(
    { task: run.stream, error: messageOf(error), stack: error instanceof Error ? error.stack : undefined },
    "a Task failed unexpectedly",
  );
  const failure: TurnFailure = {
    code: error instanceof ServiceError ? error.code : "internal",
    message: messageOf(error),
    retryable: true,
    remedy: "Read the service's log, then send a message to try again.",
  };
  const judged = run.state().version;
  await run.record([settled({ lifecycleStatus: "failed", failure }, "", run.now().toISOString())], {
    judged,
    due: null,
  });
};

const rootSession = (state: TaskState): string => state.sessions[0]?.sessionID ?? "";

const frame = (run: Run, type: LiveFrame["type"], id: string, text: string): LiveFrame => {
  const common = { taskID: run.stream, sessionID: rootSession(run.state()), at: run.now().toISOString() };
  return type === "tool.output"
    ? { type, ...common, data: { callID: id, text } }
    : { type, ...common, data: { messageID: id, text } };
};

const sleep = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", end);
      resolve();
    }, ms);
    signal.addEventListener("abort", end, { once: true });
  });

/** Runs without any fact in between after which a Task is taken to crash the service. */
const crashLoop = 3;

/**
 * Kills what an earlier run left, folds the log, says that the Task is taken up, and begins to make the workspace
 * while the model answers first. undefined: another Task works in the directory; this one is due again shortly.
 */
const openRun = async (
  deps: RunDeps,
  claim: Claim,
  signal: AbortSignal,
  scope: AsyncDisposableStack,
): Promise<Run | undefined> => {
  const { store, log } = deps;
  const { stream } = claim;
  const folded = await store.state(stream);
  if (folded === undefined) return undefined;
  let state = folded;
  const chat = emptyConversation();
  for (const event of await store.read(stream, { types: conversationTypes }))
    if (event.version <= state.version) converse(chat, event);

  const absorb = (event: Recorded) => {
    state = evolve(state, event);
    converse(chat, event);
  };
  let folding: Promise<void> = Promise.resolve();
  const catchUp = (recorded: readonly Recorded[]): Promise<void> => {
    folding = folding.then(async () => {
      const first = recorded[0];
      const missing =
        first === undefined || first.version > state.version + 1
          ? await store.read(stream, { after: state.version })
          : recorded;
      for (const event of missing) if (event.version === state.version + 1) absorb(event);
    });
    return folding;
  };

  const record: Run["record"] = async (events, { judged, due } = {}) => {
    const write: Write = {
      appends: [{ stream, expected: judged ?? "any", events }],
      fence: claim.fence,
      ...(due === undefined ? {} : { due: [{ stream, due }] }),
    };
    const done = await store.commit(write);
    if (done.ok) {
      deps.recorded(done.recorded);
      await catchUp(done.recorded);
      return true;
    }
    if (done.reason !== "version") throw new ClaimLost();
    await catchUp([]);
    return false;
  };

  const { rank } = dueNow(deps.now(), state.priority);
  let opened: Promise<Workspace> | undefined;
  let holdsTurn: Promise<void> | undefined;
  const run: Run = {
    ...deps,
    stream,
    signal,
    chat,
    state: () => state,
    record,
    workspace: () => (opened ??= openWorkspace(run)),
    forgetWorkspace() {
      opened = undefined;
    },
    landingTurn: () =>
      (holdsTurn ??= deps.workspaces.turn(state.project, signal).then((turn) => {
        scope.use(turn);
      })),
    slot: () => deps.slots.take(rank, signal),
  };

  if (state.lifecycle !== "active") {
    await record([], { due: null });
    return run;
  }
  if (state.isolation === "directory") {
    const hold = holdDirectory(state.directory);
    if (hold === undefined) {
      await record([], { due: { at: new Date(deps.now().getTime() + 300), rank: deps.now().getTime() } });
      return undefined;
    }
    scope.use(hold);
  }

  const killed = state.startedAt === null ? [] : await deps.processes.killAll(stream);
  if (state.runs >= crashLoop) {
    const failure = {
      code: "crash_loop",
      message: `The service ended ${state.runs} times at the same step of this Task (after ${state.version} events).`,
      retryable: false,
      remedy: "Read the service's log, then send a message to try again.",
    };
    await settle(run, { lifecycleStatus: "failed", failure });
    return undefined;
  }
  await record([
    {
      type: "run.started",
      data: { worker: deps.worker, epoch: claim.fence.epoch, sandbox: deps.sandbox, killed },
    },
  ]);
  if (state.cancel === null)
    run.workspace().catch((error: unknown) => log.debug({ stream, error: messageOf(error) }, "no workspace"));
  return run;
};

/** Directories in which a Task works in place now: one at a time. */
const held = new Set<string>();

const holdDirectory = (directory: string): Disposable | undefined => {
  if (held.has(directory)) return undefined;
  held.add(directory);
  return { [Symbol.dispose]: () => held.delete(directory) };
};
