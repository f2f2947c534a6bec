import { serviceSourceOf } from "../../protocol/event/source.ts";
import type { Budget } from "../../protocol/task/status.ts";
import type { Recorded } from "../event.ts";
import { requestSlice } from "../evidence/slice.ts";
import { withModel } from "../session/session.ts";
import { isIdle, isOfPresentFiles, staysOnBranch, type Slice, type TaskState, isOpenSlice } from "../state/task.ts";
import { rootOf } from "../state/stream.ts";
import type { EventData } from "../../protocol/event/event.ts";
import { noApproval } from "../session/approval.ts";
import { outputAnew } from "../session/output.ts";
import { answeredSource } from "./report.ts";
import { titleOf } from "./title.ts";

/** Attempts at a Task: what a message resets, and which warnings remain. */

/**
 * Whether a message counts as a round, because it refuses the work as it is. The message that the tests show no
 * difference does not count: it is sent only once.
 */
const isRefusal = (data: EventData["message.received"]): boolean => {
  const source = serviceSourceOf(data);
  return source === "checks" || source === "review" || source === "permissions";
};

/**
 * The fold after a message. The agent reads the message with its next request; a queued message once the agent has
 * finished. A message to a settled Task begins a new attempt, which after a landing starts from a new base.
 */
export const afterMessage = (state: TaskState, event: Recorded & { type: "message.received" }): Partial<TaskState> => ({
  ...asMessage(state, event),
  answers: answeredSource(state, event.data),
  ...(event.data.retried === undefined ? {} : fromTheBeginning(state, event)),
});

/** A retry: of the earlier attempts, only their cost and what they landed still count. */
const fromTheBeginning = (
  state: TaskState,
  { data, version, at }: Recorded & { type: "message.received" },
): Partial<TaskState> => {
  const { slices, isolation, workspace, attempt } = state;
  const kept = slices.map((slice): Slice => {
    if (!isOpenSlice(slice)) return slice;
    if (slice.whole) return { ...slice, review: null };
    return { ...slice, settlement: { state: "dropped", revision: slice.contract.revision, commit: null, at } };
  });
  return {
    ...freshWorkspaceFields,
    slices: kept.some(isOpenSlice)
      ? kept
      : [...kept, requestSlice(data.messageID, state.title, data.text, state.checks)],
    workspace: null,
    earlier: isolation === "worktree" && workspace !== null ? attempt : state.earlier,
    reply: null,
    system: null,
    externalSessions: {},
    projectServers: null,
    environment: null,
    mcp: {},
    projectRules: null,
    ownChecks: [],
    baseline: {},
    contrast: null,
    staged: null,
    edits: state.edits + 1,
    writes: state.writes + 1,
    revertOf: state.revertOf && { ...state.revertOf, read: version, tried: false },
    mergeOf: state.mergeOf && { ...state.mergeOf, read: version, tried: false },
  };
};

const asMessage = (state: TaskState, event: Recorded & { type: "message.received" }): Partial<TaskState> =>
  state.lifecycle === "active"
    ? event.data.disposition === "queued" && !isIdle(state)
      ? { queued: true }
      : {
          input: event.version,
          abandoned: null,
          refusal: null,
          // A result on the Task's own branch changed no branch of the user's: the work continues where it is.
          ...(state.landed !== null && staysOnBranch(state) ? { landed: null } : {}),
          contrastTold: state.contrastTold || serviceSourceOf(event.data) === "contrast",
          round: isRefusal(event.data) ? state.round + 1 : state.round,
        }
    : {
        ...withModel(state, rootOf(state), state.wanted),
        ...again(state, event),
        ...outputAnew(state),
        mcp: Object.fromEntries(
          Object.entries(state.mcp).filter(([, { problem, tools }]) => problem === null || tools !== "[]"),
        ),
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
        // The rules may have changed in the meantime: the tree is checked against them again.
        ...(state.denied === null ? {} : { denied: null, touched: true }),
        installing: null,
        // The cause of a failed setup may be fixed by now; it runs again, as after a crash.
        setup: state.setup?.finished?.state === "failed" ? { ...state.setup, finished: null } : state.setup,
        contrastTold: false,
        seenRed: false,
        abandoned: null,
        approved: noApproval,
        refusal: null,
        round: 0,
        landingRound: 0,
        moves: 0,
        described: null,
        // The cause of a failed check may be fixed outside the tree; a new attempt runs all checks again.
        results: {},
        ...(state.landed === null
          ? {}
          : staysOnBranch(state)
            ? { landed: null }
            : { ...freshWorkspaceFields, workspace: null }),
      };

/**
 * If no slice is open, the message becomes a new slice. Evidence for files that have not landed applies to it as well.
 */
const again = (
  state: TaskState,
  { data }: Recorded & { type: "message.received" },
): Pick<TaskState, "slices" | "evidence"> => {
  const { slices, evidence, landed } = state;
  // A review from an ended attempt does not count against the next one.
  if (slices.some(isOpenSlice))
    return {
      slices: slices.map((slice) => (isOpenSlice(slice) ? { ...slice, review: null } : slice)),
      evidence,
    };
  const text = typeof data.text === "string" ? data.text : data.text.head;
  const title = titleOf(text);
  const slice = requestSlice(data.messageID, title, data.text, []);
  return {
    slices: [...slices, slice],
    evidence: evidence.map((item) =>
      landed === null && isOfPresentFiles(state, item)
        ? { ...item, of: { ...item.of, [slice.sliceID]: slice.contract.revision } }
        : item,
    ),
  };
};

/** The warnings that are still valid under another budget: those whose cap did not change. */
export const keptWarnings = ({ warned }: TaskState, budget: Budget | null): TaskState["warned"] =>
  Object.fromEntries(Object.entries(warned).filter(([name, { cap }]) => budget?.[name as keyof Budget] === cap));

/** Each attempt has its own time, so warnings about the time are dropped. */
const withoutTime = (warned: TaskState["warned"]): TaskState["warned"] =>
  Object.fromEntries(Object.entries(warned).filter(([name]) => name !== "maxMinutes"));

/** The fields that start anew when the next attempt gets a new workspace on a new base, as after a landing. */
export const freshWorkspaceFields = {
  tree: null,
  checkpoint: null,
  moved: null,
  denied: null,
  touched: false,
  results: {},
  landed: null,
  landingRound: 0,
  moves: 0,
  conflicts: [],
  conflictedAt: null,
  unlandable: [],
} satisfies Partial<TaskState>;
