import { lastWordOf } from "../../domain/conversation/message.ts";
import { endAsks } from "../../domain/session/ask.ts";
import { openAsks } from "../../domain/state/stream.ts";
import { isByService, type TaskState } from "../../domain/state/task.ts";
import { type End, settledEvent } from "../../domain/task/end.ts";
import { readEnd } from "../../domain/task/commit-text.ts";
import { branchName } from "../../domain/task/landing.ts";
import { messageOf } from "../../error.ts";
import type { TurnFailure } from "../../protocol/event/conversation.ts";
import type { LongText } from "../../protocol/text.ts";
import { keepText, loadText } from "../../store/blob/text.ts";
import type { Run } from "../run.ts";
import { commitTree } from "../workspace/commit.ts";
import { withdraw } from "../workspace/landing.ts";

/**
 * Ends the Task, unless something came in since its end was decided. Work that does not land is committed on the Task's
 * branch.
 */
export const settle = async (run: Run, end: End): Promise<void> => {
  let decided = run.state();
  await run.workspaceMade();
  // On a full disk Git could leave half a tree in the project, and work beyond the Task's bound does not belong there.
  // In both cases the work stays as it is, uncommitted.
  const fits = run.disk.shortage() === undefined && !run.bound.isOver();
  if (end.lifecycleStatus !== "completed" && mayHaveEdits(decided) && fits) {
    await commitTree(run).catch((error: unknown) => {
      run.signal.throwIfAborted();
      run.log.warn({ task: run.stream, error: messageOf(error) }, "the tree of an ended Task could not be committed");
    });
    // A failure is decided again, because a message may have come in. A cancel is final.
    if (end.lifecycleStatus === "failed" && !run.state().touched) return;
    decided = run.state();
  }
  // Nothing of the Task may run any more when others learn of its end.
  await run.closeSandboxes();
  const events = [...ended(decided), settledEvent(end, await reportOf(run), run.now().toISOString())];
  await run.record(events, { decidedAt: decided.version, due: null });
};

/** The agent's last words, without its description of the commit. */
export const reportOf = async (run: Run): Promise<LongText> => {
  const { revertOf, mergeOf, landed } = run.state();
  if (revertOf !== null && isByService(run.state()))
    return landed === null ? "" : `Reverted "${revertOf.title}" (${revertOf.taskID}).`;
  if (mergeOf !== null && isByService(run.state()))
    return landed === null ? "" : `Merged ${mergeOf.branch} into ${branchName(landed.ref)}.`;
  const words = lastWordOf(run.chat);
  const { report, commit } = readEnd(await loadText(run.store.blobs, words));
  if (commit === undefined) return words;
  return keepText(run.store.blobs, report === "" ? `${commit.title}\n\n${commit.body}`.trim() : report);
};

const ended = (state: TaskState) => endAsks(openAsks(state), "end");

/** A call that is still open was interrupted, and may have changed files as well. */
const mayHaveEdits = ({ workspace, touched, open }: TaskState): boolean =>
  workspace?.kind === "worktree" &&
  (touched || open.some(({ effect }) => effect === "workspace" || effect === "unknown"));

/**
 * Fails the Task at once, for errors that no step handles. A landing that was started is taken back first, so that a
 * failed Task leaves the project as it was. If the landing is already done, the Task continues instead.
 */
export const failNow = async (run: Run, failure: TurnFailure): Promise<void> => {
  const landing = run.state().landingStarted !== null;
  const withdrawn = landing ? await withdraw(run, failure.message) : undefined;
  if (landing && withdrawn === undefined) return;
  const decided = run.state();
  const event = settledEvent({ lifecycleStatus: "failed", failure }, await reportOf(run), run.now().toISOString());
  const events = [...(withdrawn === undefined ? [] : [withdrawn]), ...ended(decided), event];
  await run.record(events, { decidedAt: decided.version, due: null });
};
