import type { Command, CommandResult, InteractiveCommand, InteractiveProcess } from "../process/process.ts";
import type { EventData } from "../protocol/event/event.ts";
import type { Given, LandedPath, Snapshot } from "../protocol/event/workspace.ts";
import type { Files } from "./file/files.ts";
import type { Git } from "./git/git.ts";
import type { Commit } from "./object/commit.ts";
import type { Rebased } from "./object/rebase.ts";

/**
 * Where one Task works, and how its result enters the project. `createWorkspaces` (service.ts) makes them.
 * `Prepared` is the event's data: a workspace is opened again from it after a restart, never guessed.
 */

export type Prepared = EventData["workspace.prepared"];

export type LandingPlan = { commit: string; tree: string; from: string; ref: string; paths: LandedPath[] };

/**
 * Why a result cannot enter the project as it is. `moved`: the branch has other commits than the base, rebase first.
 * `dirty`: the user's files or index have something else at these paths, which cannot be merged.
 */
export type Refusal =
  | { reason: "moved"; head: string }
  | { reason: "dirty"; paths: string[] }
  | { reason: "detached" | "gone"; message: string };

/** A change on top of a new snapshot; not ok: these paths are in the way and in no snapshot. */
export type MarkedRebase =
  | {
      ok: true;
      paths: string[];
      /** What git says of conflicts that no marker shows. */
      said: string[];
      /** Those of the paths where the project's side is not committed. */
      uncommitted: string[];
      /** What the project changed at these paths, as a diff. */
      theirs: string;
      baseCommit: string;
      baseTree: string;
      snapshot?: Snapshot;
      commit: string;
      tree: string;
    }
  | { ok: false; paths: string[] };

/** A fork's change in the Task's files. Not ok: both changed the same; the change is on a branch of its own. */
export type ForkMerge = { ok: true; files: number } | { ok: false; paths: string[]; branch: string; commit: string };

export interface Workspace {
  readonly prepared: Prepared;
  /** Absolute real path; the tools' working directory and their confinement. */
  readonly root: string;
  /** The root as commands see it: the project's own path where they run in a sandbox with files of its own. */
  readonly rootInSandbox: string;
  readonly files: Files;
  /** The project's ignored dependency folders as commands have them here; worktrees only. */
  readonly dependencies: readonly Given[];
  /** Hardened git in this workspace; undefined where the directory is no Git worktree. */
  readonly git: Git | undefined;
  /** Runs a command with bash in the workspace, its process group on record until it is gone. */
  run(command: Command): Promise<CommandResult>;
  /** Makes ready for the first command, while something else is waited for. */
  prepareSandbox(): void;
  /** Starts a program in the workspace and talks with it; its process group is on record like a command's. */
  startInteractive(talk: InteractiveCommand): Promise<InteractiveProcess>;
  /** The tree on disk as one commit on the base, on the Task's branch. undefined: equals the base. Worktrees only. */
  commit(message: string): Promise<Commit | undefined>;
  /** Files as in the last commit (or the base): what a check left behind goes, ignored files stay. Worktrees only. */
  reset(commit: string): Promise<void>;
  /** Which files stand here: other ones after the worktree was made anew. */
  stamp(): string;
  /** What commands have put into dependency folders goes, so that a setup can begin again. Worktrees only. */
  clearDependencies(): Promise<void>;
  /** Unified diff of the Task's commit, or of the tree on disk, against the base or another commit. */
  diff(commit: string | null, from?: string): Promise<string>;
}

/** Where one check runs. */
export type CheckEnvironment = Pick<Workspace, "root" | "rootInSandbox" | "files" | "run" | "startInteractive">;

/** A file that stands in the place of the commit's. */
export type FileOverride = { path: string; bytes: Buffer; executable: boolean };

/** Files of a commit beside those of another before it; paths are relative to the root. */
export interface BaseFiles {
  /** A file's text before; undefined: there was none. */
  text(path: string): Promise<string | undefined>;
  now(path: string): Promise<string | undefined>;
  /** What a file was that is changed or gone; undefined: it is as it was, or new. */
  changed(path: string): Promise<{ bytes: Buffer; executable: boolean } | undefined>;
}

/** The files of one commit of a Task and nothing its agents left beside them. Disposed of, it is gone from the disk. */
export interface Checkout extends AsyncDisposable {
  /** Each check has files of its own, so they may run at the same time. */
  readonly isolated: boolean;
  /** What is done here is there for every check, once `keep` was called. */
  whole(): Promise<CheckEnvironment>;
  keep(): Promise<void>;
  /** Told by one git process. */
  before(base: string): Promise<BaseFiles>;
  /** For one check; what it leaves goes when it is disposed of. */
  open(name: string, laid?: readonly FileOverride[]): Promise<CheckEnvironment & AsyncDisposable>;
}

/** One per service: makes, opens and removes workspaces, and lands their results. */
export interface Workspaces {
  /** What kind of project a directory is; throws `ServiceError(directory_*)` when it cannot be one. */
  inspect(directory: string): Promise<Project>;
  /** A new workspace; the same again when it already stands (a worker died after making it). */
  prepare(request: PrepareRequest): Promise<Workspace>;
  /** `tip`: by the Task's own run, which says what commit the files should be; what a kill left half-moved is put right. */
  open(taskID: string, prepared: Prepared, tip?: string): Promise<Workspace>;
  /** The files of this commit for checks; the same again, moved to it, until it is disposed of. Worktrees only. */
  checkout(workspace: Workspace, commit: string): Promise<Checkout>;
  /** Files of their own for one of several agents at once, from a commit of the Task's; the same again when they stand. */
  fork(workspace: Workspace, name: string, from: { commit: string; tree: string }): Promise<Workspace>;
  /** What the fork changed, merged into the Task's files, which are put to `tip` before; done again it gives the same. */
  mergeFork(workspace: Workspace, fork: Workspace, tip: string, message: string): Promise<ForkMerge>;
  /** Once the join is on record: the fork's own files go, and its branch too, unless it keeps this commit. */
  closeFork(workspace: Workspace, name: string, commit: string | undefined): Promise<void>;
  /**
   * Opens the workspace of a Task that nobody works on, for as long as `use` takes; its files are as in `commit`
   * afterwards. `judge` is asked when nothing else can open it: false, and nothing is done. A run that begins meanwhile
   * waits.
   */
  withIdleWorkspace<T>(
    taskID: string,
    prepared: Prepared,
    commit: string | undefined,
    judge: () => Promise<boolean>,
    use: (workspace: Workspace) => Promise<T>,
  ): Promise<T | undefined>;
  /** Dry run, once no other git command is at the project's index: what would change, or why not. Writes nothing. */
  plan(workspace: Workspace, commit: Commit, base: string): Promise<LandingPlan | Refusal>;
  /** Files, index, ref; idempotent, rolls forward path by path. `withdrawn`: the ref moved, all is as before. */
  land(workspace: Workspace, plan: LandingPlan): Promise<{ ok: true; kept: string[] } | { ok: false; reason: string }>;
  /** The same change on the head of the project's branch; with the branch kept only, on what the snapshot was made from. */
  rebase(workspace: Workspace, commit: Commit, message: string): Promise<Rebased>;
  /** The same change on top of what the project holds now, with conflict markers; `dirty`: what `plan` refused for. */
  rebaseWithMarkers(
    workspace: Workspace,
    commit: Commit,
    message: string,
    dirty: readonly string[],
  ): Promise<MarkedRebase>;
  /** Paths of these where conflict markers still stand. */
  unresolved(workspace: Workspace, paths: readonly string[]): Promise<string[]>;
  /** One landing at a time for a project. */
  landingTurn(project: string, signal: AbortSignal): Promise<Disposable>;
  /** Removes worktree and branch of a deleted Task, if it has any. */
  remove(taskID: string): Promise<void>;
  /** Before a Task is deleted: a service that dies then is followed by one that finds the mark and removes. */
  markForRemoval(taskID: string): void;
  isMarkedForRemoval(taskID: string): boolean;
  unmarkForRemoval(taskID: string): void;
  /** Tasks with something on disk. What a kill left half-removed goes. */
  listWorktrees(): string[];
  /**
   * Removes the worktree of a Task that has ended, not its branch, once git says that all of it is committed. `judge`
   * is asked when nothing else can open the worktree: the commit that holds the work, or undefined to leave it.
   */
  retire(taskID: string, judge: () => Promise<string | undefined>): Promise<Retired>;
  /** Keeps the worktree while it is read. */
  keepWhileRead(taskID: string): Disposable;
}

export type Project = {
  /** Real path as given. */
  directory: string;
  /** The Git common directory's real path, else the directory's: what two worktrees of a repository share. */
  project: string;
  git:
    | undefined
    | {
        toplevel: string;
        /** The directory's path inside the repository, "" at the top. */
        prefix: string;
        /** null: no commit yet. */
        head: string | null;
        /** Full name of the branch; null: detached. */
        branch: string | null;
      };
};

export type PrepareRequest = {
  taskID: string;
  directory: string;
  isolation: "worktree" | "directory";
  landing: "commit" | "branch" | "none";
};

export type Retired = { removed: true } | { removed: false; reason: string };
