import { lastWordOf } from "../../domain/conversation/message.ts";
import { titleOf } from "../../domain/task/title.ts";
import type { TurnFailure } from "../../protocol/event/conversation.ts";
import type { LongText } from "../../protocol/text.ts";
import { isTooLarge } from "../../workspace/tree/commit.ts";
import type { Run } from "../run.ts";
import { deniedIn } from "./denied.ts";

/**
 * Commits the tree on disk to the Task's branch and records it, with what of it a rule forbids to change. When it equals
 * the base, the base itself is recorded. Resolves to the failure, with nothing recorded, when files had to be left out
 * because the Task has outgrown its disk space: nobody may take the rest for the whole.
 */
export const commitTree = async (run: Run): Promise<TurnFailure | undefined> => {
  const workspace = await run.workspace();
  const { baseCommit, baseTree } = workspace.prepared;
  if (baseCommit === null || baseTree === null) throw new Error("Expected a worktree with a base commit to commit in.");
  using _slot = await run.slot();
  // Who cancels waits for the end: what git cannot get at is not waited for.
  const idleMs = run.state().cancel === null ? undefined : 2000;
  const commit = await workspace.commit(messageFor(run), idleMs);
  const failure = commit?.omitted.some(isTooLarge) === true ? await run.bound.failure(true) : undefined;
  if (failure !== undefined) return failure;
  const unchanged = {
    commit: baseCommit,
    tree: baseTree,
    parent: baseCommit,
    files: 0,
    insertions: 0,
    deletions: 0,
    omitted: [],
  };
  const denied = commit === undefined ? [] : await deniedIn(run, workspace, commit);
  await run.record([{ type: "tree.committed", data: commit ?? unchanged }, ...denied]);
  return undefined;
};

/**
 * The commit message: the title of the request (after a restart, of the new message), the agent's last reply, and
 * trailers that identify Task and squad.
 */
export const messageFor = (run: Run): string => {
  const { taskID, squad } = run.state();
  const again = run.chat.said.findLast((message) => message.role === "user" && message.restarted === true);
  const title = again?.role === "user" ? titleOf(headOf(again.text)) : run.state().title;
  const body = headOf(lastWordOf(run.chat)).trim().slice(0, 2000);
  return `${title}\n${body === "" ? "" : `\n${body}\n`}\nTask: ${taskID}\nSquad: ${squad.id}@${squad.version}\n`;
};

const headOf = (text: LongText): string => (typeof text === "string" ? text : text.head);
