import { endAsks } from "../../domain/session/ask.ts";
import { lastWordOf } from "../../domain/conversation/message.ts";
import { type End, settled } from "../../domain/task/end.ts";
import type { TaskState } from "../../domain/state/task.ts";
import { openAsks } from "../../domain/state/stream.ts";
import { messageOf } from "../../error.ts";
import type { LongText } from "../../protocol/text.ts";
import type { TurnFailure } from "../../protocol/event/conversation.ts";
import { titleOf } from "../operation/create.ts";
import type { Run } from "../worker/open.ts";

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

/** Ends the Task, unless something came in since its end was judged. Work that does not land is kept on its branch. */
export const settle = async (run: Run, end: End): Promise<void> => {
  let judged = run.state();
  await run.workspaceMade();
  if (end.lifecycleStatus !== "completed" && mayHaveEdits(judged)) {
    await commitTree(run).catch((error: unknown) => {
      run.signal.throwIfAborted();
      run.log.warn({ task: run.stream, error: messageOf(error) }, "the tree of an ended Task could not be committed");
    });
    // A failure is judged anew: a message may have come. A cancel stands, whatever came.
    if (end.lifecycleStatus === "failed" && !run.state().touched) return;
    judged = run.state();
  }
  const events = [...ended(judged), settled(end, lastWordOf(run.chat), run.now().toISOString())];
  await run.record(events, { judged: judged.version, due: null });
};

const ended = (state: TaskState) => endAsks(openAsks(state), "end");

/** A call that was cut may have changed files too. */
const mayHaveEdits = ({ workspace, touched, open }: TaskState): boolean =>
  workspace?.kind === "worktree" &&
  (touched || open.some(({ effect }) => effect === "workspace" || effect === "unknown"));

/** Ends the Task as failed at once, for what the steps do not foresee. */
export const failNow = async (run: Run, failure: TurnFailure): Promise<void> => {
  const judged = run.state();
  const event = settled({ lifecycleStatus: "failed", failure }, lastWordOf(run.chat), run.now().toISOString());
  await run.record([...ended(judged), event], { judged: judged.version, due: null });
};
