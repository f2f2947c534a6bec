import { interruptedCall, runCalls } from "../../agent/loop/call.ts";
import type { AgentSession } from "../../agent/session.ts";
import type { Conversation } from "../../domain/conversation/message.ts";
import { isWaiting, type OpenCall } from "../../domain/state/stream.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import type { Run } from "../run.ts";

/**
 * Ends calls of a session that an earlier run left open. Calls that only read, that only write to the log, or that have
 * waited for an answer since they began are run again. Calls that may have changed files are not: the model is told
 * that they were interrupted, and what state the files are in. Without `turn` the calls are an external agent's, and
 * none of them is run.
 */
export const recover = async (
  run: Run,
  { sessionID, chat, workspace }: { sessionID: string; chat: Conversation; workspace: () => Promise<Workspace> },
  turn: (() => AgentSession) | undefined,
): Promise<void> => {
  const state = run.state();
  const isHarmless = ({ callID, effect }: OpenCall) =>
    turn !== undefined && (effect === "none" || effect === "log" || isWaiting(state, callID));
  const open = new Map(state.open.map((call) => [call.callID, isHarmless(call)]));
  const calls = (chat.turn?.reply.calls ?? []).filter((call) => open.has(call.callID));
  const again = calls.filter((call) => open.get(call.callID) === true);
  const lost = calls.filter((call) => open.get(call.callID) !== true);
  if (lost.length > 0) {
    const files = await describe(await workspace());
    await run.record(
      lost.map((call, at) => interruptedCall(sessionID, call, at === 0 || turn === undefined ? files : shownBefore)),
    );
  }
  if (turn !== undefined && again.length > 0) await runCalls(turn(), again);
};

/** Calls that change files run in order: those after the first may not even have begun. */
const shownBefore =
  "Or it was not begun: it comes after another call that was interrupted, whose result shows the files as they are now.";

const describe = async (workspace: Workspace): Promise<string> => {
  if (workspace.git === undefined) return "Look at the files before you repeat it.";
  const { stdout } = await workspace.git.run(["status", "--porcelain=v1", "-uall"]);
  const status = stdout.toString("utf8").trimEnd();
  if (status === "") return "git status: nothing changed against the last commit.";
  const diff = await workspace.diff(null);
  return `git status:\n${status.slice(0, 2000)}\n\ngit diff:\n${diff.slice(0, 6000)}`;
};
