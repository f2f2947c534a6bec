import type { EventData } from "../../protocol/event/event.ts";
import type { Repetition } from "../state/stream.ts";

/**
 * Whether an agent goes in circles: the same call with the same result turn after turn, or the same few turns again
 * and again. A part of the Task's fold of constant size, so that it survives restarts and summaries.
 */

/** Circles of more turns than this are not looked for. */
const longest = 4;

/** A call, before its result. */
export const callHash = (tool: string, input: unknown): number => hash(`${tool} ${unnamed(JSON.stringify(input))}`);

type Result = Pick<EventData["tool.finished"], "outcome" | "output">;

const markOf = (call: number, { outcome, output }: Result): number => hash(`${call} ${outcome} ${plain(output)}`);

/** The circle with one more result. `last`: no call of this turn is open any more. */
export const recordTurn = (repetition: Repetition, call: number, result: Result, last: boolean): Repetition => {
  const now = [...repetition.now, markOf(call, result)];
  if (!last) return { ...repetition, now };
  // Calls that read end in any order.
  const turn = hash(now.toSorted((a, b) => a - b).join(" "));
  const same = [0];
  for (let back = 1; back <= longest; back++)
    same.push(repetition.turns.at(-back) === turn ? (repetition.same[back] ?? 0) + 1 : 0);
  return {
    now: [],
    calls: Object.fromEntries(now.map((mark) => [mark, (repetition.calls[mark] ?? 0) + 1])),
    turns: [...repetition.turns, turn].slice(-longest),
    same,
  };
};

/** A circle that was gone through at least `times` times: of how many turns, and how often. */
export const findRepetition = (repetition: Repetition, times: number): { turns: number; times: number } | undefined => {
  const calls = Math.max(0, ...Object.values(repetition.calls));
  if (calls >= times) return { turns: 1, times: calls };
  for (let turns = 2; turns <= longest; turns++) {
    const rounds = Math.floor((repetition.same[turns] ?? 0) / turns) + 1;
    if (rounds >= times && rounds > 1) return { turns, times: rounds };
  }
  return undefined;
};

/** Times in a row after which the model is told. */
const tellAt = 3;

const opening = "\n\n[The same ";

const ending = " times in a row. Do something else, or finish.]";

/** What the model is told with a result that closes a circle; "" while there is none. */
export const repetitionNote = (repetition: Repetition, call: number, result: Result, last: boolean): string => {
  const times = (repetition.calls[markOf(call, result)] ?? 0) + 1;
  if (times >= tellAt) return `${opening}call gave the same result ${times}${ending}`;
  const round = last ? findRepetition(recordTurn(repetition, call, result, last), tellAt) : undefined;
  if (round === undefined || round.turns === 1) return "";
  return `${opening}${round.turns} turns gave the same results ${round.times}${ending}`;
};

/** Where a result that was cut is kept is named by its call, which never comes again. */
const unnamed = (text: string): string => text.replaceAll(/\boutput:call_\w{1,40}/g, "output:");

/** Without our own note, without the time that a command took, and whatever the call is called. */
const plain = (output: Result["output"]): string => {
  if (typeof output !== "string") return output.blob.sha256;
  const noted = output.endsWith(ending) ? output.lastIndexOf(opening) : -1;
  return unnamed(noted < 0 ? output : output.slice(0, noted)).replace(/ after \d+\.\d s\b/, "");
};

/** 53 bits of a text (cyrb53); a brake needs no more. */
const hash = (text: string): number => {
  let high = 0xdeadbeef;
  let low = 0x41c6ce57;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    high = Math.imul(high ^ code, 2654435761);
    low = Math.imul(low ^ code, 1597334677);
  }
  high = Math.imul(high ^ (high >>> 16), 2246822507) ^ Math.imul(low ^ (low >>> 13), 3266489909);
  low = Math.imul(low ^ (low >>> 16), 2246822507) ^ Math.imul(high ^ (high >>> 13), 3266489909);
  return 4294967296 * (2097151 & low) + (high >>> 0);
};
