import { rmSync, statSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { pace } from "../../pace.ts";
import { copyBounded, sizeLimits } from "../file/bounded-read.ts";
import { encodePath } from "../file/path.ts";
import { type Change, changesOf } from "../object/tree-change.ts";
import { entriesOf } from "./index-entry.ts";
import type { LandRequest } from "./request.ts";

/** Prepares the project's new index as a copy next to the current one. */

export const indexStampOf = (gitDir: string): string => {
  const stats = statSync(join(gitDir, "index"), { throwIfNoEntry: false });
  return stats === undefined ? "-" : `${stats.mtimeMs}.${stats.size}.${stats.ino}`;
};

export const copyOf = ({ record, taskID }: LandRequest) => join(record.projectGitDir, `sortie-${taskID}.index`);

export const removeCopy = (request: LandRequest): void => {
  for (const path of [copyOf(request), `${copyOf(request)}.lock`]) rmSync(path, { force: true });
};

/**
 * Creates the copy, with the plan's paths as in the commit and everything else as the user has it, staged changes
 * included.
 */
export const makeIndex = async (request: LandRequest): Promise<void> => {
  const { record, plan, git, step } = request;
  const index = join(record.projectGitDir, "index");
  const copy = copyOf(request);
  step("copy index");
  rmSync(`${copy}.lock`, { force: true });
  if (!(await copyBounded(index, copy, sizeLimits.index)))
    throw new Error(`Expected the project's index at ${index}, got nothing there.`);
  // git trusts a file older than its index without reading it: the copy must not look newer than the original.
  const seconds = Math.floor(statSync(index).mtimeMs / 1000);
  utimesSync(copy, seconds, seconds);

  const untouched = request.indexStamp === indexStampOf(record.projectGitDir);
  const skip = untouched ? new Set<string>() : await restaged(request);
  const lines: Buffer[] = [];
  for (const { path, after, index: own } of plan.paths) {
    if (skip.has(path)) continue;
    const to = own === undefined ? after : own.after;
    const entry = to === null ? `0 ${"0".repeat(plan.commit.length)}` : `${to.mode} ${to.object}`;
    lines.push(Buffer.from(`${entry}\t`), encodePath(path), Buffer.of(0));
    await pace();
  }
  step("update index");
  await git.run(["update-index", "-z", "--add", "--replace", "--index-info"], {
    input: Buffer.concat(lines),
    env: { GIT_INDEX_FILE: copy },
  });
};

/** Paths whose index entry is neither the old nor the new one: the user staged them since, and they stay staged. */
const restaged = async ({ git, plan }: LandRequest): Promise<Set<string>> => {
  const changes = await changesOf(git, plan.from, plan.commit);
  const own = new Map(plan.paths.map(({ path, index }) => [path, index]));
  const entries = await entriesOf(
    git,
    changes.map((change) => change.path),
  );
  const same = (entry: Change["from"] | undefined, side: Change["from"]) =>
    entry?.mode === side?.mode && entry?.object === side?.object;
  return new Set(
    changes
      .filter(({ path, from, to }) => {
        const entry = entries.get(path) ?? null;
        const sides = own.get(path) ?? { before: from, after: to };
        return !same(entry, sides.before) && !same(entry, sides.after);
      })
      .map((change) => change.path),
  );
};
