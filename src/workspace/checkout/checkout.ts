import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createKeyedMutex } from "../../async/mutex.ts";
import type { Limits } from "../../protocol/limit.ts";
import type { Processes } from "../../process/process.ts";
import { insideOf, type SandboxPlace } from "../../process/sandbox/place.ts";
import { retryWithOpenedFolders } from "../tree/closed.ts";
import { patternOf } from "../tree/commit.ts";
import { GitError } from "../git/git.ts";
import { splitNul } from "../git/output.ts";
import { copyFolder } from "../dependency/copy.ts";
import { createTreeFiles } from "../file/files.ts";
import { FileRefused, openFolder } from "../file/folder.ts";
import { WorkspaceLost } from "../error.ts";
import { readBaseFiles } from "./base-files.ts";
import { type Overlays, upperOf } from "../dependency/overlay.ts";
import { removeTree } from "../file/remove-tree.ts";
import type { WorktreeRecord } from "../record.ts";
import { makeGitDir, setHead } from "../tree/git-dir.ts";
import type { WorktreeFolder } from "../worktree/create.ts";
import { programLine, runInside, treeGitOf } from "../worktree/inside.ts";
import { worktreeMounts } from "../worktree/mount.ts";
import type { Checkout, CheckEnvironment, FileOverride } from "../workspace.ts";

/**
 * The files of a commit in a folder of their own, for checks, without the ignored files that agents left in the
 * worktree. One git process with a Git directory of its own checks them out. Where overlays can be mounted, each check
 * gets one over the whole tree, so checks run concurrently and leave nothing behind; elsewhere they run in turn, and
 * the tree is restored after each.
 */

export type CheckoutDeps = {
  home: string;
  folder: WorktreeFolder;
  overlays: Overlays;
  tier: 1 | 2 | 3;
  limits: Limits;
  /** The search path for programs. */
  programs: string;
  isProtected: ((path: string) => boolean) | undefined;
  processes: Processes;
};

const prepared = "whole";

type Of = "work" | "base";

export const createCheckouts = (deps: CheckoutDeps) => {
  const { home, folder, overlays, tier, limits, programs, processes } = deps;
  /**
   * The commit that this process checked out, by folder. Any other checkout on disk is from a killed process and is
   * removed.
   */
  const filled = new Map<string, string>();
  /** Keeps a folder that is being filled from being taken for one that a killed process left. */
  const inTurn = createKeyedMutex();
  /** Folders that checks wrote into. */
  const touched = new Set<string>();
  const treeOf = (taskID: string, of: Of) => join(home, `${taskID}.${of === "work" ? "checkout" : "base"}`);
  /** The checkout's Git directory, which no agent has ever seen, so that git in checks tells the truth. */
  const gitDirOf = (tree: string) => `${tree}.git`;

  /** The folder for leftovers of checks that cannot be removed yet. */
  const asideOf = (tree: string) => `${tree}.aside`;

  /** Removes the checkout; what cannot be removed is moved aside, so that its place is free. */
  const clear = async (tree: string): Promise<void> => {
    filled.delete(tree);
    touched.delete(tree);
    await removeTree(`${tree}.overlays`);
    await removeTree(gitDirOf(tree));
    await removeTree(tree).catch(() => {
      mkdirSync(asideOf(tree), { recursive: true, mode: 0o700 });
      renameSync(tree, join(asideOf(tree), randomBytes(8).toString("hex")));
    });
  };

  /** Removes the checkout and what was moved aside; rejects if something cannot be removed. */
  const remove = async (tree: string): Promise<void> => {
    await clear(tree);
    await removeTree(asideOf(tree));
  };

  const fill = async (taskID: string, record: WorktreeRecord, tree: string, commit: string): Promise<void> => {
    const gitDir = gitDirOf(tree);
    using _turn = await inTurn(tree);
    const before = filled.get(tree);
    if (before === commit) return;
    // Starts from nothing where a check may have written: git runs outside a sandbox here, so the folder must be
    // untouched.
    if (before === undefined || touched.has(tree)) await clear(tree);
    filled.delete(tree);
    mkdirSync(tree, { recursive: true, mode: 0o700 });
    if (existsSync(gitDir)) await setHead(gitDir, commit);
    else {
      await makeGitDir({ gitDir, commonDir: record.commonDir, head: commit, author: folder.author });
      writeFileSync(join(tree, ".git"), `gitdir: ${gitDir}\n`);
    }
    await folder.readTree(taskID, tree, gitDir, ["--reset", "-u", commit]);
    makeRoot(tree, record.prefix);
    filled.set(tree, commit);
  };

  const open = async (taskID: string, record: WorktreeRecord, commit: string, of: Of): Promise<Checkout> => {
    const tree = treeOf(taskID, of);
    /** Commands in the checkouts of work and base may run at the same time, so their sandboxes have different names. */
    const apartAs = (name: string) => (of === "work" ? name : `${of}-${name}`);
    const root = record.prefix === "" ? tree : join(tree, record.prefix);
    const given = record.given?.folders ?? [];
    const gitDir = gitDirOf(tree);
    await fill(taskID, record, tree, commit);
    for (const { path, how } of given)
      if (tier !== 1 && how === "copied" && !existsSync(join(tree, path)))
        await copyFolder({
          toplevel: record.toplevel,
          worktree: tree,
          path,
          scratch: `${tree}.copy`,
          programs,
          limits,
        });

    const plain = worktreeMounts({ tree, gitDir, writable: false, record });
    /** git over files that checks have changed. */
    const gitIn = (at: string) =>
      treeGitOf({
        processes,
        taskID,
        root: at,
        tree,
        gitDir,
        place: worktreeMounts({ tree, gitDir, writable: true, record }),
        apart: apartAs("restore"),
        excluded: false,
        path: programs,
        author: folder.author,
        onSpawn: undefined,
      });
    const git = gitIn(tree);
    const layersAt = (name: string) => join(`${tree}.overlays`, name);
    const around = (name: string) => ({ folder: layersAt(name), place: plain, toplevel: record.toplevel, given });
    const apart = tier === 1 && (await overlays.apart(around("tried"))) !== undefined;
    /** Untracked paths that survive when the tree is restored. */
    let kept = given.filter(({ how }) => how === "copied").map(({ path }) => path);

    const placeIn = (place: SandboxPlace, name: string, used = () => {}): CheckEnvironment => ({
      root,
      rootInSandbox: processes.pathInSandbox(place, root),
      get files() {
        return createTreeFiles(root, deps.isProtected);
      },
      run(command) {
        used();
        return runInside(processes, { taskID, root, place }, { ...command, apart: apartAs(name) });
      },
      startInteractive(talk) {
        used();
        return processes.startInteractive(taskID, root, talk, place);
      },
    });

    return {
      isolated: apart,
      async whole() {
        const place = tier === 1 ? await overlays.around(around(prepared)) : plain;
        return placeIn(place, prepared, () => touched.add(tree));
      },
      async keep() {
        if (apart) return;
        const { stdout } = await git.run(["ls-files", "-z", "--others", "--directory"]);
        kept = splitNul(stdout).map((path) => path.replace(/\/$/, ""));
      },
      readable: () => ({
        root,
        rootInSandbox: processes.pathInSandbox(plain, root),
        files: createTreeFiles(root, deps.isProtected, insideOf(plain, root)),
        git: gitIn(root),
        runProgram: (program, args, command) =>
          runInside(
            processes,
            { taskID, root, place: plain },
            { ...command, own: true, run: programLine(processes, program, args), apart: "read" },
          ),
      }),
      before: (base) =>
        readBaseFiles({ git: folder.objectsOf(taskID, record), base, commit, prefix: record.prefix, root }),
      async open(name, overrides = []) {
        const folder = layersAt(name);
        await removeTree(folder);
        const below = existsSync(layersAt(prepared)) ? { below: layersAt(prepared) } : {};
        const own = { ...around(name), ...below };
        const place = apart ? await overlays.apart(own) : tier === 1 ? await overlays.around(own) : plain;
        if (place === undefined) throw new Error(`Expected a layer over ${tree}, as before, got none.`);
        let used = overrides.length > 0;
        await lay(apart ? join(upperOf(folder), record.prefix) : root, overrides);
        return {
          ...placeIn(place, name, () => {
            used = true;
            if (!apart) touched.add(tree);
          }),
          async [Symbol.asyncDispose]() {
            await removeTree(folder);
            if (apart || !used) return;
            const except = kept.flatMap((path) => ["-e", patternOf(path)]);
            await retryWithOpenedFolders(tree, () => git.run(["checkout-index", "-q", "-f", "-a", "-u"]));
            // Files that the check made and that cannot be removed stay beside those of the commit.
            await retryWithOpenedFolders(tree, () => git.run(["clean", "-q", "-d", "-x", "-f", "-f", ...except])).catch(
              (error: unknown) => {
                if (!(error instanceof GitError && error.exitCode === 1)) throw error;
              },
            );
          },
        };
      },
      [Symbol.asyncDispose]: () => clear(tree),
    };
  };

  return {
    open,
    /** The folder that the files of a commit are checked out into. */
    treeOf: (taskID: string) => treeOf(taskID, "work"),
    /** Removes checkouts that a killed process left, which nobody may open again. */
    async removeLeft(taskID: string): Promise<void> {
      for (const tree of [treeOf(taskID, "work"), treeOf(taskID, "base")])
        if ([tree, gitDirOf(tree), `${tree}.overlays`].some((path) => existsSync(path))) {
          using _turn = await inTurn(tree);
          if (!filled.has(tree)) await clear(tree);
        }
    },
    async remove(taskID: string): Promise<void> {
      await remove(treeOf(taskID, "work"));
      await remove(treeOf(taskID, "base"));
    },
  };
};

/** Makes the folder that the Task works in, following no link, since the commit may have one there. */
const makeRoot = (tree: string, prefix: string): void => {
  try {
    openFolder(tree, prefix === "" ? [] : prefix.split("/"), true)[Symbol.dispose]();
  } catch (error) {
    if (!(error instanceof FileRefused)) throw error;
    throw new WorkspaceLost(`The Task replaced the folder it works in: ${error.message}.`);
  }
};

/** Writes files over those of the commit, following no link. */
const lay = async (tree: string, overrides: readonly FileOverride[]): Promise<void> => {
  if (overrides.length === 0) return;
  mkdirSync(tree, { recursive: true });
  const files = createTreeFiles(tree, () => false);
  for (const { path, bytes, executable } of overrides) await files.write(path, bytes, { executable });
};
