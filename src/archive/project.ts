import type { ArchivedFile } from "../domain/view/archive.ts";
import { ServiceError } from "../error.ts";
import { pace } from "../pace.ts";
import type { Limits } from "../protocol/limit.ts";
import type { Git } from "../workspace/git/git.ts";
import { createDiskReader, listIndexFiles } from "../workspace/tree/tracked-file.ts";
import { splitNul } from "../workspace/git/output.ts";
import {
  listTimeoutMs,
  type TrackedContent,
  type TrackedFile,
  type TrackedReader,
} from "../workspace/object/commit-file.ts";
import { linkFault, type Named, nameEntries, type Omitted } from "./entry.ts";
import type { AddedEntry, Zip } from "./zip.ts";

/**
 * Adds the tracked files of a project to an archive. `git archive` is not used, because attributes change what it
 * writes.
 */

export type Source = {
  commit: string | null;
  listed: TrackedFile[];
  /** Files of the user that are not the Task's work. */
  untracked: ReadonlySet<string>;
  /** Files on disk that Git neither tracks nor ignores: they are left out of the archive and listed in its manifest. */
  fresh: readonly string[];
  reader: TrackedReader;
};

type Archived = { files: ArchivedFile[]; omitted: Omitted[]; warnings: Omitted[]; complete: boolean };

/** The number of entries that are read ahead. */
const ahead = 16;

/**
 * The files that Git tracks in a folder, read from disk. `untracked`: returns the user's files that are not the Task's
 * work. Rejects with `not_a_git_worktree`.
 */
export const onDisk = async (
  root: string,
  git: Git | undefined,
  directory: string,
  signal: AbortSignal,
  untracked: (git: Git) => Promise<ReadonlySet<string>> = async () => new Set(),
): Promise<Source> => {
  if (git === undefined) throw notAWorktree(directory);
  const { stdout } = await git.run(["rev-parse", "--is-inside-work-tree"], { ok: [0, 128], signal });
  if (stdout.toString("latin1").trim() !== "true") throw notAWorktree(directory);
  const others = ["ls-files", "-z", "--others", "--exclude-standard"];
  const head = await git.run(["rev-parse", "--verify", "-q", "HEAD"], { ok: [0, 1, 128], signal });
  return {
    commit: head.stdout.toString("latin1").trim() || null,
    listed: await listIndexFiles(git, signal),
    untracked: await untracked(git),
    fresh: splitNul((await git.run(others, { signal, timeoutMs: listTimeoutMs })).stdout),
    reader: createDiskReader(root),
  };
};

export const notAWorktree = (directory: string) =>
  new ServiceError(
    "not_a_git_worktree",
    `${directory} is not a Git worktree. Run \`git init\` there, or pass another directory.`,
  );

export const addProject = async (
  zip: Zip,
  { listed, untracked, fresh, reader }: Source,
  limits: Limits,
  signal: AbortSignal,
): Promise<Archived> => {
  const own = listed.filter(({ path }) => !untracked.has(path));
  const { entries, omitted, warnings } = await nameEntries(own, "project");
  for (const path of untracked)
    omitted.push({ path, reason: "untracked in the project when the Task started, and not changed by it" });
  for (const path of fresh.slice(0, limits.archiveFiles)) omitted.push({ path, reason: "new, and not tracked by Git" });
  if (fresh.length > limits.archiveFiles)
    omitted.push({ path: "", reason: `${fresh.length - limits.archiveFiles} more new files, not tracked by Git` });
  const added: { entry: Named; mode: number; done: Promise<AddedEntry> }[] = [];
  let bytes = 0;
  let complete = true;
  for await (const { entry, found } of readAhead(
    entries.slice(0, limits.archiveFiles),
    reader,
    limits.archiveFileBytes,
    signal,
  )) {
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
      omit(fault ?? `exceeds the archive's limit of ${limits.archiveBytes} bytes`);
      continue;
    }
    bytes += size;
    const mode = Number.parseInt(entry.mode, 8) | (entry.mode === "120000" ? 0o777 : 0);
    const { done } = await zip.add(entry.name, mode, found.kind === "bytes" ? found.bytes : found.stream);
    added.push({ entry, mode, done });
  }
  for (const { path } of entries.slice(limits.archiveFiles)) {
    complete = false;
    omitted.push({ path, reason: `exceeds the archive's limit of ${limits.archiveFiles} files` });
  }
  const files: ArchivedFile[] = [];
  for (const { entry, mode, done } of added) {
    const { name, path } = entry;
    files.push({ name, ...(name === `project/${path}` ? {} : { path }), ...(await done), mode: mode.toString(8) });
    await pace();
  }
  return { files, omitted: omitted.toSorted((a, b) => (a.path < b.path ? -1 : 1)), warnings, complete };
};

/** Reads entries in order, several ahead: one waits for the disk while another is compressed. */
async function* readAhead(
  entries: readonly Named[],
  reader: TrackedReader,
  most: number,
  signal: AbortSignal,
): AsyncGenerator<{ entry: Named; found: TrackedContent }> {
  const queue: { entry: Named; found: Promise<TrackedContent> }[] = [];
  try {
    for (const entry of entries) {
      // Small files are read and compressed synchronously, so other work may run in between.
      await pace();
      signal.throwIfAborted();
      const found = reader.read(entry, most);
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
