import type { BlobRef, LongText } from "../../protocol/text.ts";
import type { Frame } from "../../protocol/event/frame.ts";

/**
 * The ledger: what the log holds as evidence (calls, checks, reviews, settlements, trees, landings, artifacts, ends),
 * each entry bound to the one before it by its hash. A fold of the events as the archive has them, stored nowhere else.
 *
 * hash = SHA-256 of the UTF-8 text `sortie ledger 1`, newline, `prev`, newline, the entry's canonical JSON without
 * `prev` and `hash`; hexadecimal. `prev` of the first entry is the SHA-256 of `sortie ledger 1`, newline, the id
 * of the Task, or of the Mission's session.
 */

/** Returns the hash of the text's UTF-8 bytes, in hexadecimal. */
export type Sha256 = (text: string) => string;

/** The number of entries so far, and the hash of the last one. */
export type Head = { entries: number; head: string };

export type Entry = { seq: number; eventID: number; at: string } & Evidence & { prev: string; hash: string };

const domain = "sortie ledger 1";

export const startOf = (taskID: string, sha256: Sha256): Head => ({ entries: 0, head: sha256(`${domain}\n${taskID}`) });

export const hashOf = (entry: Entry, sha256: Sha256): string => {
  const { prev, hash: _hash, ...rest } = entry;
  return sha256(`${domain}\n${prev}\n${canonical(rest)}`);
};

/** The next entry; undefined for an event that is no evidence. */
export const entryOf = (frame: Frame, { entries, head }: Head, sha256: Sha256): Entry | undefined => {
  const evidence = evidenceOf(frame, sha256);
  if (evidence === undefined) return undefined;
  const entry = { seq: entries + 1, eventID: frame.id, at: frame.at, ...evidence, prev: head, hash: "" };
  return { ...entry, hash: hashOf(entry, sha256) };
};

export const ledgerOf = (taskID: string, frames: Iterable<Frame>, sha256: Sha256): Head & { ledger: Entry[] } => {
  const ledger: Entry[] = [];
  let { entries, head } = startOf(taskID, sha256);
  for (const frame of frames) {
    const entry = entryOf(frame, { entries, head }, sha256);
    if (entry === undefined) continue;
    ledger.push(entry);
    [entries, head] = [entry.seq, entry.hash];
  }
  return { ledger, entries, head };
};

type Evidence = NonNullable<ReturnType<typeof evidenceOf>>;

/** The fields of an event that can be verified or disputed. */
const evidenceOf = (frame: Frame, sha256: Sha256) => {
  switch (frame.type) {
    case "tool.finished": {
      const { callID, sessionID, tool, outcome, exitCode, output, full, evidence } = frame.data;
      const whole = full?.sha256 ?? textHash(output, sha256);
      const seen = evidence ?? {};
      return { kind: "call", callID, sessionID, tool, outcome, exitCode, output: whole, ...seen } as const;
    }
    case "check.finished": {
      const { checkID, on, round, state, flaky = false, exitCode, commit, tree, log } = frame.data;
      const ran = { checkID, on, round, state, flaky, exitCode, commit, tree, log: log.sha256 };
      return { kind: "check", ...ran } as const;
    }
    case "contrast.finished": {
      const { result, reason, command, commit, tree, baseCommit, log } = frame.data;
      return { kind: "contrast", result, reason, command, commit, tree, baseCommit, log: log.sha256 } as const;
    }
    case "review.finished": {
      const { reviewID, sliceID, revision, verdict, reviewer, sessionID, commit, tree } = frame.data;
      return { kind: "review", reviewID, sliceID, revision, verdict, reviewer, sessionID, commit, tree } as const;
    }
    case "slice.settled": {
      const { sliceID, revision, commit } = frame.data;
      return { kind: "settlement", state: "accepted", sliceID, revision, commit } as const;
    }
    case "slice.dropped": {
      const { sliceID } = frame.data;
      return { kind: "settlement", state: "dropped", sliceID, revision: null, commit: null } as const;
    }
    case "tree.committed": {
      const { commit, tree, parent } = frame.data;
      return { kind: "tree", commit, tree, parent } as const;
    }
    case "workspace.rebased": {
      const { commit, tree, baseCommit } = frame.data;
      return { kind: "tree", commit, tree, parent: baseCommit } as const;
    }
    case "landing.finished": {
      const { commit, tree, ref } = frame.data;
      return { kind: "landing", commit, tree, ref } as const;
    }
    case "artifact.recorded": {
      const { artifactID, filename, bytes, sha256: hash } = frame.data;
      return { kind: "artifact", artifactID, filename, bytes, sha256: hash } as const;
    }
    case "task.settled": {
      const { lifecycleStatus } = frame.data;
      return { kind: "end", lifecycleStatus } as const;
    }
    case "task.dispatched": {
      const { taskID, phase, callID, squad } = frame.data;
      return { kind: "dispatch", taskID, phase, callID, squad: squad.digest } as const;
    }
    case "task.ended": {
      const { taskID, attempt, outcome, landedCommit, verdict } = frame.data;
      const judged = verdict === undefined ? {} : { verdict: verdict.verdict, notes: sha256(verdict.notes) };
      return { kind: "task", taskID, attempt, outcome, landedCommit, ...judged } as const;
    }
    case "mission.verified": {
      const { of, commit, results } = frame.data;
      const seen = results.map(({ checkID, state, log }) => ({ checkID, state, log: log.sha256 }));
      return { kind: "verification", of, commit, results: seen } as const;
    }
    case "mission.finished": {
      const { outcome, verified = null, summary } = frame.data;
      return { kind: "report", outcome, verified, summary: sha256(summary) } as const;
    }
    default:
      return undefined;
  }
};

const textHash = (text: LongText, sha256: Sha256): string =>
  typeof text === "string" ? sha256(text) : text.blob.sha256;

/** The full output of a call or a check; undefined if it is in the event itself. */
export const logOf = ({ type, data }: Frame): BlobRef | undefined => {
  if (type === "check.finished" || type === "contrast.finished") return data.log;
  if (type !== "tool.finished") return undefined;
  return data.full ?? (typeof data.output === "string" ? undefined : data.output.blob);
};

/**
 * The path of an event's log in the archive. It is named by the event's id, which stays the same when other entries are
 * left out.
 */
export const logName = (frame: Pick<Frame, "id">, folder = "execution-flow/"): string =>
  `${folder}logs/${frame.id}.txt`;

/** Canonical JSON (RFC 8785): keys in the order of their UTF-16 code units, no white space. */
export const canonical = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const fields = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return `{${fields.map(([key, field]) => `${JSON.stringify(key)}:${canonical(field)}`).join(",")}}`;
};
