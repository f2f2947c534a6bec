import type { CheckSpec } from "../../protocol/check.ts";
import { aboutOf } from "../../protocol/check.ts";
import { specsOf } from "../evidence/check.ts";
import { type Doing, short, since, talkOf, waitOf } from "../session/now.ts";
import { isActive, isIdle, type TaskState } from "../state/task.ts";
import { branchName, isProposalDue } from "./landing.ts";

/** What the Task does or waits for now, in one sentence. It changes only with events, never with time alone. */

/** The fold with what the Task does now. */
export const withNow = (state: TaskState, at: string): TaskState => {
  const now = since(state.now, doingOf(state), at);
  return now === state.now ? state : { ...state, now };
};

const doingOf = (state: TaskState): Doing | undefined => {
  if (!isActive(state)) return undefined;
  // While a push is paused, because the remote cannot be reached, the reason for the pause is shown instead.
  if (state.landingStarted !== null && state.pause === null)
    return { kind: "landing", text: short(landingText(branchName(state.landingStarted.ref), state.stopped)) };
  if (state.cancel?.mode === "stop") return { kind: "stop", text: "Stopping" };
  const wait = waitOf(state);
  if (wait !== undefined) return wait;
  if (state.attemptStartedAt === null || state.stopped) return { kind: "queue", text: "Waiting in the queue" };
  if (state.setup !== null && state.setup.finished === null)
    return { kind: "setup", text: short(`Running \`${state.setup.run}\`, to set up the workspace`) };
  const checks = checksRunning(state);
  if (checks !== undefined) return checks;
  if (isProposalDue(state)) return { kind: "landing", text: "Opening its pull request" };
  if (state.installing !== null) return { kind: "landing", text: "Installing the squad" };
  const reviewed = state.sessions.some(({ purpose, end }) => purpose === "review" && end === null);
  return isIdle(state) && state.open.length === 0 && !reviewed
    ? { kind: "work", text: "Deciding the next step" }
    : talkOf(state);
};

/** `stopped`: the landing can be neither completed nor taken back for now, or the service was stopped during it. */
const landingText = (branch: string, stopped: boolean): string =>
  stopped ? `Its landing on ${branch} is half done and is tried again; the timeline says why` : `Landing on ${branch}`;

/** Checks on the base are shown only while the Task does nothing else. */
const checksRunning = (state: TaskState): Doing | undefined => {
  const alone = state.reply === null || isIdle(state);
  const running = [
    ...state.running.filter(({ on }) => on === "work"),
    ...state.running.filter(({ on }) => on === "base" && alone),
  ];
  const [first] = running;
  if (first === undefined) return undefined;
  const spec = specsOf(state).find(({ id }) => id === first.checkID);
  const more = running.length === 1 ? "" : ` and ${running.length - 1} more`;
  const where = first.on === "base" ? " on the base" : "";
  return { kind: "check", text: short(`Running ${named(spec, first.checkID)}${more}${where}`) };
};

const named = (spec: CheckSpec | undefined, checkID: string): string =>
  `\`${spec === undefined ? checkID : aboutOf(spec)}\``;

/**
 * The short name of the branch that the result goes to; null for a Task in place, and before the workspace is prepared.
 */
export const landingBranchOf = ({ workspace, landed }: TaskState): string | null => {
  if (workspace?.kind !== "worktree") return null;
  return branchName(landed?.ref ?? workspace.targetRef ?? workspace.branch ?? "") || null;
};
