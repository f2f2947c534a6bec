import type { Recorded } from "../event.ts";
import { isOpenSlice, type Evidence, type Slice, type TaskState } from "../state/task.ts";
import { specsOf } from "./check.ts";

/**
 * Evidence: what the service itself observed of the work, by slice, and whether it still applies to the present files.
 */

/** How many of each kind the fold keeps, newest first; the log and the ledger have all of them. */
const kept = { change: 3, command: 12, check: 24, artifact: 12 } as const;

/** Observed under the present contract, on the present files. */
export const isCurrentEvidence = (state: TaskState, slice: Slice, proof: Evidence): boolean =>
  proof.of[slice.sliceID] === slice.contract.revision &&
  proof.edits === state.edits &&
  (proof.kind !== "check" || proof.tree === null || proof.tree === (state.tree?.tree ?? state.workspace?.baseTree));

/** Whether any evidence applies to the present files. */
export const hasEvidence = (state: TaskState, slice: Slice): boolean =>
  state.evidence.some((proof) => isCurrentEvidence(state, slice, proof));

/** The open slices that a session works on: those it was given, otherwise all. */
const slicesOf = (state: TaskState, sessionID: string | null): Slice[] => {
  const session = state.sessions.find((each) => each.sessionID === sessionID);
  const own = session?.sliceIDs ?? [];
  return state.slices.filter((slice) => isOpenSlice(slice) && (own.length === 0 || own.includes(slice.sliceID)));
};

/** Adds evidence, for all open slices that its session works on. */
export const addEvidence = (
  state: TaskState,
  seen: Omit<Evidence, "edits" | "of"> & { edits?: number },
): Pick<TaskState, "evidence"> => {
  const of = Object.fromEntries(
    slicesOf(state, seen.sessionID).map(({ sliceID, contract }) => [sliceID, contract.revision]),
  );
  if (Object.keys(of).length === 0) return { evidence: state.evidence };
  const proofs = [...state.evidence.filter(({ id }) => id !== seen.id), { edits: state.edits, ...seen, of }];
  const same = proofs.filter(({ kind }) => kind === seen.kind);
  const gone = same.slice(0, Math.max(0, same.length - kept[seen.kind]));
  return { evidence: proofs.filter((proof) => !gone.includes(proof)) };
};

export const commandEvidence = (state: TaskState, event: Recorded & { type: "tool.finished" }, label: string) => {
  const { callID, sessionID, exitCode } = event.data;
  if (exitCode === null) return {};
  const summary = `\`${label}\` exit ${exitCode}`;
  return addEvidence(state, {
    id: callID,
    kind: "command",
    summary,
    sessionID,
    commit: null,
    tree: null,
    at: event.at,
  });
};

/** Only an artifact that an agent handed over is evidence; one made by a check or a caller is not. */
export const artifactEvidence = (state: TaskState, { data, at }: Recorded & { type: "artifact.recorded" }) => {
  const { artifactID: id, title, filename, bytes, by } = data;
  if (by.kind !== "call") return {};
  const summary = `${title} (${filename}, ${bytes} bytes)`;
  return addEvidence(state, { id, kind: "artifact", summary, sessionID: by.sessionID, commit: null, tree: null, at });
};

export const checkEvidence = (state: TaskState, event: Recorded & { type: "check.finished" }) => {
  const { checkID, state: result, reason, commit, tree } = event.data;
  const name = specsOf(state).find(({ id }) => id === checkID)?.name ?? checkID;
  const summary = `${name} ${result}${reason === null ? "" : `: ${reason.slice(0, 100)}`}`;
  return addEvidence(state, { id: checkID, kind: "check", summary, sessionID: null, commit, tree, at: event.at });
};
