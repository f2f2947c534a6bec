import type { Command, CommandResult, InteractiveCommand, InteractiveProcess } from "../process/process.ts";
import type { EventData } from "../protocol/event/event.ts";
import type { Given, LandedPath, Snapshot } from "../protocol/event/workspace.ts";
import type { Files } from "./file/files.ts";
import type { Commit } from "./object/commit.ts";
import type { Branches } from "./object/branch.ts";
import type { Rebased } from "./object/rebase.ts";
import type { Reverted } from "./object/revert.ts";
import type { TreeGit } from "./tree/tree-git.ts";
import type { Usage } from "./usage/measure.ts";

/** Where a Task works, and how its result enters the project. `createWorkspaces` (service.ts) implements it. */

/** What kind of project a directory is. */
export type Project = {
  /** Real path of the directory that the caller named. */
  directory: string;
  /**
   * Its identity: real path of the Git common directory, else of the directory. All worktrees of one repository have
   * the same. For a repository named by its address: the address.
   */
  project: string;
  /** Real path of the mirror of a repository named by its address; the directory is then the service's own. */
  mirror?: string;
  /**
   * The node that has the directory, which this node did not inspect. `git`: whether it has commits, as far as is
   * known.
   */
  elsewhere?: { node: string; git: boolean };
  /** undefined: the directory is in no Git worktree. */
  git:
    | undefined
    | {
        toplevel: string;
        /** The directory's path inside the repository, "" at the top. */
        prefix: string;
        /** The commit checked out; null: no commit yet. */
        head: string | null;
        /** Full name of the branch (`refs/heads/…`); null: detached. */
        branch: string | null;
      };
};

export type PrepareRequest = {
  taskID: string;
  directory: string;
  /** Where the Task works: in a worktree of its own, or in the directory itself. */
  isolation: "worktree" | "directory";
  /** What happens to the result. Only `commit` needs a branch to land on. */
  landing: "commit" | "branch" | "none";
  /**
   * The commit that the work begins from, whatever the directory holds. `targetRef`: the branch to land on, for a
   * mirror or a clone its remote-tracking ref; null: the Task keeps its own branch. `tip`: a commit on top of it that
   * the files are taken from; by default the base itself. `unfinished`: the changes of `tip` count as not committed.
   * `named`: the caller named the branch, and the directory may be on another one.
   */
  base?: { commit: string; targetRef: string | null; tip?: string; unfinished?: boolean; named?: true };
  /** Starts from the branch's commit alone, without uncommitted changes in the directory. */
  committedOnly?: boolean;
  /**
   * Leaves out squads that are not committed in the directory: a Mission's Tasks use their squad from its pinned copy.
   */
  withoutSquads?: boolean;
};

/** Data of the event `workspace.prepared`. A restarted service opens a workspace from this record alone. */
export type Prepared = EventData["workspace.prepared"];

/**
 * A program of the service's own. `path`: where it is on this machine, for sandboxes that show this machine's files.
 */
export type Program = { name: string; path: string };

/** The files of one Task, or of one fork of a Task. "Worktrees only": rejects where the Task works in place. */
export interface Workspace {
  readonly prepared: Prepared;
  /** Absolute real path: the working directory of tools, which may not leave it. */
  readonly root: string;
  /** The root as commands see it. A sandbox with a file system of its own shows it at the project's own path. */
  readonly rootInSandbox: string;
  /** Confined file access. Reading the property throws `WorkspaceLost` where the worktree has been removed. */
  readonly files: Files;
  /** The project's ignored dependency folders, as commands have them here. Empty in place. */
  readonly dependencies: readonly Given[];
  /** git over the files, as a command of the Task; undefined where the directory is in no Git worktree. */
  readonly git: TreeGit | undefined;
  /**
   * Runs a command with bash. A command that fails or cannot start resolves with the reason. Its process group is on
   * record until it has ended, so that a restarted service can end what a killed one left.
   */
  run(command: Command): Promise<CommandResult>;
  /**
   * Runs a program of the service's own over the files, in the same sandbox as the commands and never outside it,
   * because an agent shapes what the program reads. Like `run`, but without waiting for the operator's setup.
   */
  runProgram(program: Program, args: readonly string[], command: Omit<Command, "run">): Promise<CommandResult>;
  /** Starts opening the sandbox in the background, to save the first command the wait. */
  prepareSandbox(): void;
  /** Starts a program whose input and output stay open; its process group is on record like a command's. */
  startInteractive(talk: InteractiveCommand): Promise<InteractiveProcess>;
  /**
   * Makes the tree on disk one commit on the base, on the Task's branch, whatever agents did with branches meanwhile.
   * undefined: the tree equals the base. Repairs the worktree's git directory where an agent broke it. Throws
   * `WorkspaceLost` where the worktree or its repository is gone. `idleMs`: how long git may make no progress; 30 s.
   * Worktrees only.
   */
  commit(message: string, idleMs?: number): Promise<Commit | undefined>;
  /**
   * Makes one commit of the files as they are now, on the base, held by a ref of its own in the repository. Work in the
   * worktree goes on meanwhile, and no HEAD, index or file is touched. Leaves out what `commit` leaves out. undefined:
   * the tree equals `known`, by default the base's tree. Rejects where git fails; worktrees only.
   */
  keep(
    message: string,
    known: string | undefined,
    signal: AbortSignal,
  ): Promise<Pick<Commit, "commit" | "tree"> | undefined>;
  /**
   * The id of the tree that a commit of the files on disk would have now; null: not known, as in place without Git, or
   * where too much would have to be read. Costs a few git processes, so call it after a command that took longer
   * anyway.
   */
  tree(): Promise<string | null>;
  /** Restores the files of a commit: untracked files are removed, ignored files stay. Worktrees only. */
  reset(commit: string): Promise<void>;
  /** Identifies the folder on disk: changes when the worktree was created again. "" in place. */
  stamp(): string;
  /** Changes with what the project's dependency folders hold. "" in place. */
  dependencyStamp(): string;
  /** Discards what commands wrote into dependency folders, so that a setup can start over. Worktrees only. */
  clearDependencies(): Promise<void>;
  /**
   * Unified diff against `from`, by default the base. `commit` null: of the tree on disk, new files included. In place
   * without a base: "".
   */
  diff(commit: string | null, from?: string): Promise<string>;
  /** The first line of a commit's message and the paths that it changed; undefined: the commit no longer exists. */
  about(commit: string): Promise<{ title: string; paths: string[] } | undefined>;
  /**
   * The texts that a commit has at these paths, from the top of the repository. null: not a text, or larger than 1 MiB.
   * A path is missing from the map where the commit has no file there; all are missing where the commit is gone.
   */
  texts(commit: string, paths: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, string | null>>;
  /**
   * A predicate on these paths, from the top of the repository: whether the base says that a program writes the file.
   */
  generated(paths: readonly string[]): Promise<(path: string) => boolean>;
}

/** `files`: number of files merged. Not ok: both sides changed `paths`, and the fork's `commit` stays on `branch`. */
export type ForkMerge = { ok: true; files: number } | { ok: false; paths: string[]; branch: string; commit: string };

/** Where one check runs. */
export type CheckEnvironment = Pick<Workspace, "root" | "rootInSandbox" | "files" | "run" | "startInteractive">;

/** The part of a workspace that read-only tools need. */
export type Readable = Pick<Workspace, "root" | "rootInSandbox" | "files" | "git" | "runProgram">;

/** A file that replaces the commit's; `path` is relative to the root. */
export type FileOverride = { path: string; bytes: Buffer; executable: boolean };

type FileKind = "file" | "none" | "other";

/** Compares the files of a checkout with those of an earlier commit; paths are relative to the root. */
export interface BaseFiles {
  /** A file's text in the earlier commit; undefined: it did not exist. */
  text(path: string): Promise<string | undefined>;
  /** A file's text in the checkout, at most 1 MiB; undefined: it does not exist or cannot be read. */
  now(path: string): Promise<string | undefined>;
  /** Every path that differs, and what is there on both sides; `other`: a link or a submodule. */
  readonly paths: readonly { path: string; was: FileKind; is: FileKind }[];
  /** A file that was changed or deleted since, as it was in the earlier commit; undefined: unchanged, or new. */
  changed(path: string): Promise<{ bytes: Buffer; executable: boolean } | undefined>;
}

/** The files of one commit, without the ignored files that agents left in the worktree. Disposing deletes them. */
export interface Checkout extends AsyncDisposable {
  /** true: each check writes to an overlay of its own, so checks may run concurrently. false: run one at a time. */
  readonly isolated: boolean;
  /** An environment for preparations that all checks share. Call `keep` when they are done. */
  whole(): Promise<CheckEnvironment>;
  /** Keeps what the preparations created when the files are restored after a check. */
  keep(): Promise<void>;
  /** Lists what the commit changed since `base`, by one git process. */
  before(base: string): Promise<BaseFiles>;
  /** The files for an agent that reads them and changes nothing, at the same time as checks or after them. */
  readable(): Readable;
  /** An environment for one check, with some files replaced. Disposing it discards what the check wrote. */
  open(name: string, overrides?: readonly FileOverride[]): Promise<CheckEnvironment & AsyncDisposable>;
}

/**
 * `key`: names the sandboxes; only one opening per key at a time. `commit`: read this one instead of the project's
 * head; required for a mirrored repository, which has no head.
 */
export type HeadRequest = { key: string; directory: string; commit?: string };

/** The files at a project's head. `commit` null: nothing is committed, and the files are the directory's own. */
export type Head = {
  commit: string | null;
  files: Readable & Pick<Workspace, "prepared" | "dependencies">;
  /** The same files for checks, with the project's dependency folders; undefined where nothing is committed. */
  checkout: (() => Promise<Checkout>) | undefined;
};

/** Why a result cannot enter the project. */
export type Refusal =
  /** The branch is at another commit than the base: rebase first. */
  | { reason: "moved"; head: string }
  /** The user's files or index have changes at these paths that cannot be merged. */
  | { reason: "dirty"; paths: string[] }
  /**
   * `detached`: the project is not on the branch. `gone`: repository or branch is missing, or its index stays locked.
   */
  | { reason: "detached" | "gone"; message: string };

/** What a landing changes: the branch `ref` from commit `from` to `commit`, and the files and index at `paths`. */
export type LandingPlan = {
  commit: string;
  tree: string;
  from: string;
  ref: string;
  paths: LandedPath[];
  /** Only the branch is moved, and no file: no worktree has it checked out. */
  alone?: true;
};

/** `marked`: the files now hold the conflict, with markers; undefined: the files are as they were. */
export type Merged =
  /** `commit` undefined: the base already has all of it. */
  | { ok: true; commit: Commit | undefined }
  | { ok: false; paths: string[]; marked: Extract<MarkedRebase, { ok: true }> | undefined };

export type Landed = { ok: true; kept: string[] } | { ok: false; reason: string; edited?: string[] };

/** A change applied on top of a new snapshot of the project, with conflict markers. */
export type MarkedRebase =
  | {
      ok: true;
      /** The paths in conflict. */
      paths: string[];
      /** git's messages about conflicts that show as no marker in a file. */
      said: string[];
      /** The `paths` where the project's side is not committed. */
      uncommitted: string[];
      /** The project's changes at `paths`, as a diff; truncated. */
      theirs: string;
      baseCommit: string;
      baseTree: string;
      snapshot?: Snapshot;
      commit: string;
      tree: string;
    }
  /** Nothing was changed: files at these paths are in the way and in no snapshot, so an agent could not see them. */
  | { ok: false; paths: string[] };

export type Retired = { removed: true } | { removed: false; reason: string };

/** One per service: creates, opens and removes workspaces, and lands their results. */
export interface Workspaces {
  /** Names of folders that commands get in addition to a Task's tree, where a project has them and Git ignores them. */
  readonly installs: readonly string[];
  /** What kind of project a directory is. Throws `ServiceError(directory_*)` when it cannot be one. */
  inspect(directory: string): Promise<Project>;

  /**
   * Creates a Task's workspace from a snapshot of the directory. In place where isolation is `directory` or there is no
   * commit to start from. Idempotent: after a crash it completes what is on disk. Throws like `inspect`.
   */
  prepare(request: PrepareRequest): Promise<Workspace>;
  /**
   * Opens a workspace that `prepare` recorded; a worktree that is gone is created again from its branch. Only the run
   * of the Task passes `tip`, the commit that the files should be at: then a move to another base that a crash
   * interrupted is undone. Without `tip` a missing worktree is not created again, and only its commits can be read.
   * Throws `WorkspaceLost` where the repository is gone, and where this data folder does not hold the worktree.
   */
  open(taskID: string, prepared: Prepared, tip?: string): Promise<Workspace>;
  /** Whether this data folder holds the worktree, or only its record, as after a retirement; true for work in place. */
  holds(taskID: string, prepared: Pick<Prepared, "kind">): boolean;
  /**
   * Records, before the Task's commands run, which objects the repositories below its directory borrow from others;
   * later calls change nothing.
   */
  recordBorrowed(taskID: string, prepared: Prepared): void;
  /** Puts aside what the Task's commands have let them borrow since then, and forgets the record. Returns the paths. */
  putBorrowedAside(taskID: string, prepared: Prepared): string[];
  /**
   * The files of this commit, for checks. A Task has one checkout for its result and one for its base: each is moved to
   * the commit. Worktrees only.
   */
  checkout(workspace: Workspace, commit: string, of: "work" | "base"): Promise<Checkout>;
  /**
   * Removes checkouts of the Task that a killed service left; those open in this process stay. Cheap where there are
   * none.
   */
  removeLeftCheckouts(taskID: string): Promise<void>;

  /**
   * The committed files of a project, for an agent that reads them and has no worktree. Opening the same key again
   * moves them to the head at that time. Call `closeHead` when they are no longer needed. Throws like `inspect`.
   */
  openHead(request: HeadRequest): Promise<Head>;
  closeHead(key: string): Promise<void>;

  /**
   * A worktree for one of several agents that work at the same time, from a commit of the Task. `tip`: a commit on top
   * of it that the files are taken from; its changes count as not committed. Idempotent: a fork of this name and commit
   * is opened as it is.
   */
  fork(workspace: Workspace, name: string, from: { commit: string; tree: string; tip?: string }): Promise<Workspace>;
  /**
   * Commits the fork's changes with `message`, resets the Task's files to `tip`, then merges the changes into them,
   * uncommitted. On a conflict the files stay at `tip`. Idempotent: repeating it after a crash gives the same files.
   */
  mergeFork(workspace: Workspace, fork: Workspace, tip: string, message: string): Promise<ForkMerge>;
  /**
   * Ends the fork's processes and removes its worktree. Call it once the merge is on record. The branch is removed too,
   * unless `commit` names what it has to keep.
   */
  closeFork(workspace: Workspace, name: string, commit: string | undefined): Promise<void>;

  /**
   * Opens the workspace of a Task that has no run, while `use` lasts, then resets the files to `commit`. `judge`
   * decides once no other caller can open the workspace; false resolves to undefined, and nothing is done. A run that
   * starts meanwhile waits.
   */
  withIdleWorkspace<T>(
    taskID: string,
    prepared: Prepared,
    commit: string | undefined,
    judge: () => Promise<boolean>,
    use: (workspace: Workspace) => Promise<T>,
  ): Promise<T | undefined>;

  /**
   * The right to work in place in a directory, until disposed; `project`: as from `inspect`. undefined: another Task
   * works in this directory, or in one inside or around it, under this or another service of this machine.
   */
  holdDirectory(directory: string, project: string): Disposable | undefined;
  /** Waits until no other landing into this project runs. Disposing ends the turn. Rejects when the signal aborts. */
  landingTurn(project: string, signal: AbortSignal): Promise<Disposable>;
  /**
   * Dry run of a landing: what would change, or why it cannot. `base`: the commit that the project's branch has to be
   * at. Waits while another git command holds the project's index. Writes nothing of the user's.
   */
  plan(workspace: Workspace, commit: Commit, base: string): Promise<LandingPlan | Refusal>;
  /**
   * Carries out a plan: files, index, ref. Idempotent: after a crash the same call completes the landing, path by path.
   * `kept`: paths that the user saved at the moment when the ref moved; the user's bytes stay. Not ok: every path was
   * put back, because the ref moved or is locked, the signal aborted before a file was changed, or the user saved the
   * `edited` paths since the plan, which must then be made anew. Rejects on an I/O error; if the ref has not moved, the
   * paths are put back then, too. Rejects with `LandingUnfinished` where they could not be put back: the index stays
   * locked, and nothing else may land.
   */
  land(workspace: Workspace, plan: LandingPlan, signal?: AbortSignal): Promise<Landed>;
  /**
   * The Task whose landing still locks the index of this Task's project: a Task of this data folder, or of another one
   * on this machine whose service died during the landing. Call it in the landing turn: whoever began that landing is
   * then dead, or could not end it.
   */
  unfinishedLanding(taskID: string): string | undefined;
  /**
   * Ends such a landing, in the landing turn, also for a Task whose files are gone: carries it out, or takes it back
   * where `back` gives a reason. `plan` undefined: nothing had begun, and only the lock is removed. Rejects like
   * `land`. `at`: a Task of this data folder in the same project, perhaps the same Task.
   */
  endLanding(taskID: string, plan: LandingPlan | undefined, back: string | undefined, at: string): Promise<Landed>;
  /**
   * Moves the change to the head of the project's branch and resets the worktree to it. A Task that only keeps its
   * branch moves to the commit that its snapshot was taken on. `message` is the new commit's.
   */
  rebase(workspace: Workspace, commit: Commit, message: string): Promise<Rebased>;
  /**
   * Moves the change onto a new snapshot of the project, uncommitted work included, with conflict markers in the files.
   * `dirty`: the paths for which `plan` refused. After a crash during this call, `open` with a `tip` restores the
   * worktree.
   */
  rebaseWithMarkers(
    workspace: Workspace,
    commit: Commit,
    message: string,
    dirty: readonly string[],
  ): Promise<MarkedRebase>;
  /**
   * The tree that the commit `onto` would have with these commits taken back, in this order; no ref and no file
   * changes. `commonDir`: the repository's Git directory.
   */
  revertible(commonDir: string, onto: string, commits: readonly string[]): Promise<Reverted>;
  /**
   * Takes commits back from the base of a Task: its files become the resulting tree. Nothing is committed; the call can
   * be repeated.
   */
  revert(workspace: Workspace, commits: readonly string[]): Promise<Reverted>;
  /** Branches of the project, in a repository whose Git directory is `commonDir`. */
  branches(commonDir: string): Branches;
  /**
   * Merges what a commit has and the base of a Task does not, as one commit on that base, and moves the Task's files to
   * it; the call can be repeated. A conflict changes nothing, unless `marks`: then the files hold both sides, as with
   * `rebaseWithMarkers`.
   */
  merge(workspace: Workspace, commit: string, message: string, marks: boolean): Promise<Merged>;
  /**
   * The commit in which a Task resolved such a merge, plus the changes of the other side below `.sortie`, where agents
   * may commit nothing.
   */
  withMergedSettings(workspace: Workspace, commit: Commit, merged: string, message: string): Promise<Commit>;
  /**
   * Makes one commit on the Task's base in which a folder of the service's own, relative to the project, holds exactly
   * these files. The files of the Task stay at the base. undefined: the base already has exactly these files.
   */
  commitBelow(
    workspace: Workspace,
    folder: string,
    files: readonly { path: string; bytes: Buffer }[],
    message: string,
  ): Promise<Commit | undefined>;
  /**
   * Whether files in such a folder can be committed unchanged: the project's Git ignores none of them, and changes no
   * byte when it checks them out.
   */
  keepsBelow(workspace: Workspace, folder: string, files: readonly { path: string; bytes: Buffer }[]): Promise<boolean>;
  /** Makes a commit with the same tree that has the merged commit as a second parent; no ref and no file changes. */
  sealMerge(workspace: Workspace, commit: Commit, merged: string, message: string): Promise<Commit>;
  /** Identifies the change that a commit makes to its base, path by path, by a SHA-256 hash. */
  changeHash(workspace: Workspace, base: string, commit: string): Promise<string>;
  /** The paths, of those given, that still contain conflict markers. */
  unresolved(workspace: Workspace, paths: readonly string[]): Promise<string[]>;

  /**
   * The disk space that a Task uses in the data folder: its worktree, forks and checkouts, what its commands write over
   * dependency folders, and the home of its programs.
   */
  usage(taskID: string): Promise<Usage>;
  /** Until disposed, `retire` leaves the Task's worktree on disk. */
  keepWhileRead(taskID: string): Disposable;
  /**
   * Removes the worktree, not the branch, of a Task that has ended, once git confirms that everything in it is
   * committed; ignored files are lost. `judge` is called once no other caller can open the worktree: it resolves to the
   * commit that holds the Task's work (null: what its branch has), or to undefined to leave the worktree.
   */
  retire(taskID: string, judge: () => Promise<string | null | undefined>): Promise<Retired>;
  /**
   * Removes the files and refs of a Task or fork in which nobody has worked, because it ended while they were being
   * made. `judge` as above; it resolves to "made" where they may be complete and the Task's log does not know of them,
   * and to "begun" where only half-made ones may be removed. false: nothing was removed.
   */
  removeUnused(key: string, judge: () => Promise<"made" | "begun" | undefined>): Promise<boolean>;
  /**
   * Makes way for another attempt that starts over: the result of `attempt` is kept on a branch of its own, and its
   * worktree is removed like that of a Task that has ended. Idempotent. Resolves to the branch; null: the attempt made
   * nothing.
   */
  makeWay(taskID: string, attempt: number): Promise<string | null>;
  /** Removes the worktree, forks and branches of a deleted Task, if it has any, and its removal mark. */
  remove(taskID: string): Promise<void>;
  /** Whether there is a worktree of this Task or fork on the disk. */
  hasWorktree(taskID: string): boolean;
  /**
   * Whether this data folder has anything of the Task from which it can continue; also true once its worktree was
   * tidied up.
   */
  isKnown(taskID: string): boolean;
  /** The Task's worktree and forks that should have been removed and could not be. */
  kept(taskID: string): { reason: string; since: string }[];
  /**
   * Removes locks on the refs of a Task and its forks that a service left because it died while it wrote them. Nothing
   * of the Task may be running. `commonDir`: the repository's Git directory.
   */
  unlockRefs(taskID: string, commonDir: string): Promise<void>;
  /** Call before a Task is deleted: a restarted service that finds the mark but no Task calls `remove`. */
  markForRemoval(taskID: string): void;
  isMarkedForRemoval(taskID: string): boolean;
  unmarkForRemoval(taskID: string): void;
  /** Ids of Tasks and forks with a worktree or a removal mark. Deletes what an interrupted removal left behind. */
  listWorktrees(signal?: AbortSignal): Promise<string[]>;
}
