import type { Budget } from "../../protocol/task/status.ts";
import type { Recorded } from "../event.ts";
import { requestSlice } from "../evidence/slice.ts";
import { withModel } from "../session/session.ts";
import { isIdle, staysOnBranch, type TaskState, isOpenSlice } from "../state/task.ts";
import { rootOf } from "../state/stream.ts";

/** An attempt at a Task: what a message begins anew, the time that counts for it, and what was warned of. */

/**
 * A message is read with the next request; a queued one once the agent has finished what it does. A message to a
 * settled Task begins a new attempt; after a landing it begins from a new base.
 */
export const afterMessage = (state: TaskState, event: Recorded & { type: "message.received" }): Partial<TaskState> =>
  state.lifecycle === "active"
    ? event.data.disposition === "queued" && !isIdle(state)
      ? { queued: true }
      : {
          input: event.version,
          round: event.data.source === "checks" || event.data.source === "review" ? state.round + 1 : state.round,
        }
    : {
        ...withModel(state, rootOf(state), state.wanted),
        ...again(state, event),
        input: event.version,
        queued: false,
        lifecycle: "active",
        attempt: state.attempt + 1,
        attemptStartedAt: null,
        time: { ms: 0, since: null },
        warned: withoutTime(state.warned),
        settledAt: null,
        error: null,
        errorInfo: null,
        tampered: null,
        installing: null,
        // What made it fail may be mended; it begins again, as after a kill.
        setup: state.setup?.finished?.state === "failed" ? { ...state.setup, finished: null } : state.setup,
        round: 0,
        landingRound: 0,
        moves: 0,
        // What made a check red may be mended outside the tree: a new attempt is checked anew.
        results: {},
        ...(state.landed === null ? {} : staysOnBranch(state) ? { landed: null } : { ...newAttempt, workspace: null }),
      };

/** What comes after everything was accepted is a slice of its own; what has not landed speaks of it, too. */
const again = (
  { slices, evidence, edits, landed }: TaskState,
  { data }: Recorded & { type: "message.received" },
): Pick<TaskState, "slices" | "evidence"> => {
  // What a review said of an attempt that ended is no reason against the next.
  if (slices.some(isOpenSlice))
    return {
      slices: slices.map((slice) => (isOpenSlice(slice) ? { ...slice, review: null } : slice)),
      evidence,
    };
  const text = typeof data.text === "string" ? data.text : data.text.head;
  const title = (text.trim().split("\n")[0] ?? "").slice(0, 80);
  const slice = requestSlice(data.messageID, title, data.text, []);
  return {
    slices: [...slices, slice],
    evidence: evidence.map((item) =>
      landed === null && item.edits === edits
        ? { ...item, of: { ...item.of, [slice.sliceID]: slice.contract.revision } }
        : item,
    ),
  };
};

/** The warnings that still hold under another budget. */
export const keptWarnings = ({ warned }: TaskState, budget: Budget): TaskState["warned"] =>
  Object.fromEntries(Object.entries(warned).filter(([name, { cap }]) => budget[name as keyof Budget] === cap));

/** Each attempt has its own time. */
const withoutTime = (warned: TaskState["warned"]): TaskState["warned"] =>
  Object.fromEntries(Object.entries(warned).filter(([name]) => name !== "maxMinutes"));

/** Landing renews the base: what comes after it starts from a new workspace. */
export const newAttempt = {
  tree: null,
  touched: false,
  results: {},
  landed: null,
  landingRound: 0,
  moves: 0,
  conflicts: [],
  conflictedAt: null,
  unlandable: [],
} satisfies Partial<TaskState>;
