import { existsSync } from "node:fs";
import { join } from "node:path";
import { messageOf } from "../../error.ts";
import type { Log } from "../../log.ts";
import type { Limits } from "../../protocol/limit.ts";
import { resetTo } from "../tree/commit.ts";
import { setHead } from "../tree/git-dir.ts";
import { type TreeGit, withPatience } from "../tree/tree-git.ts";
import { diffOfCommits } from "../object/tree-change.ts";
import { diffOfTree } from "../tree/diff.ts";
import { treeOnDisk } from "../tree/disk-tree.ts";
import { idOf } from "../git/output.ts";
import { type Commit, commitAbout } from "../object/commit.ts";
import { createTreeFiles, type Files } from "../file/files.ts";
import { createDependencyProvider } from "../dependency/provide.ts";
import { createGit, type CreateGitOptions, type Git, GitError } from "../git/git.ts";
import { directoryOnly, inPlace, hadRepositoryAtStart, scratchOf } from "./in-place.ts";
import { createOverlays } from "../dependency/overlay.ts";
import { stampOfDependencies } from "../dependency/stamp.ts";
import { insideOf, stampOf } from "../../process/sandbox/place.ts";
import type { Processes } from "../../process/process.ts";
import { indexCopyOf, plainSnapshot, takeSnapshot, type SnapshotResult } from "./snapshot.ts";
import { createWorktreeRecords, type WorktreeRecord } from "../record.ts";
import { findRepository, looseCommit } from "../git/repository.ts";
import { branchOf, expectRepository, type WorktreeFolder } from "./create.ts";
import { commitFiles, keepFiles } from "./commit.ts";
import { generatedIn } from "../object/generated.ts";
import { branchTip } from "../object/ref.ts";
import { textsOf } from "../object/commit-file.ts";
import { programLine, runInside } from "./inside.ts";
import { directoryMounts } from "./mount.ts";
import { openFolder } from "../file/folder.ts";
import { WorkspaceLost } from "../error.ts";
import { protectGitInputs } from "../tamper/order.ts";
import type { Prepared, PrepareRequest, Project, Workspace } from "../workspace.ts";

/**
 * Creates and opens one Task's files, and repairs them after a kill: a worktree under the data folder on the branch
 * `sortie/<taskID>`, or the project itself.
 */

/** The name of the sandbox for callers that are not the Task's run. */
export const readerSandboxName = "aside";

/** A worktree with its record and git. */
export type WorktreePlace = {
  taskID: string;
  record: WorktreeRecord;
  worktree: string;
  /** git over the files, in the Task's sandbox. */
  git: TreeGit;
  /** git on the project's commits and blobs. */
  objects: Git;
};

export const createWorktrees = (deps: {
  home: string;
  gitOptions: CreateGitOptions;
  inspect: (directory: string) => Promise<Project>;
  isProtected: ((path: string) => boolean) | undefined;
  records: ReturnType<typeof createWorktreeRecords>;
  folder: WorktreeFolder;
  overlays: ReturnType<typeof createOverlays>;
  provider: ReturnType<typeof createDependencyProvider>;
  processes: Processes;
  limits: Limits;
  log: Log;
}) => {
  const { home, gitOptions, inspect, isProtected, records, folder, overlays, provider, processes, limits, log } = deps;
  const { made, worktreeOf, gitDirOf, gitIn, gitOf, objectsOf, mountsOf, moveBase, repair, checkOutBase } = folder;
  const places = new WeakMap<Workspace, WorktreePlace>();
  const placeOf = (workspace: Workspace): WorktreePlace => {
    const place = places.get(workspace);
    if (place === undefined)
      throw new Error(`Expected a worktree, got ${workspace.root}, where a Task works in place.`);
    return place;
  };
  const open = async (taskID: string, prepared: Prepared, tip?: string): Promise<Workspace> => {
    if (prepared.kind === "directory" || prepared.worktree === null || prepared.baseCommit === null)
      return works(taskID, prepared);
    let record = records.of(taskID);
    if (record === undefined)
      throw new WorkspaceLost(`Expected the record of the worktree of ${taskID}, got none in ${home}.`);
    expectRepository(record);
    const there = existsSync(prepared.worktree);
    // A reader needs no files of a Task whose worktree has been removed: it reads commits.
    if (!there && tip === undefined) return workspaceOf(taskID, prepared, record, { gone: true });
    if (there && (folder.isLinked(taskID, record) || !folder.isWhole(taskID, record)))
      record = await repair(taskID, record, record.base || prepared.baseCommit);
    else if (!there) {
      log.info({ taskID }, "worktree is gone; recreated from its branch");
      const kept = await branchTip(objectsOf(taskID, record), branchOf(taskID));
      const own = { ...record, gitDir: gitDirOf(taskID) };
      records.keep(taskID, own);
      await checkOutBase(taskID, own, kept ?? tip ?? prepared.baseCommit, prepared.baseCommit);
      await give(taskID, own);
    } else if (tip !== undefined && record.base !== undefined && record.base !== prepared.baseCommit) {
      log.warn({ taskID }, "the service died while the worktree was moved to another base; put back");
      const git = gitIn(taskID, record);
      await moveBase(taskID, prepared.baseCommit, () => resetTo(git, tip));
    }
    if (tip !== undefined && record.mirrored !== true && !provider.isCurrent(taskID))
      await give(taskID, records.of(taskID) ?? record);
    return workspaceOf(taskID, prepared, records.of(taskID) ?? record, { reads: tip === undefined });
  };

  const give = async (taskID: string, record: WorktreeRecord): Promise<void> => {
    if (record.mirrored === true) return;
    const worktree = worktreeOf(taskID);
    try {
      // Folders that an open sandbox uses as mount points must not be touched.
      await processes.closeSandboxes(taskID);
      await provider.give(taskID, worktree, {
        project: gitOf(taskID, record),
        tree: gitIn(taskID, record, { apart: readerSandboxName }),
      });
    } catch (error) {
      log.warn({ taskID, error: messageOf(error) }, "the project's dependency folders could not be made available");
    }
  };

  const works = (taskID: string, prepared: Prepared): Workspace => {
    const { root } = prepared;
    const place = directoryMounts({ directory: root, known: hadRepositoryAtStart(prepared) });
    const inside = { taskID, root, place };
    return inPlace(
      { prepared, processes, scratch: scratchOf(home, taskID), taskID, git: gitOptions },
      {
        files: protectGitInputs(createTreeFiles(root, isProtected)),
        run: (command) => runInside(processes, inside, command),
        runProgram: (program, args, command) =>
          runInside(processes, inside, { ...command, own: true, run: programLine(processes, program, args) }),
        startInteractive: (talk) => processes.startInteractive(taskID, root, talk, place),
        prepareSandbox: () => processes.prepareSandbox(taskID, place),
      },
    );
  };

  /** A snapshot of the project's directory at the commit `head`. */
  const snapshotOf = async (
    { taskID, withoutSquads = false }: Pick<PrepareRequest, "taskID" | "withoutSquads">,
    record: WorktreeRecord,
    head: string,
  ): Promise<SnapshotResult> => {
    const git = gitOf(taskID, record);
    const scratch = indexCopyOf(home, taskID);
    return takeSnapshot({ git, record, taskID, head, scratch, limits, isProtected, withoutSquads });
  };

  /**
   * `gone`: the worktree has been removed, and only commits can be read. `reads`: the caller is not the Task's run, so
   * no sandbox may stay open.
   */
  const workspaceOf = async (
    taskID: string,
    prepared: Prepared,
    record: WorktreeRecord,
    { gone = false, reads = false }: { gone?: boolean; reads?: boolean } = {},
  ): Promise<Workspace> => {
    const { worktree, baseCommit } = prepared;
    if (worktree === null || baseCommit === null) throw new Error(`Expected a worktree for ${taskID}, got none.`);
    const base = { commit: baseCommit, tree: prepared.baseTree ?? "" };
    const dependencies = record.given?.folders ?? [];
    const plain = mountsOf(taskID, record);
    const mounted = gone
      ? plain
      : await overlays.around({
          folder: overlays.folderOf(taskID),
          place: plain,
          toplevel: record.toplevel,
          given: dependencies,
        });
    const where = reads ? { place: plain, apart: readerSandboxName } : { place: mounted };
    const git = gitIn(taskID, record, { ...where, root: prepared.root });
    const top = gitIn(taskID, record, where);
    const objects = objectsOf(taskID, record);
    const without = dependencies.map(({ path }) => path);
    const inside = { taskID, root: prepared.root, place: mounted };
    let files: Files | undefined;
    const commit = (from: WorktreeRecord, message: string, last: Commit | undefined, idleMs: number | undefined) =>
      commitFiles({
        git: idleMs === undefined ? top : withPatience(top, idleMs),
        objects,
        record: from,
        worktree,
        key: taskID,
        branch: branchOf(taskID),
        base,
        last,
        without,
        maxBytes: limits.taskDiskBytes,
        author: folder.author,
        message,
      });
    const expectThere = (): void => {
      expectRepository(record);
      if (!existsSync(worktree)) throw new WorkspaceLost(`Expected the worktree ${worktree}, got nothing there.`);
    };
    /** Rejects with WorkspaceLost instead of git's error where somebody removed the files or the repository. */
    const there = <T>(work: Promise<T>): Promise<T> =>
      work.catch((error: unknown) => {
        expectThere();
        throw error;
      });
    const workspace: Workspace = {
      prepared,
      root: prepared.root,
      rootInSandbox: processes.pathInSandbox(mounted, prepared.root),
      // A getter, because only runs need files: a reader's worktree may have been removed.
      get files() {
        if (gone) throw new WorkspaceLost(`Expected the worktree ${worktree}, got nothing there.`);
        return (files ??= createTreeFiles(prepared.root, isProtected, insideOf(mounted, prepared.root)));
      },
      git,
      dependencies,
      run: (command) => runInside(processes, inside, command),
      runProgram: (program, args, command) =>
        runInside(processes, inside, { ...command, own: true, run: programLine(processes, program, args) }),
      startInteractive: (talk) => processes.startInteractive(taskID, prepared.root, talk, mounted),
      prepareSandbox: () => processes.prepareSandbox(taskID, mounted),
      async commit(message, idleMs) {
        const next = await commit(record, message, made.get(taskID), idleMs).catch(async (error: unknown) => {
          expectThere();
          // Without an exit code, git was ended by the service or by a limit, which does no harm to its Git directory.
          if (!(error instanceof GitError) || error.exitCode === null) throw error;
          log.warn({ taskID, error: error.message }, "git's record of the worktree is recreated");
          return commit(await repair(taskID, record, base.commit), message, undefined, idleMs);
        });
        if (next === undefined) made.delete(taskID);
        else made.set(taskID, next);
        return next;
      },
      keep: (message, known, signal) =>
        keepFiles(
          {
            git: top,
            objects,
            record,
            worktree,
            key: taskID,
            base,
            without,
            maxBytes: limits.taskDiskBytes,
            author: folder.author,
            message,
            known,
          },
          signal,
        ),
      tree: () => treeOnDisk(top),
      reset: (to) => there(resetTo(top, to, without)),
      stamp: () => stampOf(mounted),
      dependencyStamp: () => stampOfDependencies(record.toplevel, dependencies),
      async clearDependencies() {
        await processes.closeSandboxes(taskID);
        await provider.clear(taskID, worktree, top);
        await give(taskID, record);
      },
      diff: (to, from = base.commit) =>
        to === null && !gone ? there(diffOfTree(top, from)) : diffOfCommits(objects, from, to ?? base.commit),
      about: (commit) => commitAbout(objects, commit),
      texts: (commit, paths, signal) => textsOf(objects, commit, paths, signal),
      generated: (paths) => generatedIn(objects, base.commit, paths),
    };
    places.set(workspace, { taskID, record, worktree, git: top, objects });
    return workspace;
  };

  const treeOf = async (project: Project): Promise<string | null> => {
    if (project.git?.head == null) return null;
    const loose = looseCommit(project.project, project.git.head);
    if (loose !== undefined) return loose.tree;
    const git = createGit(project.git.toplevel, gitOptions);
    return (await git.run(["rev-parse", `${project.git.head}^{tree}`])).stdout.toString("latin1").trim();
  };

  /**
   * Prepares a worktree from a commit of a mirror. Nobody edits there, so there is nothing uncommitted to include, and
   * no dependency folder to provide.
   */
  const prepareMirrored = async (
    taskID: string,
    { directory, mirror }: { directory: string; mirror: string },
    { commit, targetRef, tip = commit, unfinished = false }: NonNullable<PrepareRequest["base"]>,
  ): Promise<Workspace> => {
    const record: WorktreeRecord = {
      toplevel: directory,
      prefix: "",
      projectGitDir: mirror,
      commonDir: mirror,
      gitDir: gitDirOf(taskID),
      mirrored: true,
    };
    records.keep(taskID, { ...record, base: "" });
    await checkOutBase(taskID, record, tip, commit);
    // HEAD is the base, so that the changes of `tip` show as uncommitted.
    if (unfinished) await setHead(record.gitDir, commit);
    const worktree = worktreeOf(taskID);
    const prepared: Prepared = {
      kind: "worktree",
      root: worktree,
      worktree,
      branch: branchOf(taskID),
      baseCommit: commit,
      baseTree: await idOf(objectsOf(taskID, record), `${commit}^{tree}`),
      targetRef,
    };
    return workspaceOf(taskID, prepared, records.of(taskID) ?? record);
  };

  const prepare = async (request: PrepareRequest): Promise<Workspace> => {
    const { taskID, directory, isolation, landing: how, base, committedOnly = false } = request;
    const project = await inspect(directory);
    const { mirror } = project;
    if (base !== undefined && mirror !== undefined) return prepareMirrored(taskID, { directory, mirror }, base);
    const { git } = project;
    const tree = await treeOf(project);
    if (isolation === "directory" || git === undefined || git.head === null || tree === null)
      return works(taskID, directoryOnly(project, tree));

    const found = findRepository(git.toplevel);
    if (typeof found === "string")
      throw new WorkspaceLost(`Expected the Git repository of ${git.toplevel}, got nothing there.`);
    const record: WorktreeRecord = {
      toplevel: git.toplevel,
      prefix: git.prefix,
      projectGitDir: found.gitDir,
      commonDir: project.project,
      gitDir: gitDirOf(taskID),
    };
    const before = records.of(taskID)?.given;
    records.keep(taskID, { ...record, base: "", ...(before === undefined ? {} : { given: before }) });
    const taken =
      committedOnly || base !== undefined
        ? plainSnapshot(base?.commit ?? git.head)
        : await snapshotOf(request, record, git.head);
    await checkOutBase(taskID, record, taken.commit, taken.commit, { later: true });
    await give(taskID, record);
    records.keep(taskID, records.of(taskID) ?? record);
    const worktree = worktreeOf(taskID);
    const root = git.prefix === "" ? worktree : join(worktree, git.prefix);
    // A folder with untracked files only is in no commit, so it is not in the worktree yet.
    if (git.prefix !== "") openFolder(worktree, git.prefix.split("/"), true)[Symbol.dispose]();
    const prepared: Prepared = {
      kind: "worktree",
      root,
      worktree,
      branch: branchOf(taskID),
      baseCommit: taken.commit,
      baseTree:
        taken.tree ?? (taken.head === git.head ? tree : await idOf(gitOf(taskID, record), `${taken.head}^{tree}`)),
      targetRef: base === undefined ? (how === "commit" ? git.branch : null) : base.targetRef,
      ...(base?.named === undefined ? {} : { named: base.named }),
      ...(taken.tree === undefined && taken.omitted.length === 0
        ? {}
        : { snapshot: { head: taken.head, untracked: taken.untracked, omitted: taken.omitted } }),
    };
    return workspaceOf(taskID, prepared, records.of(taskID) ?? record);
  };

  return { open, prepare, give, workspaceOf, placeOf, snapshotOf };
};
