import { type StreamState, waitsForAnswers } from "../state/stream.ts";

/** The clock of an attempt: paused while it waits, resumed with work. */

export const timeUntil = ({ time }: Pick<StreamState, "time">, at: string): number =>
  time.since === null ? time.ms : time.ms + Math.max(0, Date.parse(at) - Date.parse(time.since));

/** The time of the attempt stands still while the Task is left to whoever answers. */
export const pauseClock = <S extends StreamState>(state: S, at: string): S =>
  waitsForAnswers(state) ? { ...state, time: { ms: timeUntil(state, at), since: null } } : state;

/** It goes on once something is done again, also within one run: an external agent stays while it waits. */
export const resumeClock = <S extends StreamState>(state: S, at: string): S =>
  state.time.since === null && !waitsForAnswers(state) ? { ...state, time: { ...state.time, since: at } } : state;
