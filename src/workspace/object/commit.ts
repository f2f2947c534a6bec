import type { EventData } from "../../protocol/event/event.ts";
import type { Git } from "../git/git.ts";

/** Creates commit objects. */

export type Commit = EventData["tree.committed"];

export const commitOf = async (
  git: Git,
  tree: string,
  parent: string | undefined,
  message: string,
): Promise<string> => {
  const args = ["commit-tree", tree, ...(parent === undefined ? [] : ["-p", parent]), "-F", "-"];
  return (await git.run(args, { input: message })).stdout.toString("latin1").trim();
};
