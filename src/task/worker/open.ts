import { isDeferred } from "../../domain/state/stream.ts";
import { isActive, remoteOf, type TaskState } from "../../domain/state/task.ts";
import { isCrashLoop } from "../../domain/task/crash.ts";
import { evolve } from "../../domain/task/evolve.ts";
import { dueNow } from "../../engine/due.ts";
import { messageOf, ServiceError } from "../../error.ts";
import type { RunCheck } from "../../protocol/check.ts";
import { createDiagnostics } from "../../check/diagnostic/diagnostics.ts";
import { commitThroughClaim } from "../../store/claimed-stream.ts";
import { createPatience, waitingForSpace } from "../../store/disk/patience.ts";
import { throughOutage } from "../../store/outage.ts";
import type { Claim } from "../../store/store.ts";
import { createBackground } from "../../tool/command/background.ts";
import { createMcpConnections } from "../../tool/mcp/connections.ts";
import { EnvironmentLost } from "../../workspace/error.ts";
import { createFiles } from "../../workspace/file/files.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { forkKey } from "../../workspace/worktree/fork.ts";
import { missionWake } from "../wake-mission.ts";
import { commonDirOf, type Fetched, here } from "../../repository/repository.ts";
import type { DiskBound, Run, RunDeps } from "../run.ts";
import { learnUsual } from "../usual-duration.ts";
import { closingCalls } from "../session/closed-call.ts";
import { createConversations, openConversation } from "../session/conversation.ts";
import { failNow } from "../step/settle.ts";
import { createRunCheckout } from "../workspace/check-files.ts";
import { tryDirectory, waitForDirectory } from "../directory.ts";
import { createDiskBound, unbounded } from "../workspace/disk-bound.ts";
import { openWorkspace } from "../workspace/open.ts";
import { unusedOf } from "../workspace/retention.ts";
import { fetchBase } from "../workspace/repository.ts";
import { createBaseline } from "./baseline.ts";
import { checkersOf } from "./checkers.ts";
import { createCheckpoints } from "./checkpoint.ts";
import { giveEnvironment, noEnvironment, readGiven } from "./environment.ts";
import { readServers, readsServers, serversOf } from "./project-servers.ts";
import { readRules } from "./project-rules.ts";
import { nodeBefore, takeOver } from "./take-over.ts";

/** Opens a run from a claim: ends what an earlier run left, folds the log, and composes what the run's steps share. */

/**
 * Kills what an earlier run left, folds the log, records `run.started`, and begins to create the workspace while the
 * model answers its first request. Resolves to undefined when the Task cannot run now; it was then made due again,
 * parked or ended.
 */
export const openRun = async (
  deps: RunDeps,
  claim: Claim,
  signal: AbortSignal,
  scope: AsyncDisposableStack,
): Promise<Run | undefined> => {
  const { log } = deps;
  const { stream } = claim;
  const folded = await deps.store.state(stream);
  if (folded === undefined) return undefined;
  let state = here(deps.repositories, folded);
  const isEnding = () => state.cancel?.mode === "stop";
  const patience = scope.use(
    createPatience({
      disk: deps.disk,
      record: (event) => record([event], { once: true }),
      isEnding,
      standAside: () => deps.engine.standAside(stream),
      signal,
      now: deps.now,
    }),
  );
  const store = throughOutage(waitingForSpace(deps.store, patience), signal);
  const chat = await openConversation(store, stream, state);
  const chats = createConversations(store, () => state, chat);

  const commit = commitThroughClaim(store, claim, {
    version: () => state.version,
    absorb(event) {
      const { now: before } = state;
      state = evolve(state, event);
      learnUsual(state.project, before, state.now, event.at);
      if (event.type !== "run.started" && state.crashes === 0) deps.suspects.clear(stream);
      chats.follow(event);
      run.baseline.begin();
      if (event.type === "tool.finished") run.checkpoints.look();
    },
    wakes: (events) => missionWake(state, events, deps.now()),
    recorded: deps.recorded,
    urgent: isEnding,
    retry: patience.retry,
  });

  const record: typeof commit = (events, options) => commit(closingCalls(state, events), options);

  const { rank } = dueNow(deps.now(), state.priority);
  let own: readonly RunCheck[] = [];
  let commands: readonly string[] = [];
  let opened: Promise<Workspace> | undefined;
  let base: Promise<Fetched> | undefined;
  let holdsTurn: Promise<void> | undefined;
  let heldTurn: Disposable | undefined;
  const forks = () => state.sessions.flatMap(({ fork }) => (fork === null ? [] : [forkKey(stream, fork.name)]));
  const takeDirectory = async () => {
    const take = () => deps.workspaces.holdDirectory(state.directory, state.project);
    const free = tryDirectory(take);
    if (free !== undefined || isEnding()) return free;
    using _aside = deps.engine.standAside(stream);
    return await waitForDirectory({ taskID: stream, directory: state.directory, rank, take }, signal);
  };
  const closeSandboxes = async () => {
    await Promise.all([stream, ...forks()].map((key) => deps.processes.closeSandboxes(key)));
  };
  const run: Run = {
    ...deps,
    store,
    stream,
    signal,
    space: patience.space,
    bound: boundOf(deps, state, () => state.steps),
    chat,
    chats,
    environment: noEnvironment,
    state: () => state,
    record,
    workspace() {
      if (opened !== undefined) return opened;
      const opening = openWorkspace(run);
      opened = opening;
      // A git that died, or a disk without room, may be all that was in the way: whoever asks next tries again.
      opening.catch(() => {
        if (opened === opening) opened = undefined;
      });
      return opening;
    },
    base: () => (base ??= fetchBase(run)),
    workspaceMade: async () => {
      await opened?.catch(() => {});
    },
    closeSandboxes,
    forgetWorkspace() {
      opened = undefined;
      base = undefined;
    },
    checkpoints: createCheckpoints(() => run),
    checkout: createRunCheckout(() => run, "work"),
    own: () => own,
    offerOwn(checks, found) {
      own = checks;
      commands = found;
    },
    commands: () => commands,
    baseline: createBaseline(() => run),
    landingTurn: () =>
      (holdsTurn ??= deps.workspaces.landingTurn(state.project, signal).then((turn) => {
        heldTurn = turn;
      })),
    leaveLandingTurn() {
      heldTurn?.[Symbol.dispose]();
      heldTurn = undefined;
      holdsTurn = undefined;
    },
    async slot(until = signal) {
      const slot = await deps.slots.take(rank, until);
      // What gets nowhere loads no machine, and others wait for the place.
      const timer = setInterval(() => {
        if (deps.processes.isStalled(stream)) slot[Symbol.dispose]();
      }, 1000);
      timer.unref();
      return {
        [Symbol.dispose]() {
          clearInterval(timer);
          slot[Symbol.dispose]();
        },
      };
    },
    background: createBackground(claim.fence.epoch),
    mcp: createMcpConnections(
      serversOf(deps, () => state),
      signal,
    ),
    checkers: createDiagnostics(() => checkersOf(run), deps.diagnostics.room),
  };

  // Whoever is cancelled may be waiting for a git that waits for ever. Node keeps a signal that is made of others, and
  // all that its listeners know, for as long as it has one.
  const interrupt = () => deps.processes.interrupt(stream);
  signal.addEventListener("abort", interrupt, { once: true });
  scope.defer(() => signal.removeEventListener("abort", interrupt));
  scope.defer(() => withoutUnused(run, forks()));
  scope.defer(closeSandboxes);
  scope.use(run.checkout);
  scope.defer(run.workspaceMade);
  scope.defer(() => run.background.end());
  scope.defer(() => run.mcp.end());
  scope.defer(() => run.checkers.end());
  scope.defer(() => run.checkpoints.end());
  scope.use(run.baseline);
  scope.defer(run.leaveLandingTurn);
  if (state.lifecycle !== "active") {
    await record([], { due: null });
    return run;
  }
  // Its due time was early.
  if (state.deferred !== null && isDeferred(state.deferred, deps.now())) {
    const until = new Date(state.deferred.until);
    await record([], { due: { at: until, rank: dueNow(until, state.priority).rank } });
    return undefined;
  }
  const hold = state.isolation === "directory" ? await takeDirectory() : undefined;
  if (state.isolation === "directory") {
    // A Task that only ends does nothing there.
    if (hold === undefined && !isEnding()) return undefined;
    scope.use(hold);
  }

  // A commit in a worktree leaves temporary files of interrupted writes out; in the user's directory they must be
  // removed.
  if (hold !== undefined && state.open.length > 0)
    await tidy(state.directory).catch((error: unknown) => log.warn({ stream, error: messageOf(error) }, "not tidied"));
  const killed =
    state.startedAt === null
      ? []
      : (await Promise.all([stream, ...forks()].map((key) => deps.processes.killAll(key)))).flat();
  if (state.startedAt !== null) await deps.workspaces.unlockRefs(stream, commonDirOf(deps.repositories, state));
  if (isCrashLoop(state, deps.worker)) {
    await failNow(run, {
      code: "crash_loop",
      message: `The service died ${state.crashes + 1} times in a row at the same step of this Task (after ${state.version} events), the last time while nothing else ran.`,
      retryable: false,
      remedy: "Read the service's log, then send a message to try again.",
    });
    return undefined;
  }
  const asks = readsServers(state);
  const readsRules = state.reply === null && state.projectRules === null;
  // Read before any agent works, because an agent that works in place could write the file.
  const early = readsRules && state.repository === null ? await readRules(state.directory) : [];
  const given = await readGiven(deps, state);
  await record([
    {
      type: "run.started",
      data: {
        worker: deps.worker,
        epoch: claim.fence.epoch,
        sandbox: deps.sandbox,
        killed,
        ...(deps.suspects.isAlone(stream) ? { alone: true as const } : {}),
      },
    },
    ...("problem" in early ? [] : early),
    ...given,
  ]);
  if (!(await environmentIsThere(run, scope))) return undefined;
  const before = nodeBefore(run);
  if (!(await baseIsThere(run, before !== undefined))) return undefined;
  if (before !== undefined) await takeOver(run, before);
  const late = readsRules && state.repository !== null ? await readRules(state.directory) : [];
  if (!("problem" in late) && late.length > 0) await record(late);
  const servers = asks ? await readServers(deps, state) : [];
  if (servers.length > 0) await record(servers);
  const rules = "problem" in early ? early : late;
  if ("problem" in rules) {
    await failNow(run, {
      code: "permissions_invalid",
      message: rules.problem,
      retryable: false,
      remedy: "Fix or remove the file, then send a message to continue.",
    });
    return undefined;
  }
  if (state.cancel === null && state.landed === null)
    run
      .workspace()
      .then((workspace) => workspace.prepareSandbox())
      .catch((error: unknown) => log.debug({ stream, error: messageOf(error) }, "no workspace"));
  return run;
};

/**
 * A Task that ends while its files are made leaves none: with a large project, and after a kill, that is many of them.
 */
const withoutUnused = async ({ state, workspaces, stream, log }: Run, forks: readonly string[]): Promise<void> => {
  const unused = (key: string) => (isActive(state()) ? undefined : unusedOf(state(), key));
  for (const key of [stream, ...forks].filter((each) => unused(each) !== undefined))
    await workspaces
      .removeUnused(key, async () => unused(key))
      .catch((error: unknown) => {
        log.warn({ task: stream, error: messageOf(error) }, "files that nobody has worked in could not be removed yet");
      });
};

/** false: this machine does not have what the project's commands are to get, and the Task has failed. */
const environmentIsThere = async (run: Run, scope: AsyncDisposableStack): Promise<boolean> => {
  try {
    scope.use(await giveEnvironment(run));
    return true;
  } catch (error) {
    run.signal.throwIfAborted();
    if (!(error instanceof EnvironmentLost)) throw error;
    await failNow(run, {
      code: error.code,
      message: error.message,
      retryable: false,
      remedy: "`sortie doctor` says what is missing; then send a message to continue.",
    });
    return false;
  }
};

/**
 * A Task whose result is pushed begins with what the remote has: its agents are told of the project from there. false:
 * that cannot be had, and the Task has failed.
 */
const baseIsThere = async (run: Run, moves: boolean): Promise<boolean> => {
  const { workspace, landed, cancel } = run.state();
  if (remoteOf(run.state()) === null || cancel !== null) return true;
  if (workspace !== null && landed === null && !moves) return true;
  try {
    await run.base();
    return true;
  } catch (error) {
    run.signal.throwIfAborted();
    if (!(error instanceof ServiceError)) throw error;
    await failNow(run, {
      code: error.code,
      message: error.message,
      retryable: true,
      remedy: "Send a message to try again.",
    });
    return false;
  }
};

/** A Task in the user's own directory has none: what is there is not the service's to measure. */
const boundOf = (
  { limits, workspaces, disk }: RunDeps,
  { taskID, isolation, workspace }: TaskState,
  steps: () => number,
): DiskBound =>
  isolation === "directory" || limits.taskDiskBytes === 0
    ? unbounded
    : createDiskBound({
        limit: limits.taskDiskBytes,
        measure: () => workspaces.usage(taskID),
        isUnknown: workspace !== null,
        free: disk.free,
        look: disk.look,
        steps,
      });

const tidy = async (directory: string): Promise<void> => createFiles(directory).tidy();
