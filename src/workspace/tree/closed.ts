import { openUpAll } from "../file/open-up.ts";
import { GitError } from "../git/git.ts";

/** Git over the files of a tree: where it may not change a folder, again with all of them opened up. */
export const throughClosed = async <T>(tree: string, work: () => Promise<T>): Promise<T> => {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof GitError) || !error.stderr.includes("Permission denied")) throw error;
    await openUpAll(tree);
    return await work();
  }
};
