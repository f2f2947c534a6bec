import { existsSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { hash, randomUUID } from "node:crypto";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import {
  type ArchivedFile,
  archiveSchema,
  type FlowFile,
  flowOf,
  frameOf,
  type Manifest,
  manifestText,
  type MissionManifest,
} from "../domain/flow.ts";
import type { Recorded } from "../domain/event.ts";
import { type Head, ledgerOf } from "../domain/ledger.ts";
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

/** Everything of a Mission but its project's files. */
export type MissionParts = {
  missionID: string;
  sessionID: string;
  directory: string;
  flow: FlowFile[];
  /** Each with its own flow below `tasks/`. */
  tasks: string[];
};

export type Archiver = {
  ofTask: (state: TaskState, signal: AbortSignal) => Promise<ArchiveFile>;
  /** The tracked files of its project's directory as they are, and the flow of it and its Tasks. */
  ofMission: (parts: MissionParts, signal: AbortSignal) => Promise<ArchiveFile>;
};

/** Refuses with `not_a_git_worktree`, and with `rate_limited` while as many are built or sent as may be. */
export const createArchiver = ({ store, workspaces, limits, dataDir, redact = same }: ArchiverDeps): Archiver => {
  const folder = join(dataDir, "tmp");
  let open = 0;

  const write = async (
    filename: string,
    signal: AbortSignal,
    build: (path: string, signal: AbortSignal) => Promise<number>,
  ): Promise<ArchiveFile> => {
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
      const bytes = await build(path, AbortSignal.any([signal, late]));
      return { path, bytes, filename, [Symbol.asyncDispose]: release };
    } catch (error) {
      await release();
      if (late.aborted && !signal.aborted)
        throw new ServiceError("internal", `The archive was not ready within ${limits.archiveSeconds} seconds.`);
      throw error;
    }
  };

  return {
    ofTask: (state, signal) => write(`${state.taskID}.zip`, signal, (path, until) => buildTask(path, state, until)),
    ofMission: (parts, signal) =>
      write(`mission-${parts.missionID}.zip`, signal, (path, until) => buildMission(path, parts, until)),
  };

  async function buildMission(path: string, parts: MissionParts, signal: AbortSignal): Promise<number> {
    const opened = await workspaces.open(parts.sessionID, {
      kind: "directory",
      root: parts.directory,
      worktree: null,
      branch: null,
      baseCommit: null,
      baseTree: null,
      targetRef: null,
    });
    const { git } = opened;
    if (git === undefined) throw notAWorktree(parts.directory);
    await insideWorktree(git, parts.directory, signal);
    const head = await git.run(["rev-parse", "--verify", "-q", "HEAD"], { ok: [0, 1, 128], signal });
    using reader = readerOnDisk(opened.root);
    const listed = await trackedInIndex(git, signal);
    const commit = head.stdout.toString("latin1").trim() || null;
    const source: Source = { kind: "directory", commit, listed, untracked: new Set(), reader };
    const zip = createZip(path, signal);
    try {
      const flow = await addFiles(zip, "execution-flow/", parts.flow);
      const omitted: Omitted[] = [];
      const ledgers: Record<string, Head> = {};
      for (const taskID of parts.tasks) {
        signal.throwIfAborted();
        const state = await store.state(taskID);
        if (state === undefined) {
          omitted.push({ path: `execution-flow/tasks/${taskID}`, reason: "the Task was deleted" });
          continue;
        }
        const added = await addFlow(zip, state, `execution-flow/tasks/${taskID}/`);
        flow.push(...added.files);
        ledgers[taskID] = added.head;
        if (state.artifacts.length > 0)
          omitted.push({ path: `execution-flow/tasks/${taskID}/artifacts`, reason: "in the Task's own archive" });
      }
      const project = await addProject(zip, source, reader, signal);
      const manifest: MissionManifest = {
        schemaVersion: archiveSchema,
        missionID: parts.missionID,
        sessionID: parts.sessionID,
        project: parts.directory,
        commit,
        source: "directory",
        complete: project.complete,
        ledgers,
        files: [...flow, ...project.files],
        omitted: [...omitted, ...project.omitted],
        warnings: project.warnings,
      };
      await zip.add("execution-flow/manifest.json", 0o100644, Buffer.from(manifestText(manifest)));
      return await zip.finish();
    } finally {
      await zip.close();
    }
  }

  async function buildTask(path: string, state: TaskState, signal: AbortSignal): Promise<number> {
    using _held = workspaces.hold(state.taskID);
    const source = await sourceOf(state, signal);
    using reader = source.reader;
    const zip = createZip(path, signal);
    try {
      const { files: flow, head, events } = await addFlow(zip, state, "execution-flow/");
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

  async function addFlow(zip: Zip, state: TaskState, folder: string) {
    // The Task's own last change stands for the present, or no two archives would be the same.
    const reads = createReads({ store, workspaces, now: () => new Date(state.updatedAt) });
    const [task, board, { messages }, recorded] = await Promise.all([
      reads.get(state.taskID),
      reads.board(state.taskID),
      reads.messages(state.taskID, { after: 0, limit: Number.MAX_SAFE_INTEGER }),
      eventsOf(state),
    ]);
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
    return { files: await addFiles(zip, folder, flow), head, events };
  }

  async function addFiles(zip: Zip, folder: string, flow: readonly FlowFile[]): Promise<ArchivedFile[]> {
    const files: ArchivedFile[] = [];
    for (const { name, text } of flow) {
      const { done } = await zip.add(`${folder}${name}`, 0o100644, Buffer.from(text));
      files.push({ name: `${folder}${name}`, ...(await done) });
    }
    return files;
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
