import { isDeferred } from "../../domain/state/stream.ts";
import { remoteOf } from "../../domain/state/task.ts";
import { isCrashLoop } from "../../domain/task/crash.ts";
import { dueNow } from "../../engine/due.ts";
import { messageOf, ServiceError } from "../../error.ts";
import { commonDirOf, withLocalDirectory } from "../../repository/repository.ts";
import type { Claim } from "../../store/store.ts";
import { EnvironmentLost } from "../../workspace/error.ts";
import { createFiles } from "../../workspace/file/files.ts";
import { tryDirectory, waitForDirectory } from "../directory-queue.ts";
import type { Run, RunDeps } from "../run.ts";
import { failNow } from "../step/settle.ts";
import { composeRun, forksOf } from "./compose.ts";
import { applyEnvironment, environmentEvents } from "./environment.ts";
import { readRules } from "./project-rules.ts";
import { readServers, readsServers } from "./project-servers.ts";
import { nodeBefore, takeOver } from "./take-over.ts";

/** Opens a run from a claim: ends what an earlier run left, and reads the project's environment, rules and servers. */

/**
 * Folds the log, kills the processes that an earlier run left, records `run.started`, and begins to create the
 * workspace while the model answers its first request. Resolves to undefined when the Task cannot run now; it was then
 * made due again, parked or ended.
 */
export const openRun = async (
  deps: RunDeps,
  claim: Claim,
  signal: AbortSignal,
  scope: AsyncDisposableStack,
): Promise<Run | undefined> => {
  const folded = await deps.store.state(claim.stream);
  if (folded === undefined) return undefined;
  const run = await composeRun(deps, claim, withLocalDirectory(deps.repositories, folded), signal, scope);
  if (run.state().lifecycle !== "active") {
    await run.record([], { due: null });
    return run;
  }
  if (await isEarly(run)) return undefined;
  if (!(await hasDirectory(run, scope))) return undefined;
  const killed = await endEarlier(run);
  if (isCrashLoop(run.state(), deps.worker)) {
    const { crashes, version } = run.state();
    await failNow(run, {
      code: "crash_loop",
      message: `The service died ${crashes + 1} times in a row at the same step of this Task (after ${version} events), the last time while nothing else ran.`,
      retryable: false,
      remedy: "Read the service's log, then send a message to try again.",
    });
    return undefined;
  }
  return (await begin(run, claim, killed, scope)) ? run : undefined;
};

/** Whether the Task is not due yet; if so, it is made due at its time again. */
const isEarly = async ({ state, record, now }: Run): Promise<boolean> => {
  const { deferred, priority } = state();
  if (deferred === null || !isDeferred(deferred, now())) return false;
  const until = new Date(deferred.until);
  await record([], { due: { at: until, rank: dueNow(until, priority).rank } });
  return true;
};

/**
 * Takes the user's directory for a Task that works in place, and waits while another Task has it. false: the run was
 * aborted while it waited.
 */
const hasDirectory = async (run: Run, scope: AsyncDisposableStack): Promise<boolean> => {
  const { state, workspaces, engine, stream, signal, now } = run;
  if (state().isolation !== "directory") return true;
  const isEnding = () => state().cancel?.mode === "stop";
  const { directory, project, priority } = state();
  const take = () => workspaces.holdDirectory(directory, project);
  const wait = async () => {
    using _aside = engine.standAside(stream);
    return await waitForDirectory({ taskID: stream, directory, rank: dueNow(now(), priority).rank, take }, signal);
  };
  const hold = tryDirectory(take) ?? (isEnding() ? undefined : await wait());
  // A Task that is only being ended does nothing in the directory.
  if (hold === undefined) return isEnding();
  scope.use(hold);
  // In a worktree, a commit leaves out the temporary files of interrupted writes; in the user's directory they must be
  // removed.
  if (state().open.length > 0)
    await tidy(directory).catch((error: unknown) => run.log.warn({ stream, error: messageOf(error) }, "not tidied"));
  return true;
};

/** Ends what an earlier run left. Resolves to the ids of the processes that were killed. */
const endEarlier = async ({ state, stream, processes, workspaces, repositories }: Run): Promise<number[]> => {
  if (state().startedAt === null) return [];
  const killed = await Promise.all([stream, ...forksOf(state())].map((key) => processes.killAll(key)));
  await workspaces.unlockRefs(stream, commonDirOf(repositories, state()));
  return killed.flat();
};

/** Records the beginning of the run, and reads the project's settings. false: the Task has failed. */
const begin = async (run: Run, claim: Claim, killed: number[], scope: AsyncDisposableStack): Promise<boolean> => {
  const { stream, state, record, log } = run;
  const { directory, repository } = state();
  const asks = readsServers(state());
  const readsRules = state().reply === null && state().projectRules === null;
  // Read before any agent works, because an agent that works in place could write the file.
  const early = readsRules && repository === null ? await readRules(directory) : [];
  const given = await environmentEvents(run, state());
  await record([
    {
      type: "run.started",
      data: {
        worker: run.worker,
        epoch: claim.fence.epoch,
        sandbox: run.sandbox,
        killed,
        ...(run.suspects.isAlone(stream) ? { alone: true as const } : {}),
      },
    },
    ...("problem" in early ? [] : early),
    ...given,
  ]);
  if (!(await environmentIsThere(run, scope))) return false;
  const before = nodeBefore(run);
  if (!(await baseIsThere(run, before !== undefined))) return false;
  if (before !== undefined) await takeOver(run, before);
  const late = readsRules && repository !== null ? await readRules(state().directory) : [];
  if (!("problem" in late) && late.length > 0) await record(late);
  const servers = asks ? await readServers(run, state()) : [];
  if (servers.length > 0) await record(servers);
  const rules = "problem" in early ? early : late;
  if ("problem" in rules) {
    await failNow(run, {
      code: "permissions_invalid",
      message: rules.problem,
      retryable: false,
      remedy: "Fix or remove the file, then send a message to continue.",
    });
    return false;
  }
  if (state().cancel === null && state().landed === null)
    run
      .workspace()
      .then((workspace) => workspace.prepareSandbox())
      .catch((error: unknown) => log.debug({ stream, error: messageOf(error) }, "no workspace"));
  return true;
};

/** false: this machine lacks what the project's environment needs, and the Task has failed. */
const environmentIsThere = async (run: Run, scope: AsyncDisposableStack): Promise<boolean> => {
  try {
    scope.use(await applyEnvironment(run));
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
 * A Task whose result is pushed begins with what the remote has; its agents are told about the project from there.
 * `moves`: this node takes the Task over. false: the remote could not be fetched, and the Task has failed.
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

const tidy = async (directory: string): Promise<void> => createFiles(directory).tidy();
