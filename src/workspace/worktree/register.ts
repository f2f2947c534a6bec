import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { WorktreeRecord } from "../record.ts";
import { WorkspaceLost } from "../error.ts";

/** Writes what makes a folder a linked worktree of the project's repository. Idempotent. */
export const register = (worktree: string, record: WorktreeRecord, branch: string): void => {
  const pointer = join(worktree, ".git");
  mkdirSync(record.gitDir, { recursive: true });
  for (const lock of ["index.lock", "HEAD.lock"]) rmSync(join(record.gitDir, lock), { force: true });
  writeNew(join(record.gitDir, "commondir"), "../..\n");
  writeNew(join(record.gitDir, "gitdir"), `${pointer}\n`);
  writeNew(join(record.gitDir, "HEAD"), `ref: refs/heads/${branch}\n`);
  writeNew(pointer, `gitdir: ${record.gitDir}\n`);
};

/** An agent may have put a repository of its own, a FIFO or a link there: what stands there is removed, not opened. */
const writeNew = (path: string, text: string): void => {
  rmSync(path, { recursive: true, force: true });
  writeFileSync(path, text, { flag: "wx" });
};

/** Throws WorkspaceLost where the user removed the repository: none may be created in its place. */
export const expectRepository = ({ toplevel, commonDir }: WorktreeRecord): void => {
  if (!existsSync(join(commonDir, "HEAD")))
    throw new WorkspaceLost(`Expected the Git repository of ${toplevel}, got nothing at ${commonDir}.`);
};
