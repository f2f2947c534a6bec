import type { Recorded } from "../event.ts";
import {
  type Evidence,
  isOfPresentFiles,
  isOpenSlice,
  presentTree,
  type Slice,
  type TaskState,
} from "../state/task.ts";
import { contrastWords } from "../contrast/wording.ts";
import { specsOf } from "./check.ts";
import { cutWords, tellingLines } from "./output.ts";

/**
 * Evidence: what the service itself observed about the work, by slice, and whether it still applies to the present
 * files.
 */

/** How many pieces of each kind the fold keeps, newest first; the log and the ledger have all of them. */
const kept = { change: 3, command: 12, check: 24, artifact: 12, contrast: 1 } as const;

/** How many pieces of evidence for accepted slices the fold keeps in total. */
const mostAccepted = 200;

/** Whether evidence was observed under the present contract and on the present files. */
export const isCurrentEvidence = (state: TaskState, slice: Slice, proof: Evidence): boolean =>
  proof.of[slice.sliceID] === slice.contract.revision && isOfPresentFiles(state, proof);

/** Whether any evidence applies to the present files. */
export const hasEvidence = (state: TaskState, slice: Slice): boolean =>
  state.evidence.some((proof) => isCurrentEvidence(state, slice, proof));

/** The open slices that a session works on: those given to it, otherwise all. */
const slicesOf = (state: TaskState, sessionID: string | null): Slice[] => {
  const session = state.sessions.find((each) => each.sessionID === sessionID);
  const own = session?.sliceIDs ?? [];
  return state.slices.filter((slice) => isOpenSlice(slice) && (own.length === 0 || own.includes(slice.sliceID)));
};

type Observed = Omit<Evidence, "edits" | "writes" | "of" | "contrast"> & Partial<Pick<Evidence, "contrast">>;

/** Adds evidence, for one slice, or for all open slices that its session works on. */
export const addEvidence = (state: TaskState, seen: Observed, sliceID?: string): Pick<TaskState, "evidence"> => {
  const of = Object.fromEntries(
    slicesOf(state, seen.sessionID)
      .filter((slice) => sliceID === undefined || slice.sliceID === sliceID)
      .map((slice) => [slice.sliceID, slice.contract.revision]),
  );
  if (Object.keys(of).length === 0) return { evidence: state.evidence };
  const session = state.sessions.find((each) => each.sessionID === seen.sessionID);
  // An observation in the files of a fork is not one of the Task's own files; it counts only if the trees are the same.
  const when = session?.fork == null ? { edits: state.edits, writes: state.writes } : { edits: -1, writes: -1 };
  const isKept = (proof: Evidence): boolean => acceptedOn(state, proof).length > 0;
  const earlier = state.evidence.flatMap((proof) => (proof.id === seen.id ? ofAccepted(state, proof) : [proof]));
  const proofs = [...earlier, { contrast: null, ...seen, ...when, of }];
  const same = proofs.filter((proof) => proof.kind === seen.kind && !isKept(proof));
  const old = proofs.filter(isKept);
  const gone = new Set([...same.slice(0, -kept[seen.kind]), ...old.slice(0, -mostAccepted)]);
  return { evidence: proofs.filter((proof) => !gone.has(proof)) };
};

/** The accepted slices that rest on this evidence. */
const acceptedOn = ({ slices }: TaskState, { id, of }: Evidence): string[] =>
  slices.flatMap(({ sliceID, settlement, proofs }) =>
    settlement.state === "accepted" && of[sliceID] !== undefined && proofs.includes(id) ? [sliceID] : [],
  );

/** A check's result that an accepted slice rests on stays with that slice when the check runs again for another one. */
const ofAccepted = (state: TaskState, proof: Evidence): Evidence[] => {
  const accepted = acceptedOn(state, proof);
  const of = Object.fromEntries(Object.entries(proof.of).filter(([sliceID]) => accepted.includes(sliceID)));
  return accepted.length === 0 ? [] : [{ ...proof, of }];
};

/**
 * The fold after a commit: observations since the last call that may have changed files were made on the committed
 * tree.
 */
export const bindEvidenceToTree = (
  { evidence, edits, writes }: TaskState,
  tree: string,
): Pick<TaskState, "evidence"> => ({
  evidence: evidence.map((proof) =>
    proof.tree === null && proof.edits === edits && proof.writes === writes ? { ...proof, tree } : proof,
  ),
});

/**
 * The fold after a call that left the files on `tree`: if the tree is the same as before, earlier observations still
 * apply, whatever the call was.
 */
export const keepEvidenceOnSameTree = (
  before: TaskState,
  after: TaskState,
  tree: string,
): Pick<TaskState, "evidence"> => ({
  evidence:
    presentTree(before) === tree
      ? after.evidence.map((proof) => (isOfPresentFiles(before, proof) ? { ...proof, tree } : proof))
      : after.evidence,
});

export const commandEvidence = (state: TaskState, event: Recorded & { type: "tool.finished" }) => {
  const { callID, sessionID, exitCode, evidence } = event.data;
  if (evidence === undefined) return {};
  const { command, tree, lastLines, sliceID, proves, last } = evidence;
  const summary = `\`${command}\` exit ${exitCode}${last === true ? " of its last command" : ""}${proves === true ? ", run to prove it" : ""}`;
  return addEvidence(
    state,
    { id: callID, kind: "command", summary, sessionID, commit: null, tree, lastLines, at: event.at },
    sliceID,
  );
};

/** Only an artifact that an agent handed over is evidence; one made by a check or a caller is not. */
export const artifactEvidence = (state: TaskState, { data, at }: Recorded & { type: "artifact.recorded" }) => {
  const { artifactID: id, title, filename, bytes, by } = data;
  if (by.kind !== "call") return {};
  const summary = `${title} (${filename}, ${bytes} bytes)`;
  const file = { commit: null, tree: null, lastLines: null };
  return addEvidence(state, { id, kind: "artifact", summary, sessionID: by.sessionID, ...file, at });
};

export const checkEvidence = (state: TaskState, event: Recorded & { type: "check.finished" }) => {
  const { checkID, state: result, reason, commit, tree, tail } = event.data;
  const name = specsOf(state).find(({ id }) => id === checkID)?.name ?? checkID;
  const summary = `${name} ${result}${reason === null ? "" : `: ${cutWords(reason, 200)}`}`;
  const lastLines = tellingLines(tail, { red: result !== "passed" });
  return addEvidence(state, {
    id: checkID,
    kind: "check",
    summary,
    sessionID: null,
    commit,
    tree,
    lastLines,
    at: event.at,
  });
};

export const contrastEvidence = (state: TaskState, { data, at }: Recorded & { type: "contrast.finished" }) => {
  const { result, command, firstLines, reason, commit, tree } = data;
  const seen = { id: "contrast", kind: "contrast" as const, sessionID: null, commit, tree, lastLines: null, at };
  const contrast = { result, command, firstLines, reason };
  return addEvidence(state, { ...seen, summary: contrastWords(data), contrast });
};
