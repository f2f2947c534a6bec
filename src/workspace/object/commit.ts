import type { EventData } from "../../protocol/event/event.ts";
import { type Git, GitError } from "../git/git.ts";

/** Creates and describes commit objects. */

export type Commit = EventData["tree.committed"];

export const commitOf = async (
  git: Git,
  tree: string,
  parents: string | readonly string[] | undefined,
  message: string,
): Promise<string> => {
  const args = ["commit-tree", tree, ...[parents ?? []].flat().flatMap((parent) => ["-p", parent]), "-F", "-"];
  return (await git.run(args, { input: message })).stdout.toString("latin1").trim();
};

/** The first line of a commit's message and the paths that it changed; undefined: there is no such commit. */
export const commitAbout = async (
  git: Git,
  commit: string,
): Promise<{ title: string; paths: string[] } | undefined> => {
  const args = ["log", "-1", "--no-color", "--no-renames", "--format=%s", "--name-only", commit, "--"];
  try {
    const [title = "", ...paths] = (await git.run(args)).stdout.toString("utf8").split("\n");
    return { title, paths: paths.filter((path) => path !== "") };
  } catch (error) {
    if (error instanceof GitError) return undefined;
    throw error;
  }
};
