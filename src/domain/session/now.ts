import type { Now } from "../../protocol/field.ts";
import { toPerson } from "./ask.ts";
import { delegatedBy, openAsks, type StreamState, waitsForAnswers } from "../state/stream.ts";

/** What the agents of a Task or a Mission do or wait for, in one sentence. */

export type Doing = Pick<Now, "kind" | "text">;

const longest = 160;

/** The beginning of a text, on one line. */
export const short = (text: string): string => {
  const line = text
    .slice(0, 2 * longest)
    .replaceAll(/\s+/g, " ")
    .trim();
  return line.length > longest ? `${line.slice(0, longest - 1)}…` : line;
};

/** A time of day in UTC, because the reader may be in another time zone. */
const clock = (at: string): string => `${new Date(at).toISOString().slice(11, 19)} UTC`;

const wanted = { permission: "permission", question: "answer", approval: "approval" } as const;

/** What the stream waits for outside of any step: an answer, a quota, space. */
export const waitOf = (state: StreamState): Doing | undefined => {
  const asks = openAsks(state);
  const ask = toPerson(asks)[0] ?? asks[0];
  if (ask !== undefined && waitsForAnswers(state))
    return {
      kind: "ask",
      text: short(
        ask.passesAt === undefined
          ? `Waiting for your ${wanted[ask.kind]}: ${ask.prompt}`
          : `Waiting for the Mission's answer: ${ask.prompt}`,
      ),
    };
  if (state.deferred !== null)
    return { kind: "quota", text: short(`Waiting until ${clock(state.deferred.until)}: ${state.deferred.reason}`) };
  return state.pause === null
    ? undefined
    : {
        kind: state.pause.code === "disk_low" ? "space" : "repository",
        text: short(waiting(state.pause.reason)),
      };
};

/** Turns a reason of the form "waits for …" into a sentence. */
export const waiting = (reason: string): string =>
  reason.startsWith("waits") ? `Waiting${reason.slice("waits".length)}` : `Waiting: ${reason}`;

/** What an agent does: its newest call, or the model or reviewer that it waits for. */
export const talkOf = (state: StreamState): Doing => {
  const { retry } = state;
  const model = state.sessions.find(({ sessionID }) => sessionID === retry?.sessionID)?.model ?? state.model;
  if (retry !== null) {
    const why = retry.code === "provider_unavailable" ? "is failing" : "asks to wait";
    return { kind: "provider", text: `Provider ${providerOf(model)} ${why}, next try at ${clock(retry.retryAt)}` };
  }
  const call = state.open.findLast(({ callID }) => delegatedBy(state, callID) === undefined);
  if (call !== undefined)
    return {
      kind: "tool",
      text: short(call.label === undefined ? `Using \`${call.tool}\`` : `Running \`${call.label}\``),
    };
  const session = state.sessions.findLast(({ end, parentSessionID }) => end === null && parentSessionID !== null);
  if (session === undefined) return { kind: "model", text: `Waiting for ${state.model}` };
  const { agent, model: asked, purpose } = session;
  return purpose === "review"
    ? { kind: "review", text: `Waiting for the review by ${asked}` }
    : { kind: "model", text: `Waiting for ${asked} (${agent})` };
};

const providerOf = (model: string): string => model.slice(0, model.indexOf("/"));

/**
 * Adds the time since when this is so. The next try of a failing provider changes; the time since when it fails does
 * not.
 */
export const since = (before: Now | null, doing: Doing | undefined, at: string): Now | null => {
  if (doing === undefined) return null;
  if (before?.kind !== doing.kind) return { ...doing, since: at };
  if (before.text === doing.text) return before;
  return { ...doing, since: doing.kind === "provider" ? before.since : at };
};
