import { existsSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { hash, randomUUID } from "node:crypto";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { type ArchivedFile, archiveSchema, flowOf, frameOf, type Manifest, manifestText } from "../domain/flow.ts";
import type { Recorded } from "../domain/event.ts";
import { ledgerOf } from "../domain/ledger.ts";
import { commonOf } from "../domain/summary.ts";
import type { TaskState } from "../domain/task.ts";
import { ServiceError } from "../errors.ts";
import { mapStrings } from "../redact.ts";
import type { Limits } from "../protocol/limits.ts";
import type { Store } from "../store/store.ts";
import { createGit, type Git } from "../workspace/git.ts";
import {
  type Found,
  readerInCommit,
  readerOnDisk,
  type Tracked,
  trackedInCommit,
  trackedInIndex,
  type TrackedReader,
} from "../workspace/tracked.ts";
import type { Workspace, Workspaces } from "../workspace/workspace.ts";
import { addArtifacts } from "./artifacts.ts";
import { linkFault, type Named, nameEntries, type Omitted } from "./entries.ts";
import { addLogs } from "./logs.ts";
import { createReads } from "./reads.ts";
import type { ArchiveFile } from "./tasks.ts";
import { untrackedOf } from "./untracked.ts";
import { type Added, createZip, type Zip } from "./zip.ts";

/**
 * A Task's project archive: the tracked files of its tree, and its execution flow, as one ZIP. The same Task in the
 * same state gives the same bytes. Never `git archive`, whose attributes change what it writes.
 */

export type ArchiverDeps = {
  store: Store;
  workspaces: Workspaces;
  limits: Limits;
  dataDir: string;
  /** Takes secrets out of the execution flow once more; default: as it stands. */
  redact?: (text: string) => string;
};

type Source = {
  kind: Manifest["source"];
  commit: string | null;
  listed: Tracked[];
  /** The user's own files, which are no work of the Task's. */
  untracked: ReadonlySet<string>;
  reader: TrackedReader;
};

type Archived = { files: ArchivedFile[]; omitted: Omitted[]; warnings: Omitted[]; complete: boolean };

/** Entries that are read before their turn. */
const ahead = 16;
const longestTurnMs = 10;

const same = (text: string): string => text;

/** Refuses with `not_a_git_worktree`, and with `rate_limited` while as many are built or sent as may be. */
export const createArchiver = ({ store, workspaces, limits, dataDir, redact = same }: ArchiverDeps) => {
  const folder = join(dataDir, "tmp");
  let open = 0;

  return async (state: TaskState, signal: AbortSignal): Promise<ArchiveFile> => {
    if (open >= limits.archives)
      throw new ServiceError(
        "rate_limited",
        `Expected at most ${limits.archives} archives at once. Try again in a few seconds.`,
        { headers: { "retry-after": "5" } },
      );
    open += 1;
    const path = join(folder, `${randomUUID()}.zip`);
    let held = true;
    const release = async () => {
      if (!held) return;
      held = false;
      open -= 1;
      await rm(path, { force: true });
    };
    const late = AbortSignal.timeout(limits.archiveSeconds * 1000);
    try {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      const bytes = await build(path, state, AbortSignal.any([signal, late]));
      return { path, bytes, filename: `${state.taskID}.zip`, [Symbol.asyncDispose]: release };
    } catch (error) {
      await release();
      if (late.aborted && !signal.aborted)
        throw new ServiceError("internal", `The archive was not ready within ${limits.archiveSeconds} seconds.`);
      throw error;
    }
  };

  async function build(path: string, state: TaskState, signal: AbortSignal): Promise<number> {
    using _held = workspaces.hold(state.taskID);
    const source = await sourceOf(state, signal);
    using reader = source.reader;
    const zip = createZip(path, signal);
    try {
      const { files: flow, head, events } = await addFlow(zip, state);
      const logs = await addLogs(zip, events, { blobs: store.blobs, redact, limits });
      const artifacts = await addArtifacts(zip, state, store.blobs);
      const project = await addProject(zip, source, reader, signal);
      const manifest: Manifest = {
        schemaVersion: archiveSchema,
        taskID: state.taskID,
        project: state.directory,
        commit: source.commit,
        source: source.kind,
        complete: project.complete,
        ledger: head,
        files: [...flow, ...logs.files, ...artifacts.files, ...project.files],
        omitted: [...logs.omitted, ...artifacts.omitted, ...project.omitted],
        warnings: project.warnings,
      };
      await zip.add("execution-flow/manifest.json", 0o100644, Buffer.from(manifestText(manifest)));
      return await zip.finish();
    } finally {
      await zip.close();
    }
  }

  async function standing(
    { root, git }: Workspace,
    state: TaskState,
    inPlace: boolean,
    signal: AbortSignal,
  ): Promise<Source> {
    if (git === undefined) throw notAWorktree(state.directory);
    await insideWorktree(git, state.directory, signal);
    const head = await git.run(["rev-parse", "--verify", "-q", "HEAD"], { ok: [0, 1, 128], signal });
    return {
      kind: inPlace ? "directory" : "worktree",
      commit: commitOf(state) ?? (head.stdout.toString("latin1").trim() || null),
      listed: await trackedInIndex(git, signal),
      untracked: await untrackedOf(state, store, git, undefined),
      reader: readerOnDisk(root),
    };
  }

  /** The Task's own worktree; the project's files when it works in place; else the repository's objects. */
  async function sourceOf(state: TaskState, signal: AbortSignal): Promise<Source> {
    const { workspace, directory } = state;
    const inPlace = workspace?.kind === "directory" || (workspace === null && state.isolation === "directory");
    const prepared =
      workspace ?? ({ kind: "directory", root: directory, worktree: null, branch: null, baseCommit: null } as const);
    const opened =
      inPlace || (workspace?.worktree != null && existsSync(workspace.worktree))
        ? await workspaces.open(state.taskID, { baseTree: null, targetRef: null, ...prepared })
        : undefined;
    if (opened !== undefined && existsSync(opened.root))
      try {
        return await standing(opened, state, inPlace, signal);
      } catch (error) {
        // A worktree may go in this moment, its retention over; its commits tell then.
        if (inPlace || existsSync(opened.root)) throw error;
      }
    const project = (await workspaces.inspect(directory)).git;
    if (project === undefined) throw notAWorktree(directory);
    const commit = commitOf(state) ?? project.head;
    if (commit === null) throw notAWorktree(directory);
    const git = createGit(project.toplevel);
    const listed = await trackedInCommit(git, commit, project.prefix, signal);
    const untracked = await untrackedOf(state, store, git, commit);
    return { kind: "commit", commit, listed, untracked, reader: readerInCommit(git, listed, signal) };
  }

  async function addFlow(zip: Zip, state: TaskState) {
    // The Task's own last change stands for the present, or no two archives would be the same.
    const reads = createReads({ store, workspaces, now: () => new Date(state.updatedAt) });
    const [task, board, { messages }, recorded] = await Promise.all([
      reads.get(state.taskID),
      reads.board(state.taskID),
      reads.messages(state.taskID, { after: 0, limit: Number.MAX_SAFE_INTEGER }),
      eventsOf(state),
    ]);
    const files: ArchivedFile[] = [];
    // The metadata is the caller's own, and stays as it was given.
    const clean = <T>(value: T): T => mapStrings(value, redact);
    const { metadata } = state;
    const events = recorded.map((event) =>
      frameOf(event.type === "task.created" ? { ...event, data: { ...clean(event.data), metadata } } : clean(event)),
    );
    const { ledger, ...head } = ledgerOf(state.taskID, events, (text) => hash("sha256", text));
    const flow = flowOf({
      state: clean(state),
      task: { ...clean(task), metadata },
      board: clean(board),
      messages: clean(messages),
      events,
      ledger,
    });
    for (const { name, text } of flow) {
      const full = `execution-flow/${name}`;
      const { done } = await zip.add(full, 0o100644, Buffer.from(text));
      files.push({ name: full, ...(await done) });
    }
    return { files, head, events };
  }

  async function eventsOf({ taskID, version }: TaskState): Promise<Recorded[]> {
    const events: Recorded[] = [];
    while (events.length < version) {
      const page = await store.read(taskID, { after: events.length, limit: Math.min(1000, version - events.length) });
      if (page.length === 0) break;
      events.push(...page);
    }
    return events;
  }

  async function addProject(
    zip: Zip,
    { listed, untracked }: Source,
    reader: TrackedReader,
    signal: AbortSignal,
  ): Promise<Archived> {
    const own = listed.filter(({ path }) => !untracked.has(path));
    const { entries, omitted, warnings } = nameEntries(own, "project");
    for (const path of untracked)
      omitted.push({ path, reason: "untracked in the project when the Task began, and not changed by it" });
    const added: { entry: Named; mode: number; done: Promise<Added> }[] = [];
    let bytes = 0;
    let complete = true;
    for await (const { entry, found } of readAhead(entries.slice(0, limits.archiveFiles), reader, signal)) {
      const omit = (reason: string) => void omitted.push({ path: entry.path, reason });
      if (found.kind === "absent") {
        omit(found.reason);
        continue;
      }
      const size = found.kind === "bytes" ? found.bytes.length : found.bytes;
      const fault = entry.mode === "120000" && found.kind === "bytes" ? linkFault(entry.path, found.bytes) : undefined;
      const full = bytes + size > limits.archiveBytes;
      if (fault !== undefined || full) {
        if (found.kind === "stream") found.stream.destroy();
        if (fault === undefined) complete = false;
        omit(fault ?? `beyond the archive's limit of ${limits.archiveBytes} bytes`);
        continue;
      }
      bytes += size;
      const mode = Number.parseInt(entry.mode, 8) | (entry.mode === "120000" ? 0o777 : 0);
      const { done } = await zip.add(entry.name, mode, found.kind === "bytes" ? found.bytes : found.stream);
      added.push({ entry, mode, done });
    }
    for (const { path } of entries.slice(limits.archiveFiles)) {
      complete = false;
      omitted.push({ path, reason: `beyond the archive's limit of ${limits.archiveFiles} files` });
    }
    const files = await Promise.all(
      added.map(async ({ entry: { name, path }, mode, done }) => ({
        name,
        ...(name === `project/${path}` ? {} : { path }),
        ...(await done),
        mode: mode.toString(8),
      })),
    );
    return { files, omitted: omitted.toSorted((a, b) => (a.path < b.path ? -1 : 1)), warnings, complete };
  }

  /** In order, several ahead: one waits for the disk while another is compressed. */
  async function* readAhead(
    entries: readonly Named[],
    reader: TrackedReader,
    signal: AbortSignal,
  ): AsyncGenerator<{ entry: Named; found: Found }> {
    const queue: { entry: Named; found: Promise<Found> }[] = [];
    let since = performance.now();
    try {
      for (const entry of entries) {
        // Small files are read and compressed at once: others have their turn in between.
        if (performance.now() - since > longestTurnMs) {
          await setImmediate();
          since = performance.now();
        }
        signal.throwIfAborted();
        const found = reader.read(entry, limits.archiveFileBytes);
        found.catch(() => undefined);
        queue.push({ entry, found });
        if (queue.length >= ahead) {
          const first = queue.shift();
          if (first !== undefined) yield { entry: first.entry, found: await first.found };
        }
      }
      for (let first = queue.shift(); first !== undefined; first = queue.shift())
        yield { entry: first.entry, found: await first.found };
    } finally {
      for (const { found } of queue)
        void found.then((late) => late.kind === "stream" && late.stream.destroy()).catch(() => undefined);
    }
  }
};

/** What the Task's tree is now, or is based on. */
const commitOf = (state: TaskState): string | null => commonOf(state).git.headCommit;

const notAWorktree = (directory: string) =>
  new ServiceError(
    "not_a_git_worktree",
    `${directory} is not a Git worktree. Run \`git init\` there, or pass another directory.`,
  );

const insideWorktree = async (git: Git, directory: string, signal: AbortSignal): Promise<void> => {
  const { stdout } = await git.run(["rev-parse", "--is-inside-work-tree"], { ok: [0, 128], signal });
  if (stdout.toString("latin1").trim() !== "true") throw notAWorktree(directory);
};
