import { askIDOf } from "../../domain/session/ask.ts";
import type { DomainEvent } from "../../domain/event.ts";
import type { EventData } from "../../protocol/event/event.ts";
import { type AskOutcome, WaitsForAnswer } from "../../tool/tool.ts";
import type { SessionContext } from "../session.ts";

/**
 * Asks the user on behalf of a call. A call that runs again after it was answered finds the answer in the fold, so
 * nothing is asked twice.
 */

type Question = Pick<EventData["ask.opened"], "prompt" | "options" | "default"> & { kind: "permission" | "question" };

/**
 * The newest ask of each session. Asks are opened one after another, so that concurrent calls cannot exceed the limit.
 */
const last = new WeakMap<SessionContext, Promise<unknown>>();

/**
 * Resolves to the answer, or to a refusal when the Task's limit of asks is reached. Rejects with `WaitsForAnswer` while
 * the ask is open; `facts` are committed together with its opening.
 */
export const ask = (
  turn: SessionContext,
  callID: string,
  question: Question,
  facts: readonly DomainEvent[] = [],
): Promise<AskOutcome> => {
  const before = last.get(turn) ?? Promise.resolve();
  const asked = before.catch(() => {}).then(() => askNow(turn, callID, question, facts));
  last.set(turn, asked);
  return asked;
};

/** How long a Mission may take to answer, before a person is asked. */
const missionSeconds = 600;

const passesAt = (now: Date, seconds: number): string =>
  new Date(now.getTime() + Math.min(missionSeconds, seconds === 0 ? missionSeconds : seconds) * 1000).toISOString();

const askNow = async (
  turn: SessionContext,
  callID: string,
  question: Question,
  facts: readonly DomainEvent[],
): Promise<AskOutcome> => {
  const { asks, asked } = turn.state();
  const known = asks.find((open) => open.callID === callID);
  if (known?.answer != null) return known.answer;
  if (known !== undefined) throw new WaitsForAnswer();
  const { limits } = turn;
  const limit = question.kind === "question" ? limits.asks : limits.permissionAsks;
  if (asked[question.kind] >= limit)
    return {
      refused:
        question.kind === "question"
          ? `A Task may ask ${limit} times, and this one has. Decide yourself, and say in your last message what you decided.`
          : `This needs permission, and a Task may ask for ${limit} of them; this one has. Find a way without it, or say in your last message what is left.`,
    };
  const seconds = question.kind === "question" ? limits.askSeconds : limits.permissionSeconds;
  const expiresAt = seconds === 0 ? null : new Date(turn.now().getTime() + seconds * 1000).toISOString();
  const first = question.kind === "question" && (await turn.asksFirst()) === "mission";
  const data = {
    askID: askIDOf(callID),
    sessionID: turn.sessionID,
    callID,
    ...question,
    // A person's time to answer begins only when a person is asked.
    ...(first ? { expiresAt: null, passesAt: passesAt(turn.now(), seconds) } : { expiresAt }),
  };
  await turn.record([...facts, { type: "ask.opened", data }]);
  throw new WaitsForAnswer();
};
