import { mkdirSync, realpathSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Log } from "../log.ts";
import type { Limits } from "../protocol/limit.ts";
import { createCheckouts } from "./checkout/checkout.ts";
import { createHeads } from "./checkout/head.ts";
import { idOf } from "./git/output.ts";
import { createForks, forksOf, taskOfFork } from "./worktree/fork.ts";
import { createDependencyProvider } from "./dependency/provide.ts";
import type { CreateGitOptions } from "./git/git.ts";
import { type Author, defaultPath } from "./git/hardened.ts";
import { createOverlays } from "./dependency/overlay.ts";
import { createLandings } from "./landing/landings.ts";
import type { OnStep } from "./landing/request.ts";
import type { Processes } from "../process/process.ts";
import { inspectProject } from "./project.ts";
import { branchesOf } from "./object/branch.ts";
import { changeBeside, mergeOnto, rebaseOnto } from "./object/rebase.ts";
import { commitOf } from "./object/commit.ts";
import { revertOnto } from "./object/revert.ts";
import { commitOfTree, filesBelow, keepsFiles, treeWith } from "./object/graft.ts";
import { isOwn } from "./object/take-over.ts";
import { changeHash, changesOf } from "./object/tree-change.ts";
import { removeRefLocks, branchRefOf, branchTip, setRef } from "./object/ref.ts";
import { type MarkedRebaseRequest, rebaseWithMarkers, unresolvedIn } from "./rebase/conflict.ts";
import { createWorktreeRecords } from "./record.ts";
import { holdDirectory } from "./worktree/hold.ts";
import { createKept } from "./worktree/kept.ts";
import { putBorrowedAside, recordBorrowed } from "./tamper/borrowed.ts";
import { createRetention, refsOf } from "./worktree/retire.ts";
import { branchOf, createWorktreeFolder } from "./worktree/create.ts";
import { createKeyedMutex } from "../async/mutex.ts";
import { measureUsage } from "./usage/measure.ts";
import { createWorktrees } from "./worktree/open.ts";
import { plainSnapshot } from "./worktree/snapshot.ts";
import { headOf } from "./git/repository.ts";
import type { MarkedRebase, Project, Workspaces } from "./workspace.ts";

/** Implements the port of `workspace.ts`: puts worktrees, forks, checkouts, retention and landing together. */

export type WorkspacesOptions = {
  dataDir: string;
  projectRoots: readonly string[];
  /** Paths that file tools refuse; default: names that usually hold secrets. */
  isProtected?: (path: string) => boolean;
  processes: Processes;
  /** Names of ignored folders to provide to commands, and the sandbox tier; absent: none. */
  dependencies?: { names: readonly string[]; tier: 1 | 2 | 3 };
  limits: Limits;
  log: Log;
  author?: Author;
  /** The search path for git. */
  path?: string;
  /** How long a landing waits for another git command that holds the project's index; 10 s. */
  lockWaitMs?: number;
  /** Called before every step of a landing; tests stop the process there. */
  onStep?: OnStep;
  /** Called for every git process; for measurements. */
  onSpawn?: (args: readonly string[]) => void;
  /** What the service keeps in a directory for a repository; undefined: the directory is somebody else's. */
  repositoryAt?: (directory: string) => { directory: string; identity: string; mirror: string } | undefined;
};

/** Whether a Task's result goes to a mirrored repository's remote: nobody edits there beside it. */
const isMirrored = (targetRef: string | null): targetRef is string => targetRef?.startsWith("refs/remotes/") ?? false;

export const createWorkspaces = (options: WorkspacesOptions): Workspaces => {
  const { projectRoots, processes, log, lockWaitMs = 10_000, onStep = () => undefined } = options;
  mkdirSync(options.dataDir, { recursive: true, mode: 0o700 });
  // Real paths, because paths below are compared with those that the system reports.
  const dataDir = realpathSync(options.dataDir);
  const home = join(dataDir, "worktrees");
  const gitOptions: CreateGitOptions = {
    ...(options.path === undefined ? {} : { path: options.path }),
    ...(options.author === undefined ? {} : { author: options.author }),
    ...(options.onSpawn === undefined ? {} : { onSpawn: options.onSpawn }),
    tracker: processes.track("service"),
  };
  const inspectOptions = { dataDir, projectRoots, git: gitOptions };
  const { repositoryAt = () => undefined } = options;
  const inspect = async (directory: string, loose = false): Promise<Project> => {
    const kept = repositoryAt(directory);
    // Without Git to its callers: what is there is no work tree of anybody's, and the Task's base comes from the mirror.
    if (kept !== undefined)
      return { directory: kept.directory, project: kept.identity, mirror: kept.mirror, git: undefined };
    return inspectProject(directory, { ...inspectOptions, loose });
  };
  const inspectObjects = (directory: string) => inspect(directory, true);
  const turns = createKeyedMutex();
  const records = createWorktreeRecords(home);
  const folder = createWorktreeFolder({ home, git: gitOptions, records, processes, log });
  const { objectsOf, gitOf: projectGit, recordBase, moveBase } = folder;
  const path = options.path ?? defaultPath;
  const overlays = createOverlays({ home, path, log });
  const { names = [], tier = 3 } = options.dependencies ?? {};
  const provider = createDependencyProvider({
    dataDir,
    names,
    tier,
    overlays,
    records,
    limits: options.limits,
    path,
  });
  const kept = createKept(dataDir, log);
  const retention = createRetention({
    kept,
    home,
    folder,
    records,
    removeCheckout: (taskID) => checkouts.remove(taskID),
    removeOverlays: overlays.remove,
    processes,
    limits: options.limits,
    log,
  });
  /** Serialises creation and removal of each Task's worktree, and of each head. */
  const alone = createKeyedMutex();
  /** Number of readers by Task; its worktree is not retired meanwhile. */
  const readers = new Map<string, number>();
  const worktrees = createWorktrees({
    home,
    gitOptions,
    inspect: inspectObjects,
    isProtected: options.isProtected,
    records,
    folder,
    overlays,
    provider,
    processes,
    limits: options.limits,
    log,
  });
  const { open, give, workspaceOf, placeOf, snapshotOf } = worktrees;
  const landings = createLandings({ folder, records, placeOf, onStep, lockWaitMs });
  const checkouts = createCheckouts({
    home,
    overlays,
    tier,
    limits: options.limits,
    programs: path,
    isProtected: options.isProtected,
    processes,
    folder,
  });
  const heads = createHeads({
    home,
    folder,
    checkouts,
    provider,
    processes,
    inspect: inspectObjects,
    inPlace: open,
    alone,
  });

  const below = ({ prefix }: { prefix: string }, path: string) => (prefix === "" ? path : `${prefix}/${path}`);

  const graftPlaceOf = (workspace: Parameters<typeof placeOf>[0]) => {
    const { taskID, objects } = placeOf(workspace);
    return { git: objects, index: join(home, `${taskID}.graft`) };
  };

  /** Puts the change onto `taken`, with both sides in the files where they are in each other's way. */
  const mark = async (
    { taskID, record, worktree, git, objects }: ReturnType<typeof placeOf>,
    asked: Pick<MarkedRebaseRequest, "taken" | "commit" | "message" | "dirty">,
  ): Promise<MarkedRebase> => {
    const { taken, commit } = asked;
    const baseTree = taken.tree ?? (await idOf(objects, `${taken.commit}^{tree}`));
    const marked = await rebaseWithMarkers({ git, objects, worktree, baseTree, ...asked }, async (made) => {
      await folder.keep(taskID, commit.commit);
      await setRef({ commonDir: record.commonDir, git: objects }, branchRefOf(branchOf(taskID)), made);
      await recordBase(taskID, "");
    });
    if (marked.ok) await recordBase(taskID, marked.baseCommit);
    return marked;
  };

  return {
    installs: names,
    inspect: (directory) => inspect(directory),
    openHead: (request) => heads.openHead(request),
    closeHead: (key) => heads.closeHead(key),
    async prepare(request) {
      using _alone = await alone(request.taskID);
      return await worktrees.prepare(request);
    },
    async open(taskID, prepared, tip) {
      using _alone = await alone(taskID);
      return await open(taskID, prepared, tip);
    },
    recordBorrowed: (taskID, prepared) => recordBorrowed(home, taskID, prepared),
    putBorrowedAside: (taskID, prepared) => putBorrowedAside(home, taskID, prepared),
    removeLeftCheckouts: (taskID) => checkouts.removeLeft(taskID),
    checkout(workspace, commit, of) {
      const { taskID, record } = placeOf(workspace);
      return checkouts.open(taskID, record, commit, of);
    },
    ...createForks({ folder, records, retention, processes, give, open, workspaceOf, placeOf, alone }),
    async withIdleWorkspace(taskID, prepared, commit, judge, use) {
      using _alone = await alone(taskID);
      if (!(await judge())) return undefined;
      const workspace = await open(taskID, prepared, commit);
      try {
        return await use(workspace);
      } finally {
        if (commit !== undefined) await workspace.reset(commit);
        await processes.closeSandboxes(taskID);
      }
    },
    ...landings,
    async rebase(workspace, commit, message) {
      const { taskID, record, git, objects } = placeOf(workspace);
      const { targetRef, snapshot } = workspace.prepared;
      const onBranch = targetRef ?? snapshot?.head;
      if (onBranch === undefined) throw new Error("Expected a branch to rebase onto, got a Task that keeps its own.");
      const snapped = snapshot !== undefined && snapshot.head !== workspace.prepared.baseCommit;
      const head = snapped ? snapshot.head : undefined;
      const onto = await idOf(objects, `${onBranch}^{commit}`);
      const rebased = await rebaseOnto({ git: objects, commit, message, onto, head });
      if (!rebased.ok) return rebased;
      const move = async () => {
        await setRef({ commonDir: record.commonDir, git: objects }, branchRefOf(branchOf(taskID)), rebased.commit);
        await git.run(["reset", "-q", "--hard", rebased.commit], { timeoutMs: 10 * 60_000 });
      };
      await moveBase(taskID, rebased.baseCommit, move, { from: commit.commit });
      return rebased;
    },
    async rebaseWithMarkers(workspace, commit, message, dirty) {
      const place = placeOf(workspace);
      const { taskID, record, objects } = place;
      const { targetRef, named } = workspace.prepared;
      // Nobody edits there beside it.
      const apart = isMirrored(targetRef) || (named === true && headOf(record.projectGitDir)?.ref !== targetRef);
      const taken = apart
        ? plainSnapshot(await idOf(objects, `${targetRef}^{commit}`))
        : await snapshotOf({ taskID }, record, commit.parent);
      return mark(place, { taken, commit, message, dirty });
    },
    branches: (commonDir) => branchesOf(objectsOf("branches", { commonDir })),
    async merge(workspace, commit, message, marks) {
      const place = placeOf(workspace);
      const { taskID, record, git, objects } = place;
      const { baseCommit } = workspace.prepared;
      if (baseCommit === null) throw new Error("Expected a base to merge into, got none.");
      const change = await changeBeside(objects, baseCommit, commit);
      const merged = await mergeOnto(objects, change, baseCommit);
      if (merged.conflicts.length === 0) {
        const made = await commitOfTree(objects, merged.tree, baseCommit, message);
        if (made === undefined) return { ok: true, commit: made };
        await setRef({ commonDir: record.commonDir, git: objects }, branchRefOf(branchOf(taskID)), made.commit);
        await git.run(["reset", "-q", "--hard", made.commit], { timeoutMs: 10 * 60_000 });
        return { ok: true, commit: made };
      }
      if (!marks) return { ok: false, paths: merged.conflicts, marked: undefined };
      const taken = plainSnapshot(baseCommit);
      const marked = await mark(place, { taken, commit: change, message, dirty: [] });
      if (!marked.ok) throw new Error(`Expected a merge with markers, got ${marked.paths.join(", ")} in its way.`);
      return { ok: false, paths: marked.paths, marked };
    },
    async withMergedSettings(workspace, commit, merged, message) {
      const { objects } = placeOf(workspace);
      const change = await changeBeside(objects, commit.parent, merged);
      const theirs = (await changesOf(objects, change.parent, merged)).filter(({ path }) => isOwn(path));
      if (theirs.length === 0) return commit;
      const ours = new Set((await changesOf(objects, change.parent, commit.parent)).map(({ path }) => path));
      const grafts = theirs.filter(({ path }) => !ours.has(path));
      const tree = await treeWith(graftPlaceOf(workspace), commit.tree, grafts);
      return (await commitOfTree(objects, tree, commit.parent, message)) ?? commit;
    },
    async keepsBelow(workspace, folder, files) {
      const { taskID, record } = placeOf(workspace);
      return keepsFiles(projectGit(taskID, record), below(record, folder), files);
    },
    async commitBelow(workspace, folder, files, message) {
      const { taskID, record, objects } = placeOf(workspace);
      const { baseCommit } = workspace.prepared;
      if (baseCommit === null) throw new Error("Expected a base to commit on, got none.");
      const at = below(record, folder);
      const grafts = await filesBelow(objects, baseCommit, at, files);
      const tree = await treeWith(graftPlaceOf(workspace), await idOf(objects, `${baseCommit}^{tree}`), grafts);
      const made = await commitOfTree(objects, tree, baseCommit, message);
      if (made !== undefined)
        await setRef({ commonDir: record.commonDir, git: objects }, branchRefOf(branchOf(taskID)), made.commit);
      return made;
    },
    async sealMerge(workspace, commit, merged, message) {
      const parents = [commit.parent, merged];
      return { ...commit, commit: await commitOf(placeOf(workspace).objects, commit.tree, parents, message) };
    },
    revertible: (commonDir, onto, commits) => revertOnto(objectsOf("revert", { commonDir }), onto, commits),
    async revert(workspace, commits) {
      const { git, objects } = placeOf(workspace);
      const { baseCommit } = workspace.prepared;
      if (baseCommit === null) throw new Error("Expected a base to take commits back from, got none.");
      const reverted = await revertOnto(objects, baseCommit, commits);
      if (reverted.ok) {
        const commit = await commitOf(objects, reverted.tree, baseCommit, "revert");
        await git.run(["reset", "-q", "--hard", commit], { timeoutMs: 10 * 60_000 });
      }
      return reverted;
    },
    changeHash: (workspace, base, commit) => changeHash(placeOf(workspace).objects, base, commit),
    unresolved: (workspace, paths) => unresolvedIn(placeOf(workspace).worktree, paths),
    holdDirectory,
    landingTurn: turns,
    async usage(taskID) {
      const names = await readdir(home).catch((): string[] => []);
      const own = names.filter(
        (name) => name === taskID || name.startsWith(`${taskID}.`) || name.startsWith(`${taskID}-`),
      );
      const folders = [...own.map((name) => join(home, name)), processes.homeOf(taskID)];
      return measureUsage(folders, folder.worktreeOf(taskID));
    },
    keepWhileRead(taskID) {
      readers.set(taskID, (readers.get(taskID) ?? 0) + 1);
      return {
        [Symbol.dispose]() {
          const left = (readers.get(taskID) ?? 1) - 1;
          if (left === 0) readers.delete(taskID);
          else readers.set(taskID, left);
        },
      };
    },
    ...retention,
    async listWorktrees(signal) {
      await heads.removeHeads("ses_");
      return retention.listWorktrees(signal);
    },
    async retire(taskID, judge) {
      using _alone = await alone(taskID);
      const record = records.of(taskID);
      const owned = taskOfFork(taskID) === taskID || record === undefined;
      const judged = await judge();
      // A fork that was never merged: its content stays on its own branch.
      const tip =
        judged === undefined || (owned && judged !== null)
          ? judged
          : record && ((await branchTip(objectsOf(taskID, record), branchOf(taskID))) ?? record.base);
      if (tip === undefined) return { removed: false, reason: "its Task is running" };
      if (readers.has(taskID)) return { removed: false, reason: "it is being read" };
      return await retention.retire(taskID, tip);
    },
    async removeUnused(key, judge) {
      using _alone = await alone(key);
      const which = await judge();
      return which !== undefined && !readers.has(key) && (await retention.removeUnused(key, which));
    },
    async unlockRefs(taskID, commonDir) {
      await removeRefLocks(commonDir, [...forksOf(home, taskID), taskID].flatMap(refsOf));
    },
    async makeWay(taskID, attempt) {
      using _alone = await alone(taskID);
      return await retention.makeWay(taskID, attempt);
    },
    async remove(taskID) {
      using _alone = await alone(taskID);
      for (const key of forksOf(home, taskID)) await retention.remove(key);
      await retention.remove(taskID);
    },
    kept: (taskID) => kept.all().filter(({ key }) => taskOfFork(key) === taskID),
  };
};
