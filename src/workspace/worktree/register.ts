import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { WorktreeRecord } from "../record.ts";
import { WorkspaceLost } from "../error.ts";

/** Writes what makes a folder a linked worktree of the project's repository. Idempotent. */
export const register = (worktree: string, origin: WorktreeRecord, branch: string): void => {
  const pointer = join(worktree, ".git");
  mkdirSync(origin.gitDir, { recursive: true });
  for (const lock of ["index.lock", "HEAD.lock"]) rmSync(join(origin.gitDir, lock), { force: true });
  writeFileSync(join(origin.gitDir, "commondir"), "../..\n");
  writeFileSync(join(origin.gitDir, "gitdir"), `${pointer}\n`);
  writeFileSync(join(origin.gitDir, "HEAD"), `ref: refs/heads/${branch}\n`);
  // An agent may have put a repository of its own there.
  rmSync(pointer, { recursive: true, force: true });
  writeFileSync(pointer, `gitdir: ${origin.gitDir}\n`);
};

/** Throws WorkspaceLost where the user removed the repository: none may be created in its place. */
export const expectRepository = ({ toplevel, commonDir }: WorktreeRecord): void => {
  if (!existsSync(join(commonDir, "HEAD")))
    throw new WorkspaceLost(`Expected the Git repository of ${toplevel}, got nothing at ${commonDir}.`);
};
