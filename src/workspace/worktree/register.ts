import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { WorktreeRecord } from "../record.ts";
import { WorkspaceLost } from "../error.ts";

/** Writes what makes a folder a linked worktree of the project's repository. Idempotent. */
export const register = (worktree: string, record: WorktreeRecord, branch: string): void => {
  const pointer = join(worktree, ".git");
  mkdirSync(record.gitDir, { recursive: true });
  for (const lock of ["index.lock", "HEAD.lock"]) rmSync(join(record.gitDir, lock), { force: true });
  writeFileSync(join(record.gitDir, "commondir"), "../..\n");
  writeFileSync(join(record.gitDir, "gitdir"), `${pointer}\n`);
  writeFileSync(join(record.gitDir, "HEAD"), `ref: refs/heads/${branch}\n`);
  // An agent may have put a repository of its own there.
  rmSync(pointer, { recursive: true, force: true });
  writeFileSync(pointer, `gitdir: ${record.gitDir}\n`);
};

/** Throws WorkspaceLost where the user removed the repository: none may be created in its place. */
export const expectRepository = ({ toplevel, commonDir }: WorktreeRecord): void => {
  if (!existsSync(join(commonDir, "HEAD")))
    throw new WorkspaceLost(`Expected the Git repository of ${toplevel}, got nothing at ${commonDir}.`);
};
