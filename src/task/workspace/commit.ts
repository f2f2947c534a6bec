import { lastWordOf } from "../../domain/conversation/message.ts";
import { titleOf } from "../../domain/task/title.ts";
import type { LongText } from "../../protocol/text.ts";
import type { Run } from "../run.ts";

/** The tree as one commit, and its message. */

/** The tree on disk becomes one commit on the Task's branch; equal to the base, the base itself is on record. */
export const commitTree = async (run: Run): Promise<void> => {
  const workspace = await run.workspace();
  const { baseCommit, baseTree } = workspace.prepared;
  if (baseCommit === null || baseTree === null) throw new Error("Expected a worktree with a base commit to commit in.");
  using _slot = await run.slot();
  const commit = await workspace.commit(messageFor(run));
  const unchanged = {
    commit: baseCommit,
    tree: baseTree,
    parent: baseCommit,
    files: 0,
    insertions: 0,
    deletions: 0,
    omitted: [],
  };
  await run.record([{ type: "tree.committed", data: commit ?? unchanged }]);
};

/** What was asked (a follow-up's own first line), what the agent said, and the trailers by which it is found again. */
export const messageFor = (run: Run): string => {
  const { taskID, squad } = run.state();
  const again = run.chat.said.findLast((message) => message.role === "user" && message.restarted === true);
  const title = again?.role === "user" ? titleOf(headOf(again.text)) : run.state().title;
  const body = headOf(lastWordOf(run.chat)).trim().slice(0, 2000);
  return `${title}\n${body === "" ? "" : `\n${body}\n`}\nTask: ${taskID}\nSquad: ${squad.id}@${squad.version}\n`;
};

const headOf = (text: LongText): string => (typeof text === "string" ? text : text.head);
