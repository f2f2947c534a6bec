import type { EventData } from "../../protocol/event/event.ts";
import type { Repetition } from "../state/stream.ts";

/**
 * Detects that an agent repeats itself: the same call with the same result turn after turn, or the same few turns again
 * and again. The state is part of the fold and of constant size, so that it survives restarts and compactions.
 */

/** Repeated sequences of more turns than this are not detected. */
const longest = 4;

/**
 * Hash of a call without its result. A call that polls is hashed with its own id and so equals no other call: an agent
 * that waits repeats the same call for a reason.
 */
export const callHash = (tool: string, input: unknown, callID: string): number =>
  hash(`${tool} ${isPolling(tool, input) ? callID : unnamed(JSON.stringify(input))}`);

/**
 * Whether a call waits for something: it reads a background command, sleeps first, or asks for the state of checks that
 * run elsewhere.
 */
const isPolling = (tool: string, input: unknown): boolean => {
  if (tool === "process") return true;
  const field = (name: string): unknown =>
    typeof input === "object" && input !== null ? (input as Record<string, unknown>)[name] : undefined;
  if (tool === "task_evidence") return field("part") === "checks";
  const command = field("command");
  return tool === "shell" && typeof command === "string" && (sleeping.test(command) || asking.test(command));
};

const sleeping = /\bsleep[ \t]+[\d.$]/;
/** The commands of GitHub and GitLab that show the state of checks. */
const asking =
  /\b(?:gh[ \t]+(?:pr[ \t]+(?:checks|status)|run[ \t]+(?:list|view|watch))|glab[ \t]+(?:ci|pipeline)[ \t]+(?:status|list|view|get))\b/;

type Result = Pick<EventData["tool.finished"], "outcome" | "output">;

const markOf = (call: number, { outcome, output }: Result): number => hash(`${call} ${outcome} ${plain(output)}`);

/** The state after one more result. `last`: the turn has no other open call. */
export const recordTurn = (repetition: Repetition, call: number, result: Result, last: boolean): Repetition => {
  const now = [...repetition.now, markOf(call, result)];
  if (!last) return { ...repetition, now };
  // Sorted, because parallel calls finish in any order.
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

/** A sequence that occurred at least `times` times in a row: its length in turns, and how often it occurred. */
export const findRepetition = (repetition: Repetition, times: number): { turns: number; times: number } | undefined => {
  const calls = Math.max(0, ...Object.values(repetition.calls));
  if (calls >= times) return { turns: 1, times: calls };
  for (let turns = 2; turns <= longest; turns++) {
    const rounds = Math.floor((repetition.same[turns] ?? 0) / turns) + 1;
    if (rounds >= times && rounds > 1) return { turns, times: rounds };
  }
  return undefined;
};

/** The model is told after this many repetitions in a row. */
const tellAt = 3;

const opening = "\n\n[The same ";

const ending = " times in a row. Do something else, or finish.]";

/** The note for the model, appended to a result that completes a repetition; "" if it does not. */
export const repetitionNote = (repetition: Repetition, call: number, result: Result, last: boolean): string => {
  const times = (repetition.calls[markOf(call, result)] ?? 0) + 1;
  if (times >= tellAt) return `${opening}call gave the same result ${times}${ending}`;
  const round = last ? findRepetition(recordTurn(repetition, call, result, last), tellAt) : undefined;
  if (round === undefined || round.turns === 1) return "";
  return `${opening}${round.turns} turns gave the same results ${round.times}${ending}`;
};

/** A truncated result refers to its full text by its call's id, which never recurs. */
const unnamed = (text: string): string => text.replaceAll(/\boutput:call_\w{1,40}/g, "output:");

/**
 * An output without the parts that differ between equal results: our own note, the duration of a command, the call's
 * id, and a Mission's used budget, which every look at it increases.
 */
const plain = (output: Result["output"]): string => {
  if (typeof output !== "string") return output.blob.sha256;
  const noted = output.endsWith(ending) ? output.lastIndexOf(opening) : -1;
  return unnamed(noted < 0 ? output : output.slice(0, noted))
    .replace(/ after \d+\.\d s\b/, "")
    .replace(usedSoFar, "");
};

/** Written by `mission/tool/plan-text.ts`. */
const usedSoFar = /"(?:used|reserved)": \{[^}]*\}/g;

/** A 53-bit hash of a text (cyrb53); more is not needed to stop a model. */
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
