import type { Recorded } from "../event.ts";
import { isOpenSlice, type Evidence, type Slice, type TaskState } from "../state/task.ts";
import { specsOf } from "./check.ts";

/** Evidence: what the service itself saw of the work, by slice, and whether it still speaks of what is there. */

/** The newest are kept in the fold; the log and the ledger have all. */
const kept = { change: 3, command: 12, check: 24, artifact: 12 } as const;

/** Seen under the contract as it stands, on the files as they are. */
export const isCurrentEvidence = (state: TaskState, slice: Slice, proof: Evidence): boolean =>
  proof.of[slice.sliceID] === slice.contract.revision &&
  proof.edits === state.edits &&
  (proof.kind !== "check" || proof.tree === null || proof.tree === (state.tree?.tree ?? state.workspace?.baseTree));

/** Seen on the files as they are now. */
export const hasEvidence = (state: TaskState, slice: Slice): boolean =>
  state.evidence.some((proof) => isCurrentEvidence(state, slice, proof));

/** Slices that a session works on; the Orchestrator on all that nobody else was given. */
const slicesOf = (state: TaskState, sessionID: string | null): Slice[] => {
  const session = state.sessions.find((each) => each.sessionID === sessionID);
  const own = session?.sliceIDs ?? [];
  return state.slices.filter((slice) => isOpenSlice(slice) && (own.length === 0 || own.includes(slice.sliceID)));
};

/** The fold with something more that was seen. */
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

/** A file that an agent handed over; what a check or a caller made is told of with them. */
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
