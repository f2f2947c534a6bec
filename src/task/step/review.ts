import { findingsText } from "../../domain/evidence/findings.ts";
import { lastWordOf } from "../../domain/conversation/message.ts";
import type { DomainEvent } from "../../domain/event.ts";
import { isAcceptable, unacceptedSlices } from "../../domain/evidence/slice.ts";
import { findSession } from "../../domain/session/session.ts";
import type { CheckRun, Slice, TaskState } from "../../domain/state/task.ts";
import { isRead, rootOf, type Session } from "../../domain/state/stream.ts";
import { newID } from "../../id.ts";
import type { ReviewCheck } from "../../protocol/check.ts";
import type { EventData } from "../../protocol/event/event.ts";
import { keepText, loadText } from "../../store/blob/text.ts";
import { subjectOf } from "../../domain/evidence/check.ts";
import type { SessionRunner } from "../session/runner.ts";
import { isReviewer } from "../../domain/agent.ts";
import type { Run } from "../run.ts";
import { reviewBrief } from "./review-brief.ts";
import { messageFromService } from "./message.ts";

/**
 * The review before a landing: an agent that did not write the work judges it from contract, diff, evidence and the
 * committed tree. Accepted slices are settled by the service; anything else goes back to the agents.
 */
export const review = async (run: Run, runner: SessionRunner, asked: Asked): Promise<void> => {
  const begun = run.state().sessions.find(({ purpose, end }) => purpose === "review" && end === null);
  // The files have changed since the review began, so it is about something that no longer exists.
  if (begun !== undefined && begun.edits !== run.state().edits) {
    await run.record([ended(begun.sessionID, "stopped", "The files changed meanwhile.")]);
    return;
  }
  const sessionID = begun?.sessionID ?? (await begin(run, runner, asked));
  const chat = await runner.runSession(sessionID);
  const state = run.state();
  if (state.deferred !== null || state.open.length > 0) return;
  run.chats.close(sessionID);
  const session = findSession(state, sessionID);
  const silent = state.slices.filter(
    (slice) => session.sliceIDs.includes(slice.sliceID) && slice.review?.sessionID !== sessionID,
  );
  const unsaid = session.checkIDs.filter((id) => session.judged[id] === undefined);
  // A message or a cancel cut the review short, which says nothing about the work.
  if (silent.length + unsaid.length > 0 && (state.lifecycle !== "active" || state.cancel !== null || !isRead(state))) {
    await run.record([ended(sessionID, "stopped", "Something else came first.")]);
    return;
  }
  // The Task's limit cut the review short: no verdict on the work, and no round. The next step ends the Task with it.
  if (silent.length + unsaid.length > 0 && runner.stopReason() !== undefined) {
    await run.record([ended(sessionID, "stopped", "A limit of the Task was reached.")]);
    return;
  }
  const failure = session.reply?.failure;
  const why =
    failure?.message ?? ((await loadText(run.store.blobs, lastWordOf(chat))).trim() || "it ended without a message");
  const unclear = silent.map(
    ({ sliceID, contract: { revision } }): DomainEvent => ({
      type: "review.finished",
      data: {
        reviewID: sessionID,
        sliceID,
        revision,
        sessionID,
        reviewer: session.agent,
        verdict: "inconclusive",
        notes: `${noVerdict}: ${why.slice(0, 1000)}`,
        commit: state.tree?.commit ?? null,
        tree: state.tree?.tree ?? null,
      },
    }),
  );
  const results = await Promise.all(
    session.checkIDs.map((id) =>
      resultOf(run, session, id, session.judged[id] ?? { verdict: "inconclusive", notes: `${noVerdict}: ${why}` }),
    ),
  );
  await run.record([
    ...unclear,
    ...results,
    ended(sessionID, failure == null ? "finished" : "failed", failure?.message.slice(0, 2000) ?? null),
    // If a criterion was not met, all of it is judged again.
    ...(results.every((result) => holds(run.state(), result)) ? settledNow(run) : []),
  ]);
};

/** Whether the result has passed, or comes from a check that decides nothing. */
const holds = ({ checks }: TaskState, result: DomainEvent): boolean =>
  result.type !== "check.finished" ||
  result.data.state === "passed" ||
  checks.find(({ id }) => id === result.data.checkID)?.required !== true;

type Asked = { slices: readonly string[]; checks: readonly ReviewCheck[] };

const noVerdict = "The reviewer gave no verdict";

/**
 * The result of a check of the kind `review` on the current files. A check that the reviewer could not decide has not
 * passed.
 */
const resultOf = async (
  run: Run,
  { startedAt }: Session,
  checkID: string,
  { verdict, notes }: Session["judged"][string],
): Promise<DomainEvent> => {
  const state = run.state();
  const [told, reason] = {
    accepted: ["passed", null] as const,
    rejected: ["failed", notes] as const,
    inconclusive: ["error", `the reviewer could not tell: ${notes}`] as const,
  }[verdict];
  return {
    type: "check.finished",
    data: {
      checkID,
      on: "work",
      round: state.round,
      ...subjectOf(state, "work"),
      state: told,
      exitCode: null,
      durationMs: Math.max(0, run.now().getTime() - Date.parse(startedAt)),
      log: await run.store.blobs.put(Buffer.from(`${verdict}: ${notes}\n`)),
      tail: notes,
      reason: reason?.slice(0, 2000) ?? null,
    },
  };
};

type Ended = EventData["session.ended"];

const ended = (sessionID: string, outcome: Ended["outcome"], reason: string | null): DomainEvent => ({
  type: "session.ended",
  data: { sessionID, outcome, reason },
});

/** Settles accepted slices on the current commit. Resolves to false when other events came in between. */
export const accept = (run: Run): Promise<boolean> => run.record(settledNow(run), { decidedAt: run.state().version });

const settledNow = (run: Run): DomainEvent[] => {
  const state = run.state();
  if (unacceptedSlices(state).length > 0) return [];
  return state.slices
    .filter((slice) => isAcceptable(state, slice))
    .map(({ sliceID, contract: { revision } }) => ({
      type: "slice.settled",
      data: { sliceID, revision, commit: state.tree?.commit ?? null },
    }));
};

/** Reports what the review found to the Orchestrator. */
export const revise = async (run: Run, slices: readonly Slice[], checks: readonly CheckRun[]): Promise<void> => {
  const state = run.state();
  const criteria = checks.map(({ checkID, reason }) => {
    const about = state.checks.find(({ id }) => id === checkID);
    return `- the check "${about?.name ?? checkID}": ${reason ?? "not passed"}`;
  });
  const parts = slices.map(({ sliceID, contract, review: found }) => {
    const said = found === null ? "not judged" : saidOf[found.verdict];
    return `- ${sliceID} "${contract.title}": ${said}. ${found?.notes ?? ""}`;
  });
  const text = findingsText([...parts, ...criteria], `(round ${state.round + 1} of ${run.limits.checkRounds})`);
  await run.record([await messageFromService(run, "review", text)], { decidedAt: state.version });
};

const saidOf = {
  accepted:
    "accepted, but nothing of it was seen on the files as they are now: run the project's tests, or what shows it with `proves`",
  rejected: "rejected",
  inconclusive: "could not be told; this is missing",
};

const begin = async (run: Run, runner: SessionRunner, { slices: sliceIDs, checks }: Asked): Promise<string> => {
  const reviewer = runner.squad.agents.find(isReviewer);
  if (reviewer === undefined) throw new Error(`Expected a reviewer in squad ${runner.squad.id}, got none.`);
  const sessionID = newID("ses");
  const model = reviewer.model ?? run.state().reviewModel ?? run.state().model;
  const data = {
    sessionID,
    parentSessionID: rootOf(run.state()),
    agent: reviewer.name,
    model,
    purpose: "review" as const,
    callID: null,
    sliceIDs: [...sliceIDs],
    ...(checks.length === 0 ? {} : { checkIDs: checks.map(({ id }) => id) }),
    brief: await keepText(run.store.blobs, await reviewBrief(run, sliceIDs, checks, model)),
  };
  await run.record([{ type: "session.started", data }]);
  return sessionID;
};
