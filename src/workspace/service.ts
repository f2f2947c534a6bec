import { mkdirSync, realpathSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Log } from "../log.ts";
import type { Limits } from "../protocol/limit.ts";
import { createCheckouts } from "./checkout/checkout.ts";
import { createHeads } from "./checkout/head.ts";
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
import { removeRefLocks, branchTip } from "./object/ref.ts";
import { createFolderCommits } from "./rebase/folder-commit.ts";
import { createMerges } from "./rebase/merge.ts";
import { createRebases } from "./rebase/rebase.ts";
import { createWorktreeRecords } from "./record.ts";
import { holdDirectory } from "./worktree/hold.ts";
import { createRemovalFailures } from "./worktree/removal-failure.ts";
import { putBorrowedAside, recordBorrowed } from "./tamper/borrowed.ts";
import { createRetention, refsOf } from "./worktree/retire.ts";
import { branchOf, createWorktreeFolder } from "./worktree/create.ts";
import { createKeyedMutex } from "../async/mutex.ts";
import { measureUsage } from "./usage/measure.ts";
import { createWorktrees } from "./worktree/open.ts";
import type { Project, Workspaces } from "./workspace.ts";

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
  /** The repository that the service keeps in a directory; undefined: the directory is not the service's. */
  repositoryAt?: (directory: string) => { directory: string; identity: string; mirror: string } | undefined;
};

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
    // Shown to callers as a directory without Git: it is nobody's work tree, and the Task's base comes from the mirror.
    if (kept !== undefined)
      return { directory: kept.directory, project: kept.identity, mirror: kept.mirror, git: undefined };
    return inspectProject(directory, { ...inspectOptions, loose });
  };
  const inspectObjects = (directory: string) => inspect(directory, true);
  const turns = createKeyedMutex();
  const records = createWorktreeRecords(home);
  const folder = createWorktreeFolder({ home, git: gitOptions, records, processes, log });
  const { objectsOf } = folder;
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
  const kept = createRemovalFailures(dataDir, log);
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
  /** Number of readers by Task; a worktree that has readers is not retired. */
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

  const onto = { home, folder, placeOf, snapshotOf };

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
    ...createRebases(onto),
    ...createMerges(onto),
    ...createFolderCommits(onto),
    branches: (commonDir) => branchesOf(objectsOf("branches", { commonDir })),
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
    holds: (taskID, { kind }) => kind === "directory" || records.of(taskID) !== undefined,
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
