import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { Limits } from "../../protocol/limit.ts";
import type { Command, Processes, CommandResult } from "../../process/process.ts";
import type { SandboxPlace } from "../../process/sandbox/place.ts";
import { patternOf } from "../tree/commit.ts";
import { splitNul } from "../git/output.ts";
import { copyFolder } from "../dependency/copy.ts";
import { createFiles } from "../file/files.ts";
import { createGit, type CreateGitOptions } from "../git/git.ts";
import { readBaseFiles } from "./base-files.ts";
import { type Overlays, removeOverlays, upperOf } from "../dependency/overlay.ts";
import type { WorktreeRecord } from "../record.ts";
import { worktreeMounts } from "../worktree/mount.ts";
import type { Checkout, CheckEnvironment, FileOverride } from "../workspace.ts";

/**
 * The files of a commit in a folder of their own, for checks, without the ignored files that agents left in the
 * worktree. One git process with a separate index checks them out. Where overlays can be mounted, each check gets one
 * over the whole tree, so checks run concurrently and leave nothing behind; elsewhere they run in turn, and the tree is
 * restored after each.
 */

export type CheckoutDeps = {
  home: string;
  git: CreateGitOptions;
  overlays: Overlays;
  tier: 1 | 2 | 3;
  limits: Limits;
  /** The search path for programs. */
  programs: string;
  isProtected: ((path: string) => boolean) | undefined;
  processes: Processes;
  run: (taskID: string, root: string, command: Command, place: SandboxPlace) => Promise<CommandResult>;
};

const prepared = "whole";

export const createCheckouts = (deps: CheckoutDeps) => {
  const { home, overlays, tier, limits, programs, processes } = deps;
  /**
   * The commit that this process checked out, by Task. Any other checkout on disk is from a killed process and is
   * removed.
   */
  const filled = new Map<string, string>();
  const treeOf = (taskID: string) => join(home, `${taskID}.checkout`);

  const remove = async (taskID: string): Promise<void> => {
    filled.delete(taskID);
    const tree = treeOf(taskID);
    removeOverlays(`${tree}.overlays`);
    rmSync(`${tree}.index`, { force: true });
    await rm(tree, { recursive: true, force: true });
  };

  const open = async (taskID: string, record: WorktreeRecord, commit: string): Promise<Checkout> => {
    const tree = treeOf(taskID);
    const root = record.prefix === "" ? tree : join(tree, record.prefix);
    const given = record.given?.folders ?? [];
    const git = createGit(tree, { ...deps.git, toplevel: tree, gitDir: record.gitDir });
    const env = { GIT_INDEX_FILE: `${tree}.index` };
    const before = filled.get(taskID);
    if (before === undefined) await remove(taskID);
    if (before !== commit) {
      filled.delete(taskID);
      mkdirSync(root, { recursive: true, mode: 0o700 });
      writeFileSync(join(tree, ".git"), `gitdir: ${record.gitDir}\n`);
      await git.run(["read-tree", "--reset", "-u", commit], { env });
      mkdirSync(root, { recursive: true, mode: 0o700 });
      filled.set(taskID, commit);
    }
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

    const plain = worktreeMounts(tree, record);
    const layersAt = (name: string) => join(`${tree}.overlays`, name);
    const around = (name: string) => ({ folder: layersAt(name), place: plain, toplevel: record.toplevel, given });
    const apart = tier === 1 && (await overlays.apart(around("tried"))) !== undefined;
    /** Untracked paths that survive when the tree is restored. */
    let kept = given.filter(({ how }) => how === "copied").map(({ path }) => path);

    const placeIn = (place: SandboxPlace, name: string, used = () => {}): CheckEnvironment => ({
      root,
      rootInSandbox: processes.pathInSandbox(place, root),
      get files() {
        return createFiles(root, deps.isProtected);
      },
      run(command) {
        used();
        return deps.run(taskID, root, { ...command, apart: name }, place);
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
        return placeIn(place, prepared);
      },
      async keep() {
        if (apart) return;
        const { stdout } = await git.run(["ls-files", "-z", "--others", "--directory"], { env });
        kept = splitNul(stdout).map((path) => path.replace(/\/$/, ""));
      },
      before: (base) => readBaseFiles({ git, base, commit, prefix: record.prefix, root }),
      async open(name, overrides = []) {
        const folder = layersAt(name);
        removeOverlays(folder);
        const below = existsSync(layersAt(prepared)) ? { below: layersAt(prepared) } : {};
        const own = { ...around(name), ...below };
        const place = apart ? await overlays.apart(own) : tier === 1 ? await overlays.around(own) : plain;
        if (place === undefined) throw new Error(`Expected a layer over ${tree}, as before, got none.`);
        let touched = overrides.length > 0;
        await lay(apart ? join(upperOf(folder), record.prefix) : root, overrides);
        return {
          ...placeIn(place, name, () => {
            touched = true;
          }),
          async [Symbol.asyncDispose]() {
            removeOverlays(folder);
            if (apart || !touched) return;
            await git.run(["checkout-index", "-q", "-f", "-a", "-u"], { env });
            const except = kept.flatMap((path) => ["-e", patternOf(path)]);
            await git.run(["clean", "-q", "-d", "-x", "-f", "-f", ...except], { env });
          },
        };
      },
      [Symbol.asyncDispose]: () => remove(taskID),
    };
  };

  return {
    open,
    remove,
  };
};

/** Writes files over those of the commit, following no link. */
const lay = async (tree: string, overrides: readonly FileOverride[]): Promise<void> => {
  if (overrides.length === 0) return;
  mkdirSync(tree, { recursive: true });
  const files = createFiles(tree, () => false);
  for (const { path, bytes, executable } of overrides) await files.write(path, bytes, { executable });
};
