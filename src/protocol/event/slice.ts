import { z } from "zod";
import { attachmentRef, longText } from "../text.ts";

/** Events about how a squad divides a Task: delivery slices, the sessions that work on them, and their reviews. */

const contract = z.object({
  revision: z.number().int(),
  title: z.string(),
  objective: z.string(),
  acceptance: z.array(z.string()),
});

const weight = z.enum(["blocking", "advisory"]);

const by = { sessionID: z.string(), callID: z.string() };

export const sliceEvents = {
  /** A part of the Task with its own contract. The first one exists from the beginning: the whole request. */
  "slice.defined": z.object({
    sliceID: z.string(),
    weight,
    contract,
    ...by,
  }),
  /** The contract changed: evidence and reviews under the previous one no longer count. */
  "slice.revised": z.object({ sliceID: z.string(), weight, contract, ...by }),
  "slice.ordered": z.object({ sliceIDs: z.array(z.string()), ...by }),
  "slice.dropped": z.object({ sliceID: z.string(), reason: z.string(), ...by }),
  /** The Orchestrator says that the Task cannot be done: the Task fails at once. */
  "task.abandoned": z.object({ ...by, why: z.string(), tried: z.string() }),
  /** The agent gave an output that matches the request's `outputSchema`; the newest one counts. */
  "output.given": z.object({ ...by, output: longText.describe("JSON") }),
  /**
   * The given output does not match, or none was given (`callID` null). The agent is asked again, three times in an
   * attempt.
   */
  "output.refused": z.object({ sessionID: z.string(), callID: z.string().nullable(), reason: z.string() }),
  /** The service accepts the slice: it is reviewed, has evidence, and its checks passed. */
  "slice.settled": z.object({
    sliceID: z.string(),
    revision: z.number().int(),
    commit: z.string().nullable(),
  }),
  /**
   * A session of another agent, started by a delegating call, or by the service for a review. It knows only its brief.
   */
  "session.started": z.object({
    sessionID: z.string(),
    parentSessionID: z.string(),
    agent: z.string(),
    model: z.string(),
    purpose: z.enum(["work", "review"]),
    callID: z.string().nullable().describe("The call that delegated to it"),
    sliceIDs: z.array(z.string()),
    checkIDs: z.array(z.string()).exactOptional().describe("Checks of the kind review that it judges"),
    brief: longText,
    fork: z
      .object({ name: z.string(), commit: z.string(), tree: z.string() })
      .exactOptional()
      .describe("It works in its own copy of the files, made from this commit of the Task"),
    from: z
      .string()
      .exactOptional()
      .describe("The commit of the Task on which it started, if it has the Task's files to itself"),
  }),
  /** A message to the Task also reaches a session that work was delegated to. */
  "message.passed": z.object({
    messageID: z.string(),
    sessionID: z.string(),
    source: z.string(),
    text: longText,
    attachments: z.array(attachmentRef),
  }),
  /** A caller stops this session and those it delegated to; the rest of the Task continues. */
  "session.interrupted": z.object({ sessionID: z.string(), surface: z.string(), reason: z.string() }),
  "session.ended": z.object({
    sessionID: z.string(),
    outcome: z.enum(["finished", "failed", "stopped"]),
    reason: z.string().nullable(),
    joined: z
      .object({
        files: z.number().int(),
        conflicts: z.array(z.string()).describe("Changed on both sides: nothing was merged, and its branch is kept"),
        branch: z.string().nullable(),
        commit: z.string().exactOptional().describe("The branch's commit"),
      })
      .exactOptional()
      .describe("What happened to its own copy of the files"),
    changed: z
      .object({
        files: z.array(z.object({ path: z.string(), added: z.number().int(), removed: z.number().int() })),
        more: z.number().int().describe("The number of files that are not listed"),
      })
      .exactOptional()
      .describe("The files it changed, by whatever means, if known"),
  }),
  /** A reviewer's verdict on a check's criteria; `check.finished` follows. */
  "check.judged": z.object({
    checkID: z.string(),
    sessionID: z.string(),
    verdict: z.enum(["accepted", "rejected", "inconclusive"]),
    notes: z.string(),
  }),
  /** The verdict on a slice by a session that did not work on it. */
  "review.finished": z.object({
    reviewID: z.string(),
    sliceID: z.string(),
    revision: z.number().int(),
    sessionID: z.string(),
    reviewer: z.string(),
    verdict: z.enum(["accepted", "rejected", "inconclusive"]),
    notes: z.string(),
    commit: z.string().nullable(),
    tree: z.string().nullable(),
  }),
} as const;
