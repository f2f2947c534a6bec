import type { Checkpoint, TaskState } from "../../domain/state/task.ts";
import { messageOf } from "../../error.ts";
import type { Checkpoints, Run } from "../run.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { recordCheckpoint, storeCommits } from "../checkpoint.ts";
import { repositoryPlace } from "../repository-place.ts";

/**
 * Keeps the files of a Task where other nodes reach them while its agents work, concurrently with the next request to
 * the model. Nothing waits for it or fails because of it: the agent of the node that takes over is told what was not
 * kept.
 */

/**
 * Bytes per second that one Task may have kept on average: build output that is not ignored must not fill the space
 * that all nodes share.
 */
const bytesPerSecond = 64 * 1024;

/**
 * How many of the newest packs stay: a node that folded the log a moment ago still asks for the one before the newest.
 */
const staying = 2;

/** Milliseconds after which the remote is asked again whether it still has what a pack leaves out. */
const remoteIsKnownMs = 5 * 60_000;

type Needed = Pick<
  Run,
  | "state"
  | "store"
  | "stream"
  | "signal"
  | "limits"
  | "log"
  | "slot"
  | "workspace"
  | "workspaces"
  | "repositories"
  | "record"
  | "engine"
>;

export const createCheckpoints = (run: () => Needed): Checkpoints => {
  const shared = () => run().store.nodes !== undefined && run().state().repository !== null;
  // When this node drains, another one continues the Task, so its files are kept even without periodic checkpoints.
  const isOn = () => shared() && (run().limits.checkpointSeconds > 0 || run().engine.drains());
  /** The value of `done()` when the files were last read. */
  let seen: string | undefined;
  let notBefore = 0;
  let timer: NodeJS.Timeout | undefined;
  let stop = new AbortController();
  let making: Promise<void> | undefined;
  /** `reading` must settle before others change the files, `recording` before others record a new state of them. */
  let reading: Promise<unknown> | undefined;
  let recording: Promise<unknown> | undefined;

  /** How many callers are moving the files from commit to commit. */
  let held = 0;

  const done = (): string =>
    [run().state().edits, ...forksOf(run().state()).map(({ name, calls }) => `${name} ${calls}`)].join();

  const isDue = (): boolean => {
    const { touched, landingStarted, landed, lifecycle } = run().state();
    const isChanged = touched || forksOf(run().state()).some(({ calls }) => calls > 0);
    const may = held === 0 && landingStarted === null && landed === null && lifecycle === "active";
    return isOn() && isChanged && done() !== seen && may;
  };

  /**
   * Keeps the files of the open forks. For a session in the middle of a change, keeps the fork of the checkpoint
   * before.
   */
  const keepForks = async (workspace: Workspace, message: string, signal: AbortSignal) => {
    const { state, workspaces } = run();
    const forks: ForkKept[] = [];
    for (const { sessionID, fork } of forksOf(state())) {
      const before = state().checkpoint?.forks?.find(({ name }) => name === fork.name);
      if (isAtWork(state(), sessionID)) {
        if (before !== undefined) forks.push(before);
        continue;
      }
      const { name, commit, tree } = fork;
      const upTo = state().version;
      const own = await workspaces.fork(workspace, name, fork);
      const files = await own.keep(message, before?.tree, signal);
      forks.push({ name, ...(files ?? before ?? { commit, tree }), upTo });
    }
    return forks;
  };

  const make = async (signal: AbortSignal): Promise<void> => {
    const { state, stream, limits, repositories } = run();
    const workspace = await run().workspace();
    using slot = await run().slot(signal);
    if (!isDue() || isAtWork(state())) return;
    const { version: upTo, checkpoint, tree, workspace: prepared } = state();
    signal.throwIfAborted();
    const base = prepared?.baseCommit;
    // The workspace has been moved to another base, which is not on record yet.
    if (base == null || prepared?.baseTree == null || workspace.prepared.baseCommit !== base) return;
    seen = done();
    notBefore = performance.now() + limits.checkpointSeconds * 1000;
    const known = checkpoint?.base === base ? checkpoint : undefined;
    const message = `What ${stream} has so far\n\nTask: ${stream}\n`;
    const keeping = (async () => {
      const files = await workspace.keep(message, known?.tree, signal);
      return { files, forks: await keepForks(workspace, message, signal) };
    })();
    reading = keeping.catch(() => undefined);
    const { files, forks } = await keeping;
    slot[Symbol.dispose]();
    if (files === undefined && commitsOf(forks) === commitsOf(known?.forks ?? [])) return;
    const { commit, tree: kept } = files ?? known ?? { commit: base, tree: prepared.baseTree };
    // Readers on other nodes are served from the Task's last commit, so the pack contains it.
    const commits = new Set(
      [commit, tree?.commit ?? base, ...forks.map((fork) => fork.commit)].filter((id) => id !== base),
    );
    await repositories.refresh(repositoryPlace(run()), remoteIsKnownMs, signal);
    const stored = await storeCommits(run(), { commits: [...commits], base, thin: true }, signal);
    if (stored === undefined) return;
    notBefore += (stored.bytes / bytesPerSecond) * 1000;
    signal.throwIfAborted();
    recording = recordCheckpoint(run(), { commit, tree: kept, base, upTo, forks }, stored.told).catch(() => undefined);
    await recording;
    await release();
  };

  const begin = (): Promise<void> => {
    if (making !== undefined) return making;
    clearTimeout(timer);
    timer = undefined;
    const signal = AbortSignal.any([run().signal, stop.signal]);
    making = make(signal)
      .catch((error: unknown) => {
        if (signal.aborted) {
          seen = undefined;
          return;
        }
        run().log.warn({ task: run().stream, error: messageOf(error) }, "the files could not be kept for other nodes");
      })
      .finally(() => {
        making = undefined;
      });
    return making;
  };

  /**
   * Packs that may have to be released, oldest first. `read`: the version up to which the log was searched for them.
   */
  const packs: (string | undefined)[] = [];
  let read = 0;
  const release = async (): Promise<void> => {
    const { store, stream } = run();
    try {
      for (const { type, version, data } of await store.read(stream, { after: read, types: ["checkpoint.kept"] })) {
        read = version;
        if (type === "checkpoint.kept") packs.push(data.pack?.sha256);
      }
      const gone = packs.splice(0, Math.max(0, packs.length - staying)).filter((sha256) => sha256 !== undefined);
      const names = [...new Set(gone)].filter((sha256) => !packs.includes(sha256));
      if (names.length > 0) await store.orphans.release(stream, names);
    } catch (error) {
      run().log.debug({ task: stream, error: messageOf(error) }, "what was kept earlier could not be released");
    }
  };

  const keepIfDue = (): void => {
    if (!isDue() || making !== undefined || timer !== undefined) return;
    const left = notBefore - performance.now();
    if (left <= 0) {
      if (!isAtWork(run().state())) void begin();
      return;
    }
    // The next request may take minutes, without any event that would call `keepIfDue`.
    timer = setTimeout(() => {
      timer = undefined;
      keepIfDue();
    }, left);
    timer.unref();
  };

  const end = async (): Promise<void> => {
    clearTimeout(timer);
    timer = undefined;
    stop.abort();
    stop = new AbortController();
    await Promise.all([reading, recording]);
  };

  return {
    keepIfDue,
    release,
    async now() {
      await making;
      if (isDue() && !isAtWork(run().state())) await begin();
    },
    end,
    async hold() {
      held += 1;
      await end();
      return {
        [Symbol.dispose]() {
          held -= 1;
        },
      };
    },
  };
};

type ForkKept = NonNullable<Checkpoint["forks"]>[number];

const commitsOf = (forks: readonly ForkKept[]): string => forks.map(({ name, commit }) => `${name} ${commit}`).join();

/** Open sessions with their own copies of the files. `calls`: how many calls each has made. */
const forksOf = ({ sessions }: Pick<TaskState, "sessions">) =>
  sessions.flatMap(({ sessionID, fork, end, usage }) =>
    fork === null || end !== null ? [] : [{ sessionID, name: fork.name, fork, calls: usage.toolCalls }],
  );

/** Whether a call is under way that may change files: those of session `own`, by default the Task's. */
const isAtWork = ({ open, sessions }: Pick<TaskState, "open" | "sessions">, own?: string): boolean =>
  open.some(
    ({ effect, sessionID }) =>
      (effect === "workspace" || effect === "unknown") &&
      (own === undefined
        ? !sessions.some((session) => session.sessionID === sessionID && session.fork !== null)
        : sessionID === own),
  );
