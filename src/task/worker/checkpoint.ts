import type { TaskState } from "../../domain/state/task.ts";
import { messageOf } from "../../error.ts";
import type { Checkpoints, Run } from "../run.ts";
import { largestCheckpoint, repositoryPlace } from "../workspace/repository.ts";

/**
 * Keeps the files of a Task where other nodes reach them while its agents work, beside the next request to the model. Nothing
 * waits for it, and nothing fails for it: what is not kept is named to the agent of the node that goes on.
 */

/** Bytes a second that one Task may have kept in the mean: a build that is not ignored must not fill what all nodes share. */
const bytesPerSecond = 64 * 1024;

/** Newest ones that stay: who has folded the log a moment ago still asks for the one before. */
const staying = 2;

type Needed = Pick<
  Run,
  "state" | "store" | "stream" | "signal" | "limits" | "log" | "slot" | "workspace" | "repositories" | "record"
>;

export const createCheckpoints = (run: () => Needed): Checkpoints => {
  const shared = () => run().store.nodes !== undefined && run().state().repository !== null;
  const isOn = () => shared() && run().limits.checkpointSeconds > 0;
  /** `edits` of the files that were last looked at. */
  let seen: number | undefined;
  let notBefore = 0;
  let timer: NodeJS.Timeout | undefined;
  let stop = new AbortController();
  let making: Promise<void> | undefined;
  /** What has to be over before others change the files, or record what they are. */
  let reading: Promise<unknown> | undefined;
  let recording: Promise<unknown> | undefined;

  const isDue = (): boolean => {
    const { touched, edits, landingStarted, landed, lifecycle } = run().state();
    return isOn() && touched && edits !== seen && landingStarted === null && landed === null && lifecycle === "active";
  };

  const make = async (signal: AbortSignal): Promise<void> => {
    const { state, store, stream, limits, repositories } = run();
    const workspace = await run().workspace();
    using slot = await run().slot(signal);
    if (!isDue() || isAtWork(state())) return;
    const { edits, version: upTo, checkpoint, tree, workspace: prepared } = state();
    signal.throwIfAborted();
    const base = prepared?.baseCommit;
    // It was moved to another one, which the workspace knows first.
    if (base == null || workspace.prepared.baseCommit !== base) return;
    seen = edits;
    notBefore = performance.now() + limits.checkpointSeconds * 1000;
    const known = checkpoint?.base === base ? checkpoint.tree : undefined;
    const kept = workspace.keep(`What ${stream} has so far\n\nTask: ${stream}\n`, known, signal);
    reading = kept.catch(() => undefined);
    const files = await kept;
    slot[Symbol.dispose]();
    if (files === undefined) return;
    // Readers on other nodes are given what is committed.
    const commits = tree === null || tree.commit === base ? [files.commit] : [files.commit, tree.commit];
    const range = { commits, base, mostBytes: largestCheckpoint, thin: true };
    const pack = await repositories.packed(repositoryPlace(run()), range, signal);
    if (pack === undefined) {
      run().log.warn({ task: stream, mostBytes: largestCheckpoint }, "what was changed is too large to be kept");
      return;
    }
    notBefore += (pack.length / bytesPerSecond) * 1000;
    const blob = await store.blobs.put(pack, true);
    signal.throwIfAborted();
    recording = run()
      .record([{ type: "checkpoint.kept", data: { ...files, base, pack: blob, upTo } }])
      .catch(() => undefined);
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

  /** Packs that may have to go, oldest first, and the version up to which they are known. */
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

  const look = (): void => {
    if (!isDue() || making !== undefined || timer !== undefined) return;
    const left = notBefore - performance.now();
    if (left <= 0) {
      if (!isAtWork(run().state())) void begin();
      return;
    }
    // The next request may take minutes.
    timer = setTimeout(() => {
      timer = undefined;
      look();
    }, left);
    timer.unref();
  };

  return {
    look,
    release,
    async now() {
      await making;
      if (isDue() && !isAtWork(run().state())) await begin();
    },
    async end() {
      clearTimeout(timer);
      timer = undefined;
      stop.abort();
      stop = new AbortController();
      await Promise.all([reading, recording]);
    },
  };
};

/** Whether a call is under way that may change the Task's own files. */
const isAtWork = ({ open, sessions }: TaskState): boolean =>
  open.some(
    ({ effect, sessionID }) =>
      (effect === "workspace" || effect === "unknown") &&
      !sessions.some((session) => session.sessionID === sessionID && session.fork !== null),
  );
