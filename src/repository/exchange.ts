import { closeSync, openSync, rmSync, writeSync } from "node:fs";
import type { Git } from "../workspace/git/git.ts";

/**
 * Copies commits from one repository of this machine to another, by their ids and as objects alone: no ref, setting or
 * file of either is read or changed.
 */

const timeoutMs = 10 * 60_000;

/** Whether the repository has the commit. */
export const hasCommit = async (git: Git, commit: string): Promise<boolean> =>
  (await git.run(["cat-file", "-e", `${commit}^{commit}`], { ok: [0, 1, 128] })).exitCode === 0;

/** Whether `commit` is `tip` or an ancestor of it; false also if it is not in the repository. */
export const isWithin = async (git: Git, commit: string, tip: string): Promise<boolean> =>
  (await git.run(["merge-base", "--is-ancestor", commit, tip], { ok: [0, 1, 128], timeoutMs })).exitCode === 0;

/**
 * The commits of the remote's branches and tags, as far as the mirror knows; undefined: one of them reaches `commit`.
 */
export const tipsWithout = async (git: Git, commit: string): Promise<string[] | undefined> => {
  const found = await git.run(["rev-list", "--max-count=1", commit, "--not", "--remotes", "--tags"], { timeoutMs });
  if (found.stdout.length === 0) return undefined;
  const refs = await git.run(["for-each-ref", "--format=%(objectname)", "refs/remotes", "refs/tags"]);
  return refs.stdout.toString("latin1").split("\n").filter(Boolean);
};

/**
 * Packs the objects that `commits` add to those `without` into a new file, and resolves to its size in bytes;
 * undefined: it would be more than `mostBytes`, and no file is left. `thin`: as differences to objects of `without`,
 * where that is shorter.
 */
export const packInto = async (
  file: string,
  git: Git,
  {
    commits,
    without,
    mostBytes,
    thin = false,
  }: { commits: readonly string[]; without: readonly string[]; mostBytes: number; thin?: boolean },
  signal: AbortSignal,
): Promise<number | undefined> => {
  const stop = new AbortController();
  let bytes = 0;
  const output = openSync(file, "wx", 0o600);
  try {
    await git.run(["pack-objects", "-q", "--stdout", "--revs", ...(thin ? ["--thin"] : [])], {
      input: [...commits, ...without.map((commit) => `^${commit}`), ""].join("\n"),
      onOutput(part: Buffer) {
        bytes += part.length;
        if (bytes > mostBytes) stop.abort();
        else writeSync(output, part);
      },
      signal: AbortSignal.any([signal, stop.signal]),
      timeoutMs,
    });
    return bytes;
  } catch (error) {
    rmSync(file, { force: true });
    if (!stop.signal.aborted) throw error;
    return undefined;
  } finally {
    closeSync(output);
  }
};

/** Adds the objects of a pack, `thin` or not, to the repository. */
export const indexPack = async (git: Git, file: string, thin: boolean, signal: AbortSignal): Promise<void> => {
  const input = openSync(file, "r");
  try {
    await git.run(["index-pack", "--stdin", ...(thin ? ["--fix-thin"] : [])], { input, signal, timeoutMs });
  } finally {
    closeSync(input);
  }
};

/**
 * Copies a commit with its history. `without`: a commit that both repositories have. `file`: the path of a temporary
 * file, removed in the end. Rejects if the pack takes more than `mostBytes`.
 */
export const takeCommit = async (
  { from, to }: { from: Git; to: Git },
  { commit, without, file, mostBytes }: { commit: string; without: string; file: string; mostBytes: number },
  signal: AbortSignal,
): Promise<void> => {
  if (commit === without || (await hasCommit(to, commit))) return;
  try {
    const bytes = await packInto(file, from, { commits: [commit], without: [without], mostBytes }, signal);
    if (bytes === undefined)
      throw new Error(`Expected what ${commit} adds to ${without} to take at most ${mostBytes} bytes, got more.`);
    await indexPack(to, file, false, signal);
  } finally {
    rmSync(file, { force: true });
  }
};
