import { existsSync } from "node:fs";
import { archiveSchema, type Manifest } from "../domain/view/archive.ts";
import { commonOf } from "../domain/view/summary.ts";
import type { TaskState } from "../domain/state/task.ts";
import { commonDirOf } from "../repository/repository.ts";
import { createGit, type Git } from "../workspace/git/git.ts";
import { createCommitReader, listCommitFiles } from "../workspace/object/commit-file.ts";
import type { ArchiveDeps } from "./archive.ts";
import { addArtifacts } from "./artifact.ts";
import { roomOf } from "./entry.ts";
import { addFlow, flowFolder } from "./execution-flow.ts";
import { addLogs } from "./log.ts";
import { addProject, notAWorktree, onDisk, type Source } from "./project.ts";
import { untrackedOf } from "./untracked.ts";
import type { Zip } from "./zip.ts";

/** A Task's archive: the tracked files of its tree, its execution flow and its artifacts. */
export const addTask = async (
  zip: Zip,
  state: TaskState,
  deps: ArchiveDeps,
  signal: AbortSignal,
): Promise<Manifest> => {
  using _held = deps.workspaces.keepWhileRead(state.taskID);
  const source = await sourceOf(state, deps, signal);
  using _reader = source.reader;
  const { files: flow, head, events } = await addFlow(zip, state, flowFolder, deps);
  const logs = await addLogs(zip, flowFolder, events, { ...deps, room: roomOf(deps.limits) });
  const artifacts = await addArtifacts(zip, flowFolder, state, { ...deps, room: roomOf(deps.limits) });
  const project = await addProject(zip, source, deps.limits, signal);
  return {
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
};

/**
 * The files to archive: those of the Task's worktree if it exists, or of the project if the Task works in place,
 * otherwise those of a commit.
 */
const sourceOf = async (
  state: TaskState,
  deps: ArchiveDeps,
  signal: AbortSignal,
): Promise<Source & { kind: Manifest["source"] }> => {
  const { store, workspaces } = deps;
  const { workspace, directory } = state;
  // A folder with the path of another node's may exist here, with files of an earlier time.
  const isOwn = state.moved === null && (workspace?.node === undefined || workspace.node === store.nodes?.name);
  const inPlace = workspace?.kind === "directory" || (workspace === null && state.isolation === "directory");
  const prepared =
    workspace ?? ({ kind: "directory", root: directory, worktree: null, branch: null, baseCommit: null } as const);
  const opened =
    inPlace || (isOwn && workspace?.worktree != null && existsSync(workspace.worktree))
      ? await workspaces.open(state.taskID, { baseTree: null, targetRef: null, ...prepared })
      : undefined;
  if (opened !== undefined && existsSync(opened.root))
    try {
      const standing = await onDisk(opened.root, opened.git, directory, signal, (git) =>
        untrackedOf(state, store, git, undefined),
      );
      return {
        ...standing,
        kind: inPlace ? "directory" : "worktree",
        commit: commitOf(state) ?? standing.commit,
      };
    } catch (error) {
      // Retention may have removed the worktree just now; the Task's commits are used then.
      if (inPlace || existsSync(opened.root)) throw error;
    }
  const { git, head, prefix } = await commitsOf(state, deps);
  const commit = commitOf(state) ?? head;
  if (commit === null) throw notAWorktree(directory);
  const listed = await listCommitFiles(git, commit, prefix, signal);
  const untracked = await untrackedOf(state, store, git, commit);
  return { kind: "commit", commit, listed, untracked, fresh: [], reader: createCommitReader(git, listed, signal) };
};

/** Git on the repository that has the commits of the Task's project. */
const commitsOf = async (
  state: TaskState,
  { workspaces, repositories }: ArchiveDeps,
): Promise<{ git: Git; head: string | null; prefix: string }> => {
  if (state.repository !== null) {
    const mirror = commonDirOf(repositories, state);
    return { git: createGit(mirror, { toplevel: mirror, gitDir: mirror }), head: null, prefix: "" };
  }
  const { git } = await workspaces.inspect(state.directory);
  if (git === undefined) throw notAWorktree(state.directory);
  return { git: createGit(git.toplevel), head: git.head, prefix: git.prefix };
};

/** The commit of the Task's tree, or the one that it is based on. */
const commitOf = (state: TaskState): string | null => commonOf(state).git.headCommit;
