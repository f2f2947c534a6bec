import type { TaskState } from "../state/task.ts";
import type { Description } from "./commit-text.ts";

/** Merging the branch of a Mission, by a Task of its own. */

type Merge = Pick<NonNullable<TaskState["mergeOf"]>, "branch" | "title" | "commit">;

/** What its agents read, should there be something for them to do. */
export const mergeRequest = ({ branch, title, commit }: Merge, into: string): string =>
  `Merge ${branch} into ${into}

${branch} (${commit}) has the work of the Mission "${title}", whose Tasks landed there one after the other. The service merges it itself, like \`git merge\`. What is left to you is what stands in the way of that, and nothing else.`;

export const mergeDescription = ({ branch, title }: Merge): Description => ({
  title: `Merge ${branch}`,
  body: title,
});
