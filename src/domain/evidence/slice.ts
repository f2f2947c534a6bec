import { aboutOf, type CheckSpec, isRun, wantOf } from "../../protocol/check.ts";
import type { Goal } from "../../protocol/task/status.ts";
import type { LongText } from "../../protocol/text.ts";
import type { Recorded } from "../event.ts";
import { rootOf, type Session } from "../state/stream.ts";
import { isChanged, isOpenSlice, type Slice, type TaskState } from "../state/task.ts";
import { isCurrentEvidence, hasEvidence } from "./evidence.ts";

/**
 * Delivery slices: the parts of a Task, each with a contract, evidence, a review, and whether the service accepted it.
 * The first one exists from the beginning and is the whole request; a plan revises it.
 */

const none: Goal["settlement"] = { state: "open", revision: null, commit: null, at: null };

const headOf = (text: LongText, length: number): string => {
  const head = (typeof text === "string" ? text : text.head).trim();
  return head.length <= length ? head : `${head.slice(0, length)}…`;
};

/** The id of the slice that a Task or a message begins. */
export const sliceOf = (id: string): string => id.replace(/^[a-z]+_/, "slice_");

const passesOf = (check: CheckSpec): string => {
  const wants = isRun(check) ? wantOf(check) : "";
  return `\`${check.name}\` passes${wants === "" ? "" : `: \`${aboutOf(check)}\`${wants}`}`;
};

/** The slice of a request or a follow-up that has not been planned yet. */
export const requestSlice = (id: string, title: string, request: LongText, checks: readonly CheckSpec[]) => ({
  sliceID: sliceOf(id),
  weight: "blocking" as const,
  contract: {
    revision: 1,
    title,
    objective: headOf(request, 400),
    acceptance: checks.map(passesOf),
  },
  whole: true,
  review: null,
  settlement: none,
  proofs: [],
  acceptedIn: null,
});

/** Ids of the evidence that applies to a slice now. */
const proofsOf = (state: TaskState, slice: Slice): string[] =>
  state.evidence.filter((proof) => isCurrentEvidence(state, slice, proof)).map(({ id }) => id);

/**
 * Whether a slice needs a review. Changes in a worktree are reviewed before they land. In place every edit is final at
 * once, so only planned slices are reviewed.
 */
export const needsReview = (state: TaskState, { whole }: Slice): boolean => !whole || isChanged(state);

/**
 * Whether a slice was reviewed under its present contract, on the present files, and its author has answered no review
 * since. Every answer is judged again, even if it is only words.
 */
export const isReviewed = (state: TaskState, { review, contract }: Slice): boolean =>
  review !== null &&
  review.revision === contract.revision &&
  review.edits === state.edits &&
  review.round === state.round;

/** Whether the service may accept a slice: that takes evidence, and acceptance by a reviewer in another session. */
export const isAcceptable = (state: TaskState, slice: Slice): boolean =>
  isOpenSlice(slice) && isReviewed(state, slice) && slice.review?.verdict === "accepted" && hasEvidence(state, slice);

type Fact = Extract<Recorded, { type: `slice.${string}` | "review.finished" }>;

/** The slices after an event about them. */
export const evolveSlices = (state: TaskState, event: Fact): Pick<TaskState, "slices"> => {
  const change = (sliceID: string, how: (slice: Slice) => Slice) => ({
    slices: state.slices.map((slice) => (slice.sliceID === sliceID ? how(slice) : slice)),
  });
  switch (event.type) {
    case "slice.defined": {
      const { sliceID, weight, contract } = event.data;
      return {
        slices: [
          ...state.slices,
          { sliceID, weight, contract, whole: false, review: null, settlement: none, proofs: [], acceptedIn: null },
        ],
      };
    }
    case "slice.revised": {
      const { sliceID, weight, contract } = event.data;
      return change(sliceID, (slice) => ({
        ...slice,
        weight,
        contract,
        whole: false,
        settlement: none,
        acceptedIn: null,
      }));
    }
    case "slice.ordered": {
      const at = (slice: Slice) => {
        const place = event.data.sliceIDs.indexOf(slice.sliceID);
        return place < 0 ? state.slices.length : place;
      };
      return { slices: state.slices.toSorted((a, b) => at(a) - at(b)) };
    }
    case "slice.dropped":
      return change(event.data.sliceID, (slice) => ({
        ...slice,
        whole: false,
        settlement: { state: "dropped", revision: slice.contract.revision, commit: null, at: event.at },
      }));
    case "slice.settled": {
      const { sliceID, revision, commit } = event.data;
      return change(sliceID, (slice) => ({
        ...slice,
        settlement: { state: "accepted", revision, commit, at: event.at },
        proofs: proofsOf(state, slice),
        acceptedIn: state.attempt,
      }));
    }
    case "review.finished":
      return change(event.data.sliceID, (slice) => ({
        ...slice,
        review: { ...event.data, edits: state.edits, round: state.round, at: event.at },
      }));
  }
};

/** Reopens slices that were accepted in this attempt, when files changed since and nothing has landed. */
export const reopenSlices = (state: TaskState): Pick<TaskState, "slices"> => ({
  slices: state.slices.map((slice) =>
    slice.settlement.state === "accepted" && slice.acceptedIn === state.attempt && state.landed === null
      ? { ...slice, settlement: none, acceptedIn: null }
      : slice,
  ),
});

/**
 * Blocking slices that cannot be accepted on the present files. Slices are accepted all together, once there is no such
 * slice.
 */
export const unacceptedSlices = (state: TaskState): Slice[] =>
  state.slices.filter(
    (slice) =>
      isOpenSlice(slice) && slice.weight === "blocking" && needsReview(state, slice) && !isAcceptable(state, slice),
  );

/** Completing a Task accepts the blocking slices that no review was required for. */
export const settleWhole = (state: TaskState, at: string): Slice[] =>
  state.slices.map((slice) =>
    slice.weight === "blocking" && isOpenSlice(slice)
      ? {
          ...slice,
          settlement: {
            state: "accepted",
            revision: slice.contract.revision,
            commit: state.landed?.commit ?? state.tree?.commit ?? null,
            at,
          },
          proofs: proofsOf(state, slice),
          acceptedIn: state.attempt,
        }
      : slice,
  );

/** The sessions that work on a slice: those it was given to, otherwise the Orchestrator's session. */
const workersOf = (state: TaskState, { sliceID }: Slice): Session[] => {
  const given = state.sessions.filter(({ purpose, sliceIDs }) => purpose === "work" && sliceIDs.includes(sliceID));
  return given.length > 0 || state.startedAt === null ? given : state.sessions.slice(0, 1);
};

const isWorking = (state: TaskState, session: Session): boolean => state.lifecycle === "active" && session.end === null;

const executionOf = (state: TaskState, slice: Slice): Goal["execution"] => {
  const workers = workersOf(state, slice);
  const running = isOpenSlice(slice) && workers.some((session) => isWorking(state, session));
  const ends = workers.map(({ end }) => end?.at ?? state.settledAt).filter((at) => at !== null);
  return {
    state: running ? "running" : workers.length === 0 ? "waiting" : "finished",
    sessionIDs: workers.map(({ sessionID }) => sessionID),
    attempts: workers.length,
    startedAt: workers[0]?.callID == null ? (workers.length === 0 ? null : state.startedAt) : workers[0].startedAt,
    endedAt: running ? null : (slice.settlement.at ?? ends.toSorted().at(-1) ?? null),
  };
};

const reviewOf = (state: TaskState, slice: Slice): Goal["review"] => {
  const { review } = slice;
  if (review === null) return { verdict: null, revision: null, reviewer: null, notes: null, stale: false, at: null };
  const { verdict, revision, reviewer, notes, at } = review;
  return { verdict, revision, reviewer, notes, stale: isOpenSlice(slice) && !isReviewed(state, slice), at };
};

export const goalsOf = (state: TaskState): Goal[] =>
  state.slices.map((slice, index) => ({
    sliceID: slice.sliceID,
    order: index + 1,
    weight: slice.weight,
    contract: slice.contract,
    execution: executionOf(state, slice),
    evidence: state.evidence.flatMap((proof) => {
      if (proof.of[slice.sliceID] === undefined) return [];
      const { id, kind, summary, sessionID, commit, lastLines, contrast, at } = proof;
      // Evidence that a slice was accepted on stays valid, whatever happens later; evidence that was stale then stays
      // stale.
      const current =
        slice.settlement.state === "accepted" ? slice.proofs.includes(id) : isCurrentEvidence(state, slice, proof);
      return [{ id, kind, summary, sessionID, commit, lastLines, contrast, stale: !current, at }];
    }),
    review: reviewOf(state, slice),
    settlement: slice.settlement,
  }));

export type Columns = Record<"todo" | "doing" | "reviewing" | "done" | "blocked", string[]>;

/** The slices in each column of the board. */
export const columnsOf = (state: TaskState): Columns => {
  const columns: Columns = { todo: [], doing: [], reviewing: [], done: [], blocked: [] };
  for (const slice of state.slices) columns[columnOf(state, slice)].push(slice.sliceID);
  return columns;
};

const columnOf = (state: TaskState, slice: Slice): keyof Columns => {
  if (!isOpenSlice(slice)) return "done";
  if (state.lifecycle !== "active") return "blocked";
  const judged = state.sessions.some(
    ({ purpose, end, sliceIDs }) => purpose === "review" && end === null && sliceIDs.includes(slice.sliceID),
  );
  if (judged || isAcceptable(state, slice)) return "reviewing";
  const { sessionIDs, state: execution } = executionOf(state, slice);
  if (execution === "waiting") return "todo";
  // The Orchestrator works on one slice at a time, in the order of the plan.
  const own = sessionIDs[0] === rootOf(state);
  const before = state.slices.slice(0, state.slices.indexOf(slice));
  return own && before.some((other) => isOpenSlice(other) && workersOf(state, other)[0] === state.sessions[0])
    ? "todo"
    : "doing";
};
