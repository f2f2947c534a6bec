import type { EventType } from "../../protocol/event/event.ts";
import type { Recorded } from "../event.ts";
import { type StreamState, waitsForAnswers } from "../state/stream.ts";

/**
 * Working time of the attempt up to a moment, in milliseconds. Neither the time in which every call waits for an answer
 * counts, nor that of a pause.
 */
export const timeUntil = ({ time }: Pick<StreamState, "time">, at: string): number =>
  time.since === null ? time.ms : time.ms + Math.max(0, Date.parse(at) - Date.parse(time.since));

/** Stops the clock while every open call waits for an answer. */
export const pauseClock = <S extends StreamState>(state: S, at: string): S =>
  waitsForAnswers(state) ? { ...state, time: { ms: timeUntil(state, at), since: null } } : state;

/**
 * Restarts the clock when work continues. This can happen within one run, since an external agent keeps running while
 * it waits.
 */
export const resumeClock = <S extends StreamState>(state: S, at: string): S =>
  state.time.since === null && state.pause === null && !waitsForAnswers(state)
    ? { ...state, time: { ...state.time, since: at } }
    : state;

/** Excludes a pause that began at `since` from the working time. The beginning of the pause may not be on record. */
export const afterPause = <S extends StreamState>(state: S, since: string, at: string): S => {
  const { time } = state;
  if (time.since === null) return resumeClock({ ...state, pause: null }, at);
  const worked = Math.max(0, Date.parse(since) - Date.parse(time.since));
  return { ...state, pause: null, time: { ms: time.ms + worked, since: at } };
};

/** Events that others write, even while no run works. */
const byOthers: ReadonlySet<string> = new Set<EventType>([
  "message.received",
  "task.updated",
  "cancel.requested",
  "ask.answered",
  "session.interrupted",
  "checks.replaced",
  "mission.woken",
  "mission.updated",
  "mission.aborted",
]);

/** Until when a run that died is known to have worked. Events that others wrote since do not count. */
export const workedAt = (before: Pick<StreamState, "workedAt">, { type, at }: Pick<Recorded, "type" | "at">): string =>
  byOthers.has(type) ? before.workedAt : at;
