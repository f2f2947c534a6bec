import type { ExternalAgent } from "../../agent/external/run.ts";
import type { Browser } from "../../check/check.ts";
import type { Conversation } from "../../domain/conversation/message.ts";
import type { ModelRef } from "../../domain/agent.ts";
import type { Recorded, StreamID } from "../../domain/event.ts";
import type { RuleTexts } from "../../domain/permission/rule.ts";
import { evolve } from "../../domain/task/evolve.ts";
import type { TaskState } from "../../domain/state/task.ts";
import { dueNow } from "../../engine/engine.ts";
import type { Slots } from "../../engine/slot.ts";
import { messageOf } from "../../error.ts";
import type { Log } from "../../log.ts";
import type { Model } from "../../model/model.ts";
import type { EventData } from "../../protocol/event/event.ts";
import type { Limits } from "../../protocol/limit.ts";
import type { Manager } from "../../squad/install/manager.ts";
import type { Squads } from "../../squad/squad.ts";
import { type RecordFacts, recordThrough } from "../../store/claimed-stream.ts";
import type { Claim, Store } from "../../store/store.ts";
import { createBackground } from "../../tool/command/background.ts";
import type { Background } from "../../tool/tool.ts";
import type { OutboundOptions } from "../../outbound/address.ts";
import { createFiles } from "../../workspace/file/files.ts";
import type { Processes } from "../../process/process.ts";
import { forkKey } from "../../workspace/worktree/fork.ts";
import type { Workspace, Workspaces } from "../../workspace/workspace.ts";
import { wokenBy } from "../operation/change.ts";
import { type CheckoutOfRun, createCheckoutOfRun } from "../workspace/check-files.ts";
import { type Conversations, createConversations, openConversation } from "../session/conversation.ts";
import { openWorkspace } from "../workspace/open.ts";
import { readRules } from "./project-rules.ts";
import { failNow } from "../step/settle.ts";
import type { Setup } from "../workspace/setup.ts";

/** What a run works with, and how it is opened from a claim: what was left is ended, the log folded. */

export type RunDeps = {
  store: Store;
  workspaces: Workspaces;
  processes: Processes;
  squads: Squads;
  /** Installs what a production made. */
  manager: Pick<Manager, "install" | "validate">;
  models: {
    load(ref: ModelRef): Promise<Model>;
    /** What to ask instead of a model, without those that were tried; undefined: nothing that can be asked now. */
    standIn(ref: ModelRef, tried: readonly ModelRef[]): Promise<ModelRef | undefined>;
  };
  /** The operator's external agents by name. */
  externals: Readonly<Record<string, ExternalAgent>>;
  slots: Slots;
  /** What the operator has run in every new worktree. */
  setup: Setup | undefined;
  /** Chromium for checks that look at a page, looked for anew each time. */
  browser: () => Browser;
  /** How agents may fetch pages; undefined: not at all. */
  web: OutboundOptions | undefined;
  limits: Limits;
  /** The operator's rules; a project's own are in the Task's fold. */
  permissions: RuleTexts;
  sandbox: EventData["run.started"]["sandbox"];
  worker: string;
  /** Hears every fact this service recorded, for the metrics. */
  recorded: (events: readonly Recorded[]) => void;
  log: Log;
  now: () => Date;
};

/** What the steps of one run share. */
export type Run = RunDeps & {
  stream: StreamID;
  signal: AbortSignal;
  state: () => TaskState;
  /** The Orchestrator's conversation. */
  chat: Conversation;
  chats: Conversations;
  /** False: others came in between; ask `next` again. */
  record: RecordFacts;
  /** The Task's workspace, made or opened once. */
  workspace: () => Promise<Workspace>;
  /** Resolves when no workspace is being made; what is made after the end would be nobody's. */
  workspaceMade: () => Promise<void>;
  /** Drops the workspace, so that the next use makes it anew. */
  forgetWorkspace: () => void;
  /** The files that its checks run on. */
  checkout: CheckoutOfRun;
  /** The project's landing turn, held from the first landing attempt until the agent is asked again, or the run ends. */
  landingTurn: () => Promise<void>;
  leaveTurn: () => void;
  slot: (signal?: AbortSignal) => Promise<Disposable>;
  /** The agent's commands that go on between its calls. */
  background: Background;
};

/** Deaths at the same step after which a Task is taken to crash the service. */
const crashLoop = 3;

/**
 * Kills what an earlier run left, folds the log, says that the Task is taken up, and begins to make the workspace
 * while the model answers first. undefined: another Task works in the directory; this one is due again shortly.
 */
export const openRun = async (
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
  const chat = await openConversation(store, stream, state);
  const chats = createConversations(store, () => state, chat);

  const record = recordThrough(store, claim, {
    version: () => state.version,
    absorb(event) {
      state = evolve(state, event);
      chats.follow(event);
    },
    wakes: (events) => wokenBy(state, events, deps.now()),
    recorded: deps.recorded,
  });

  const { rank } = dueNow(deps.now(), state.priority);
  let opened: Promise<Workspace> | undefined;
  let holdsTurn: Promise<void> | undefined;
  let heldTurn: Disposable | undefined;
  const run: Run = {
    ...deps,
    stream,
    signal,
    chat,
    chats,
    state: () => state,
    record,
    workspace: () => (opened ??= openWorkspace(run)),
    workspaceMade: async () => {
      await opened?.catch(() => {});
    },
    forgetWorkspace() {
      opened = undefined;
    },
    checkout: createCheckoutOfRun(() => run),
    landingTurn: () =>
      (holdsTurn ??= deps.workspaces.turn(state.project, signal).then((turn) => {
        heldTurn = turn;
      })),
    leaveTurn() {
      heldTurn?.[Symbol.dispose]();
      heldTurn = undefined;
      holdsTurn = undefined;
    },
    slot: (until = signal) => deps.slots.take(rank, until),
    background: createBackground(claim.fence.epoch),
  };

  const forks = () => state.sessions.flatMap(({ fork }) => (fork === null ? [] : [forkKey(stream, fork.name)]));
  scope.defer(async () => {
    await Promise.all([stream, ...forks()].map((key) => deps.processes.rest(key)));
  });
  scope.use(run.checkout);
  scope.defer(run.workspaceMade);
  scope.defer(() => run.background.end());
  scope.defer(run.leaveTurn);
  if (state.lifecycle !== "active") {
    await record([], { due: null });
    return run;
  }
  // Its time has not come: whoever woke it did not know.
  if (state.deferred !== null && deps.now().getTime() < Date.parse(state.deferred.until)) {
    const until = new Date(state.deferred.until);
    await record([], { due: { at: until, rank: dueNow(until, state.priority).rank } });
    return undefined;
  }
  if (state.isolation === "directory") {
    const hold = holdDirectory(state.directory);
    if (hold === undefined) {
      await record([], { due: { at: new Date(deps.now().getTime() + 300), rank: deps.now().getTime() } });
      return undefined;
    }
    scope.use(hold);
  }

  // In a worktree the commit leaves them out; here nobody else would.
  if (state.isolation === "directory" && state.open.length > 0)
    await tidy(state.directory).catch((error: unknown) => log.warn({ stream, error: messageOf(error) }, "not tidied"));
  const killed =
    state.startedAt === null
      ? []
      : (await Promise.all([stream, ...forks()].map((key) => deps.processes.killAll(key)))).flat();
  if (state.crashes >= crashLoop) {
    await failNow(run, {
      code: "crash_loop",
      message: `The service died ${state.crashes} times at the same step of this Task (after ${state.version} events).`,
      retryable: false,
      remedy: "Read the service's log, then send a message to try again.",
    });
    return undefined;
  }
  // Before anybody works: an agent that works in place could write them.
  const rules = state.reply === null && state.projectRules === null ? await readRules(state.directory) : [];
  await record([
    {
      type: "run.started",
      data: { worker: deps.worker, epoch: claim.fence.epoch, sandbox: deps.sandbox, killed },
    },
    ...("problem" in rules ? [] : rules),
  ]);
  if ("problem" in rules) {
    await failNow(run, {
      code: "permissions_invalid",
      message: rules.problem,
      retryable: false,
      remedy: "Mend or remove the file, then send a message to go on.",
    });
    return undefined;
  }
  if (state.cancel === null && state.landed === null)
    run
      .workspace()
      .then((workspace) => workspace.warm())
      .catch((error: unknown) => log.debug({ stream, error: messageOf(error) }, "no workspace"));
  return run;
};

const tidy = async (directory: string): Promise<void> => createFiles(directory).tidy();

/** Directories in which a Task works in place now: one at a time, folders inside each other too. */
const held = new Set<string>();

const holdDirectory = (directory: string): Disposable | undefined => {
  const contains = (outer: string, inner: string) => inner === outer || inner.startsWith(`${outer}/`);
  if ([...held].some((other) => contains(other, directory) || contains(directory, other))) return undefined;
  held.add(directory);
  return { [Symbol.dispose]: () => held.delete(directory) };
};
