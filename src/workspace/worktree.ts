import { existsSync, mkdirSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { messageOf } from "../errors.ts";
import type { Log } from "../log.ts";
import type { Limits } from "../protocol/limits.ts";
import { createCheckouts } from "./checkout.ts";
import { commitTree, diffOf, idOf, resetTo } from "./commit.ts";
import { createFiles, type Files } from "./files.ts";
import { branchTip, createForks, forksOf, ownerOf } from "./fork.ts";
import { createGiver } from "./give.ts";
import { type Author, createGit, type CreateGitOptions, type Git, GitError } from "./git.ts";
import { directoryOnly, inPlace } from "./inplace.ts";
import { createLayers } from "./layers.ts";
import { indexStampOf, landPlan, type Step } from "./land.ts";
import { insideOf, type Place as Mounted, stampOf } from "../process/place.ts";
import { directoryPlace, worktreePlace } from "./place.ts";
import { makePlan } from "./plan.ts";
import type { Command, Processes, Ran } from "../process/process.ts";
import { inspectProject } from "./project.ts";
import { rebaseOnto } from "./rebase.ts";
import { renewOn, unresolvedIn } from "./renew.ts";
import { takeSnapshot, type Taken } from "./snapshot.ts";
import { expectRepository } from "./register.ts";
import { createOrigins, type Origin } from "./origin.ts";
import { findRepository, looseCommit } from "./repository.ts";
import { createRetention } from "./retain.ts";
import { branchOf, createStand, hasReftable } from "./stand.ts";
import { createTurns } from "./turn.ts";
import { openFolder } from "./walk.ts";
import { WorkspaceLost } from "./workspace.ts";
import type { Prepared, PrepareRequest, Project, Workspace, Workspaces } from "./workspace.ts";

/** A Task's own worktree under the data folder, on the branch `sortie/<taskID>`, and how its result enters the project. */

export type WorkspacesOptions = {
  dataDir: string;
  projectRoots: readonly string[];
  /** Paths that file tools refuse; default: names that usually hold secrets. */
  isProtected?: (path: string) => boolean;
  processes: Processes;
  /** Ignored folders that commands need, by name, and the sandbox they are given in; absent: none. */
  dependencies?: { names: readonly string[]; tier: 1 | 2 | 3 };
  limits: Limits;
  log: Log;
  author?: Author;
  /** The search path for git. */
  path?: string;
  /** How long another git command of the user's may hold the project's index; 10 s. */
  lockWaitMs?: number;
  /** Called before every step of a landing; tests stop the process there. */
  onStep?: Step;
  /** Called for every git process; for measurements. */
  onSpawn?: (args: readonly string[]) => void;
};

/** A worktree with what belongs to it. */
export type Place = { taskID: string; origin: Origin; worktree: string; git: Git };

export const createWorkspaces = (options: WorkspacesOptions): Workspaces => {
  const { projectRoots, processes, log, lockWaitMs = 10_000, onStep = () => undefined } = options;
  mkdirSync(options.dataDir, { recursive: true, mode: 0o700 });
  // Roots are real paths: what stands in one is compared with what the system says of it.
  const dataDir = realpathSync(options.dataDir);
  const home = join(dataDir, "worktrees");
  const gitOptions: CreateGitOptions = {
    ...(options.path === undefined ? {} : { path: options.path }),
    ...(options.author === undefined ? {} : { author: options.author }),
    ...(options.onSpawn === undefined ? {} : { onSpawn: options.onSpawn }),
  };
  const inspectOptions = { dataDir, projectRoots, git: gitOptions };
  const turns = createTurns();
  const origins = createOrigins(home);
  const stand = createStand({ home, git: gitOptions, origins, log });
  const { made, worktreeOf, keptOf, gitIn, gitOf, mark, onto, mend, fill } = stand;
  const path = options.path ?? "/usr/local/bin:/usr/bin:/bin";
  const layers = createLayers({ home, path, log });
  const { names = [], tier = 3 } = options.dependencies ?? {};
  const giver = createGiver({ dataDir, names, tier, layers, origins, limits: options.limits, path });
  const retention = createRetention({
    home,
    stand,
    origins,
    removeCheckout: (taskID) => checkouts.remove(taskID),
    removeLayers: layers.remove,
    log,
  });
  /** What makes or removes a Task's worktree, one at a time. */
  const alone = createTurns();
  const whole = new AbortController().signal;
  /** Readers by Task: a worktree does not go under them. */
  const readers = new Map<string, number>();
  /** The index as a plan saw it, by the planned commit. */
  const stamps = new Map<string, string>();
  const places = new WeakMap<Workspace, Place>();
  const placeOf = (workspace: Workspace): Place => {
    const place = places.get(workspace);
    if (place === undefined)
      throw new Error(`Expected a worktree, got ${workspace.root}, where a Task works in place.`);
    return place;
  };
  const open = async (taskID: string, prepared: Prepared, tip?: string): Promise<Workspace> => {
    if (prepared.kind === "directory" || prepared.worktree === null || prepared.baseCommit === null)
      return works(taskID, prepared);
    const origin = origins.of(taskID);
    if (origin === undefined) throw new Error(`Expected the record of the worktree of ${taskID}, got none in ${home}.`);
    expectRepository(origin);
    const there = existsSync(prepared.worktree);
    // Who only reads needs no files of a Task whose worktree has gone: its commits tell.
    if (!there && tip === undefined) return workspaceOf(taskID, prepared, origin, true);
    if (!existsSync(join(prepared.worktree, ".git")) && there && !hasReftable(origin))
      await mend(taskID, origin, prepared.baseCommit);
    else if (!existsSync(join(prepared.worktree, ".git"))) {
      log.info({ taskID }, "worktree is gone; made again from its branch");
      const kept = await gitOf(origin).run(["rev-parse", "--verify", "-q", `refs/heads/${prepared.branch}`], {
        ok: [0, 1],
      });
      await fill(
        taskID,
        origin,
        kept.stdout.toString("latin1").trim() || (tip ?? prepared.baseCommit),
        prepared.baseCommit,
      );
      await give(taskID, origin);
    } else if (tip !== undefined && origin.base !== undefined && origin.base !== prepared.baseCommit) {
      log.warn({ taskID }, "the service died while the worktree was moved to another base; put back");
      await onto(taskID, prepared.baseCommit, async () =>
        resetTo(gitIn(prepared.worktree ?? "", worktreeOf(taskID), origin), tip),
      );
    }
    if (tip !== undefined && !giver.isCurrent(taskID)) await give(taskID, origin);
    return workspaceOf(taskID, prepared, origins.of(taskID) ?? origin);
  };

  const give = async (taskID: string, origin: Origin): Promise<void> => {
    const worktree = worktreeOf(taskID);
    try {
      // Folders that an open sandbox has something mounted on are not touched.
      await processes.rest(taskID);
      await giver.give(taskID, worktree, { project: gitOf(origin), tree: gitIn(worktree, worktree, origin) });
    } catch (error) {
      log.warn({ taskID, error: messageOf(error) }, "the project's dependency folders could not be given");
    }
  };

  const works = (taskID: string, prepared: Prepared): Workspace => {
    const mounted = directoryPlace(prepared.root);
    return inPlace(prepared, gitOptions, {
      files: createFiles(prepared.root, options.isProtected),
      run: (command) => runInside(taskID, prepared.root, command, mounted),
      talk: (talk) => processes.talk(taskID, prepared.root, talk, mounted),
      warm: () => processes.warm(taskID, mounted),
    });
  };

  /** The directory's own tree for a commit of it. */
  const snapshotOf = async (taskID: string, origin: Origin, head: string): Promise<Taken> => {
    const scratch = join(home, `${taskID}.index`);
    return takeSnapshot({ git: gitOf(origin), origin, taskID, head, scratch, limits: options.limits });
  };

  /** A check's `cwd` may name a link that leads out of the root, or the project's own path, where its commands are. */
  const runInside = (taskID: string, root: string, given: Command, place: Mounted): Promise<Ran> => {
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

  const workspaceOf = async (taskID: string, prepared: Prepared, origin: Origin, gone = false): Promise<Workspace> => {
    const { worktree, baseCommit } = prepared;
    if (worktree === null || baseCommit === null) throw new Error(`Expected a worktree for ${taskID}, got none.`);
    const git = gitIn(prepared.root, worktree, origin);
    const top = gone ? gitOf(origin) : gitIn(worktree, worktree, origin);
    const base = { commit: baseCommit, tree: prepared.baseTree ?? "" };
    const dependencies = origin.given?.folders ?? [];
    const plain = worktreePlace(worktree, origin);
    const mounted = gone
      ? plain
      : await layers.around({
          folder: layers.folderOf(taskID),
          place: plain,
          toplevel: origin.toplevel,
          given: dependencies,
        });
    const without = dependencies.map(({ path }) => path);
    let files: Files | undefined;
    const workspace: Workspace = {
      prepared,
      root: prepared.root,
      inside: processes.inside(mounted, prepared.root),
      // Only who works has files: a reader's worktree may be gone.
      get files() {
        if (gone) throw new WorkspaceLost(`Expected the worktree ${worktree}, got nothing there.`);
        return (files ??= createFiles(prepared.root, options.isProtected, insideOf(mounted, prepared.root)));
      },
      git,
      dependencies,
      run: (command) => runInside(taskID, prepared.root, command, mounted),
      talk: (talk) => processes.talk(taskID, prepared.root, talk, mounted),
      warm: () => processes.warm(taskID, mounted),
      async commit(message) {
        const last = made.get(taskID);
        const place = { git: top, worktree, dirs: origin, branch: branchOf(taskID), base, message, without };
        const commit = await commitTree({ ...place, last }).catch(async (error: unknown) => {
          expectRepository(origin);
          if (!existsSync(worktree)) throw new WorkspaceLost(`Expected the worktree ${worktree}, got nothing there.`);
          if (!(error instanceof GitError) || hasReftable(origin)) throw error;
          await mend(taskID, origin, base.commit);
          return commitTree({ ...place, last: undefined });
        });
        if (commit === undefined) made.delete(taskID);
        else made.set(taskID, commit);
        return commit;
      },
      reset: (commit) => resetTo(top, commit, without),
      stamp: () => stampOf(mounted),
      async clear() {
        await processes.rest(taskID);
        await giver.clear(taskID, worktree, top);
        await give(taskID, origin);
      },
      diff: (commit, from = base.commit) => diffOf(top, origin.gitDir, from, gone ? (commit ?? base.commit) : commit),
    };
    places.set(workspace, { taskID, origin, worktree, git: top });
    return workspace;
  };

  const checkouts = createCheckouts({
    home,
    git: { ...gitOptions, timeoutMs: 10 * 60_000 },
    layers,
    tier,
    limits: options.limits,
    programs: path,
    isProtected: options.isProtected,
    processes,
    run: runInside,
  });

  const treeOf = async (project: Project): Promise<string | null> => {
    if (project.git?.head == null) return null;
    const loose = looseCommit(project.project, project.git.head);
    if (loose !== undefined) return loose.tree;
    const git = createGit(project.git.toplevel, gitOptions);
    return (await git.run(["rev-parse", `${project.git.head}^{tree}`])).stdout.toString("latin1").trim();
  };

  return {
    inspect: (directory) => inspectProject(directory, inspectOptions),
    async prepare({ taskID, directory, isolation, landing: how }: PrepareRequest) {
      using _alone = await alone(taskID, whole);
      const project = await inspectProject(directory, inspectOptions);
      const { git } = project;
      const tree = await treeOf(project);
      if (isolation === "directory" || git === undefined || git.head === null || tree === null)
        return works(taskID, directoryOnly(project, tree));

      const found = findRepository(git.toplevel);
      const projectGitDir =
        typeof found === "string" ? await askGitDir(createGit(git.toplevel, gitOptions)) : found.gitDir;
      const origin: Origin = {
        toplevel: git.toplevel,
        prefix: git.prefix,
        projectGitDir,
        commonDir: project.project,
        gitDir: join(project.project, "worktrees", taskID),
      };
      const before = origins.of(taskID)?.given;
      origins.keep(taskID, { ...origin, ...(before === undefined ? {} : { given: before }) });
      const taken = await snapshotOf(taskID, origin, git.head);
      await fill(taskID, origin, taken.commit, taken.commit);
      await give(taskID, origin);
      const worktree = worktreeOf(taskID);
      const root = git.prefix === "" ? worktree : join(worktree, git.prefix);
      // A folder that no commit knows (all its files are untracked) is not in the worktree yet.
      if (git.prefix !== "") openFolder(worktree, git.prefix.split("/"), true)[Symbol.dispose]();
      const prepared: Prepared = {
        kind: "worktree",
        root,
        worktree,
        branch: branchOf(taskID),
        baseCommit: taken.commit,
        baseTree: taken.tree ?? (taken.head === git.head ? tree : await idOf(gitOf(origin), `${taken.head}^{tree}`)),
        targetRef: how === "commit" ? git.branch : null,
        ...(taken.tree === undefined && taken.omitted.length === 0
          ? {}
          : { snapshot: { head: taken.head, untracked: taken.untracked, omitted: taken.omitted } }),
      };
      return workspaceOf(taskID, prepared, origins.of(taskID) ?? origin);
    },
    async open(taskID, prepared, tip) {
      using _alone = await alone(taskID, whole);
      return open(taskID, prepared, tip);
    },
    checkout(workspace, commit) {
      const { taskID, origin } = placeOf(workspace);
      return checkouts.open(taskID, origin, commit);
    },
    ...createForks({ stand, origins, retention, processes, give, open, workspaceOf, placeOf, alone }),
    async borrow(taskID, prepared, commit, judge, use) {
      using _alone = await alone(taskID, whole);
      if (!(await judge())) return undefined;
      const workspace = await open(taskID, prepared, commit);
      try {
        return await use(workspace);
      } finally {
        if (commit !== undefined) await workspace.reset(commit);
      }
    },
    async plan(workspace, commit, base) {
      const { taskID, origin, worktree, git } = placeOf(workspace);
      const ref = workspace.prepared.targetRef;
      const stamp = indexStampOf(origin.projectGitDir);
      const request = {
        taskID,
        origin,
        worktree,
        git: gitOf(origin),
        worktreeGit: git,
        commit,
        base,
        ref,
        kept: keptOf(taskID),
        lockWaitMs,
      };
      const plan = await makePlan(request);
      stamps.delete(commit.commit);
      if (!("reason" in plan)) stamps.set(commit.commit, stamp);
      return plan;
    },
    async land(workspace, plan) {
      const { taskID, origin, worktree } = placeOf(workspace);
      const indexStamp = stamps.get(plan.commit);
      stamps.delete(plan.commit);
      const place = { taskID, origin, worktree, git: gitOf(origin), kept: keptOf(taskID) };
      return landPlan({ ...place, plan, indexStamp, step: onStep, lockWaitMs });
    },
    async rebase(workspace, commit, message) {
      const { taskID, git } = placeOf(workspace);
      const { targetRef, snapshot } = workspace.prepared;
      const onBranch = targetRef ?? snapshot?.head;
      if (onBranch === undefined) throw new Error("Expected a branch to rebase onto, got a Task that keeps its own.");
      const snapped = snapshot !== undefined && snapshot.head !== workspace.prepared.baseCommit;
      const head = snapped ? snapshot.head : undefined;
      const rebased = await rebaseOnto({ git, commit, message, onto: await idOf(git, `${onBranch}^{commit}`), head });
      if (rebased.ok)
        await onto(taskID, rebased.baseCommit, () =>
          git.run(["reset", "-q", "--hard", rebased.commit], { timeoutMs: 10 * 60_000 }),
        );
      return rebased;
    },
    async renew(workspace, commit, message, dirty) {
      const { taskID, origin, worktree, git } = placeOf(workspace);
      const taken = await snapshotOf(taskID, origin, commit.parent);
      const baseTree = taken.tree ?? (await idOf(git, `${taken.commit}^{tree}`));
      const renewed = await renewOn({ git, worktree, taken, baseTree, commit, message, dirty }, () => {
        made.delete(taskID);
        mark(taskID, "");
      });
      if (renewed.ok) mark(taskID, renewed.baseCommit);
      return renewed;
    },
    unresolved: (workspace, paths) => unresolvedIn(placeOf(workspace).worktree, paths),
    turn: turns,
    hold(taskID) {
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
    async retire(taskID, judge) {
      using _alone = await alone(taskID, whole);
      const origin = origins.of(taskID);
      const owned = ownerOf(taskID) === taskID || origin === undefined;
      const judged = await judge();
      // A fork that nobody joined: what is in it stays on its own branch.
      const tip = judged === undefined || owned ? judged : await branchTip(gitOf(origin), taskID);
      if (tip === undefined) return { removed: false, reason: "its Task is at work" };
      if (readers.has(taskID)) return { removed: false, reason: "it is being read" };
      return retention.retire(taskID, tip);
    },
    async remove(taskID) {
      using _alone = await alone(taskID, whole);
      for (const key of forksOf(home, taskID)) await retention.remove(key);
      await retention.remove(taskID);
    },
  };
};

const askGitDir = async (git: Git): Promise<string> =>
  (await git.run(["rev-parse", "--absolute-git-dir"])).stdout.toString("utf8").replace(/\n$/, "");
