import { openUpAll } from "../file/open-up.ts";
import { GitError } from "../git/git.ts";

/** Runs git over the files of a tree; if it may not change a folder, opens up all folders and runs it again. */
export const retryWithOpenedFolders = async <T>(tree: string, work: () => Promise<T>): Promise<T> => {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof GitError) || !error.stderr.includes("Permission denied")) throw error;
    await openUpAll(tree);
    return await work();
  }
};
