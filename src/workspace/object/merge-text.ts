import { mkdirSync, rmSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Git } from "../git/git.ts";

/** Merges three versions of a text by `git merge-file`. */

/** Bytes. Larger files are not merged: they are not edited by hand. */
export const mostBytes = 16 * 1024 * 1024;

export type Sides = { ours: Buffer; base: Buffer; theirs: Buffer };

/**
 * The merged text; undefined: both sides changed the same lines, or a version is not a text. `folder` is created; the
 * caller must own it.
 */
export const mergeText = async (git: Git, folder: string, sides: Sides): Promise<Buffer | undefined> => {
  const { ours, base, theirs } = sides;
  if (ours.equals(theirs) || base.equals(theirs)) return ours;
  if (base.equals(ours)) return theirs;
  // git's own test for a binary file: a NUL near the beginning.
  const binary = (bytes: Buffer) => bytes.length > mostBytes || bytes.subarray(0, 8000).includes(0);
  if (binary(ours) || binary(base) || binary(theirs)) return undefined;
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const names = ["ours", "base", "theirs"] as const;
  const files = names.map((side) => join(folder, `merge-${side}`));
  try {
    for (const [at, side] of names.entries()) await writeFile(files[at] ?? "", sides[side], { mode: 0o600 });
    // The exit code is the number of conflicts; 255 is an error.
    const ok = Array.from({ length: 256 }, (_, code) => code);
    const { exitCode, stdout } = await git.run(["merge-file", "-p", "-q", ...files], { ok });
    return exitCode === 0 ? stdout : undefined;
  } finally {
    for (const file of files) rmSync(file, { force: true });
  }
};

/** Merges a single value: one side's when the other did not change it, or changed it the same way; else undefined. */
export const mergeValue = <T>(ours: T, base: T, theirs: T): T | undefined =>
  ours === theirs || base === theirs ? ours : base === ours ? theirs : undefined;
