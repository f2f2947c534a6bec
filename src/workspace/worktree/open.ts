import { shellQuote } from "../../shell-quote.ts";
import { existsSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { messageOf } from "../../error.ts";
import type { Log } from "../../log.ts";
import type { Limits } from "../../protocol/limit.ts";
import { commitTree, resetTo } from "../tree/commit.ts";
import { diffOf } from "../tree/diff.ts";
import { idOf } from "../git/output.ts";
import { createFiles, type Files } from "../file/files.ts";
import { createDependencyProvider } from "../dependency/provide.ts";
import { createGit, type CreateGitOptions, type Git, GitError } from "../git/git.ts";
import { directoryOnly, inPlace } from "../in-place.ts";
import { createOverlays } from "../dependency/overlay.ts";
import { insideOf, type SandboxPlace as Mounted, stampOf } from "../../process/sandbox/place.ts";
import { directoryMounts, worktreeMounts } from "./mount.ts";
import type { Command, Processes, CommandResult } from "../../process/process.ts";
import { type InspectOptions, inspectProject } from "../project.ts";
import { takeSnapshot, type SnapshotResult } from "./snapshot.ts";
import { expectRepository } from "./register.ts";
import { createWorktreeRecords, type WorktreeRecord } from "../record.ts";
import { findRepository, looseCommit } from "../git/repository.ts";
import { branchOf, hasReftable, type WorktreeFolder } from "./create.ts";
import { openFolder } from "../file/folder.ts";
import { WorkspaceLost } from "../error.ts";
import type { Prepared, PrepareRequest, Program, Project, Workspace } from "../workspace.ts";

/**
 * Creates and opens one Task's files, and repairs them after a kill: a worktree under the data folder on the branch
 * `sortie/<taskID>`, or the project itself.
 */

/** A worktree with its record and git. */
export type WorktreePlace = { taskID: string; record: WorktreeRecord; worktree: string; git: Git };

export const createWorktrees = (deps: {
  home: string;
  gitOptions: CreateGitOptions;
  inspectOptions: InspectOptions;
  isProtected: ((path: string) => boolean) | undefined;
  records: ReturnType<typeof createWorktreeRecords>;
  folder: WorktreeFolder;
  overlays: ReturnType<typeof createOverlays>;
  provider: ReturnType<typeof createDependencyProvider>;
  processes: Processes;
  limits: Limits;
  log: Log;
}) => {
  const { home, gitOptions, inspectOptions, isProtected, records, folder, overlays, provider, processes, limits, log } =
    deps;
  const { made, worktreeOf, gitIn, gitOf, moveBase, repair, checkOutBase } = folder;
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
    const record = records.of(taskID);
    if (record === undefined) throw new Error(`Expected the record of the worktree of ${taskID}, got none in ${home}.`);
    expectRepository(record);
    const there = existsSync(prepared.worktree);
    // A reader needs no files of a Task whose worktree has been removed: it reads commits.
    if (!there && tip === undefined) return workspaceOf(taskID, prepared, record, true);
    if (!existsSync(join(prepared.worktree, ".git")) && there && !hasReftable(record))
      await repair(taskID, record, prepared.baseCommit);
    else if (!existsSync(join(prepared.worktree, ".git"))) {
      log.info({ taskID }, "worktree is gone; made again from its branch");
      const kept = await gitOf(record).run(["rev-parse", "--verify", "-q", `refs/heads/${prepared.branch}`], {
        ok: [0, 1],
      });
      await checkOutBase(
        taskID,
        record,
        kept.stdout.toString("latin1").trim() || (tip ?? prepared.baseCommit),
        prepared.baseCommit,
      );
      await give(taskID, record);
    } else if (tip !== undefined && record.base !== undefined && record.base !== prepared.baseCommit) {
      log.warn({ taskID }, "the service died while the worktree was moved to another base; put back");
      await moveBase(taskID, prepared.baseCommit, async () =>
        resetTo(gitIn(prepared.worktree ?? "", worktreeOf(taskID), record), tip),
      );
    }
    if (tip !== undefined && !provider.isCurrent(taskID)) await give(taskID, record);
    return workspaceOf(taskID, prepared, records.of(taskID) ?? record);
  };

  const give = async (taskID: string, record: WorktreeRecord): Promise<void> => {
    const worktree = worktreeOf(taskID);
    try {
      // Folders that an open sandbox uses as mount points must not be touched.
      await processes.closeSandboxes(taskID);
      await provider.give(taskID, worktree, { project: gitOf(record), tree: gitIn(worktree, worktree, record) });
    } catch (error) {
      log.warn({ taskID, error: messageOf(error) }, "the project's dependency folders could not be given");
    }
  };

  const works = (taskID: string, prepared: Prepared): Workspace => {
    const mounted = directoryMounts(prepared.root);
    return inPlace(prepared, gitOptions, {
      files: createFiles(prepared.root, isProtected),
      run: (command) => runInside(taskID, prepared.root, command, mounted),
      runProgram: (program, args, command) =>
        runInside(taskID, prepared.root, { ...command, run: textOf(program, args) }, mounted),
      startInteractive: (talk) => processes.startInteractive(taskID, prepared.root, talk, mounted),
      prepareSandbox: () => processes.prepareSandbox(taskID, mounted),
    });
  };

  /** A snapshot of the project's directory at the commit `head`. */
  const snapshotOf = async (taskID: string, record: WorktreeRecord, head: string): Promise<SnapshotResult> => {
    const scratch = join(home, `${taskID}.index`);
    return takeSnapshot({ git: gitOf(record), record, taskID, head, scratch, limits });
  };

  /**
   * Runs a command whose `cwd` may be a link that leads out of the root, which is refused, or a path as the command
   * sees it.
   */
  const runInside = (taskID: string, root: string, given: Command, place: Mounted): Promise<CommandResult> => {
    const command = { ...given, cwd: insideOf({ tree: place.at, at: place.tree }, given.cwd) ?? given.cwd };
    let real: string | undefined;
    try {
      real = realpathSync(command.cwd);
    } catch {}
    if (real === undefined || real === root || real.startsWith(`${root}/`))
      return processes.run(taskID, command, place);
    const output = `Expected a folder inside ${root}, got ${real}.`;
    return Promise.resolve({ exitCode: null, output, stdout: "", dropped: 0, ended: "not-started", durationMs: 0 });
  };

  /** Bash that becomes the program. */
  const textOf = ({ name, path }: Program, args: readonly string[]): string =>
    `exec ${[processes.program(name) ?? path, ...args].map(shellQuote).join(" ")}`;

  const workspaceOf = async (
    taskID: string,
    prepared: Prepared,
    record: WorktreeRecord,
    gone = false,
  ): Promise<Workspace> => {
    const { worktree, baseCommit } = prepared;
    if (worktree === null || baseCommit === null) throw new Error(`Expected a worktree for ${taskID}, got none.`);
    const git = gitIn(prepared.root, worktree, record);
    const top = gone ? gitOf(record) : gitIn(worktree, worktree, record);
    const base = { commit: baseCommit, tree: prepared.baseTree ?? "" };
    const dependencies = record.given?.folders ?? [];
    const plain = worktreeMounts(worktree, record);
    const mounted = gone
      ? plain
      : await overlays.around({
          folder: overlays.folderOf(taskID),
          place: plain,
          toplevel: record.toplevel,
          given: dependencies,
        });
    const without = dependencies.map(({ path }) => path);
    let files: Files | undefined;
    const workspace: Workspace = {
      prepared,
      root: prepared.root,
      rootInSandbox: processes.pathInSandbox(mounted, prepared.root),
      // A getter, because only runs need files: a reader's worktree may have been removed.
      get files() {
        if (gone) throw new WorkspaceLost(`Expected the worktree ${worktree}, got nothing there.`);
        return (files ??= createFiles(prepared.root, isProtected, insideOf(mounted, prepared.root)));
      },
      git,
      dependencies,
      run: (command) => runInside(taskID, prepared.root, command, mounted),
      runProgram: (program, args, command) =>
        runInside(taskID, prepared.root, { ...command, run: textOf(program, args) }, mounted),
      startInteractive: (talk) => processes.startInteractive(taskID, prepared.root, talk, mounted),
      prepareSandbox: () => processes.prepareSandbox(taskID, mounted),
      async commit(message) {
        const last = made.get(taskID);
        const place = { git: top, worktree, dirs: record, branch: branchOf(taskID), base, message, without };
        const commit = await commitTree({ ...place, last }).catch(async (error: unknown) => {
          expectRepository(record);
          if (!existsSync(worktree)) throw new WorkspaceLost(`Expected the worktree ${worktree}, got nothing there.`);
          if (!(error instanceof GitError) || hasReftable(record)) throw error;
          await repair(taskID, record, base.commit);
          return commitTree({ ...place, last: undefined });
        });
        if (commit === undefined) made.delete(taskID);
        else made.set(taskID, commit);
        return commit;
      },
      reset: (commit) => resetTo(top, commit, without),
      stamp: () => stampOf(mounted),
      async clearDependencies() {
        await processes.closeSandboxes(taskID);
        await provider.clear(taskID, worktree, top);
        await give(taskID, record);
      },
      diff: (commit, from = base.commit) => diffOf(top, record.gitDir, from, gone ? (commit ?? base.commit) : commit),
    };
    places.set(workspace, { taskID, record, worktree, git: top });
    return workspace;
  };

  const treeOf = async (project: Project): Promise<string | null> => {
    if (project.git?.head == null) return null;
    const loose = looseCommit(project.project, project.git.head);
    if (loose !== undefined) return loose.tree;
    const git = createGit(project.git.toplevel, gitOptions);
    return (await git.run(["rev-parse", `${project.git.head}^{tree}`])).stdout.toString("latin1").trim();
  };

  const prepare = async ({ taskID, directory, isolation, landing: how }: PrepareRequest): Promise<Workspace> => {
    const project = await inspectProject(directory, inspectOptions);
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
      gitDir: join(project.project, "worktrees", taskID),
    };
    const before = records.of(taskID)?.given;
    records.keep(taskID, { ...record, ...(before === undefined ? {} : { given: before }) });
    const taken = await snapshotOf(taskID, record, git.head);
    await checkOutBase(taskID, record, taken.commit, taken.commit);
    await give(taskID, record);
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
      baseTree: taken.tree ?? (taken.head === git.head ? tree : await idOf(gitOf(record), `${taken.head}^{tree}`)),
      targetRef: how === "commit" ? git.branch : null,
      ...(taken.tree === undefined && taken.omitted.length === 0
        ? {}
        : { snapshot: { head: taken.head, untracked: taken.untracked, omitted: taken.omitted } }),
    };
    return workspaceOf(taskID, prepared, records.of(taskID) ?? record);
  };

  return { open, prepare, give, workspaceOf, placeOf, snapshotOf, runInside };
};
