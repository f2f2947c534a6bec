import { objectsOf, setHead } from "../tree/git-dir.ts";
import type { Git } from "../git/git.ts";
import type { Author } from "../git/hardened.ts";
import { refOf } from "../git/repository.ts";
import type { Commit } from "../object/commit.ts";
import { baseRefOf, branchRefOf, removeRefs, setRef } from "../object/ref.ts";
import { takeOver } from "../object/take-over.ts";
import type { WorktreeRecord } from "../record.ts";
import { writeTreeAside } from "../tree/live-tree.ts";
import { writeTree, type WriteTreeRequest } from "../tree/commit.ts";

/** Makes the files of a tree one commit on their base, in the project's repository, on a branch of the service's. */

export type CommitRequest = Omit<WriteTreeRequest, "gitDir"> & {
  record: WorktreeRecord;
  /** git on the project's objects. */
  objects: Git;
  /** Identifies the tree. */
  key: string;
  branch: string;
  author: Author;
  message: string;
};

/** undefined: the tree equals the base's. */
export const commitFiles = async (request: CommitRequest): Promise<Commit | undefined> => {
  const { record, objects, key, branch, base, author, message } = request;
  const { gitDir, commonDir } = record;
  const written = await writeTree({ ...request, gitDir });
  if (!written.changed) {
    if (written.last !== undefined) return { ...written.last, omitted: written.omitted };
    // The change of an earlier commit was undone: the base has a ref of its own, so the branch would hold nothing.
    const ref = branchRefOf(branch);
    if (refOf(commonDir, ref) !== null)
      await removeRefs({ commonDir, git: objects }, [ref], (_, why) => {
        throw new Error(`The branch ${branch} could not be removed: ${why}`);
      });
    return undefined;
  }
  using pack = written.pack;
  const taken = { git: objects, objects: objectsOf(commonDir), key, base, author, message };
  const { confirm, ...commit } = await takeOver({ ...taken, tree: written.tree, pack: pack.own });
  await setRef({ commonDir, git: objects }, branchRefOf(branch), commit.commit);
  await confirm();
  await setHead(gitDir, commit.commit);
  return { ...commit, omitted: written.omitted };
};

/** The ref that holds the newest commit of files that are still being worked on. */
export const keptRefOf = (key: string): string => baseRefOf(`${key}.kept`);

/**
 * Commits the files as they are now, on their base and on no branch, while work on them goes on. undefined: their tree
 * is `known`, or the base's.
 */
export const keepFiles = async (
  { known, ...request }: Omit<CommitRequest, "last" | "branch"> & { known: string | undefined },
  signal: AbortSignal,
): Promise<Pick<Commit, "commit" | "tree"> | undefined> => {
  const { record, objects, base, author, message } = request;
  const { gitDir, commonDir } = record;
  const written = await writeTreeAside({ ...request, gitDir }, signal);
  using pack = written.pack;
  if (written.tree === (known ?? base.tree)) return undefined;
  const taken = { git: objects, objects: objectsOf(commonDir), key: `${request.key}.kept`, base, author, message };
  const { confirm, commit, tree } = await takeOver({ ...taken, tree: written.tree, pack: pack.own });
  await setRef({ commonDir, git: objects }, keptRefOf(request.key), commit);
  await confirm();
  return { commit, tree };
};
