import { messageOf } from "../../error.ts";

/** Parses the arguments of a call as the model wrote them. Errors are worded for that model. */

/**
 * Most characters of a call's arguments. No model writes that much in one reply (128,000 tokens are half of it), and
 * every character is parsed, kept, and sent again with every later turn.
 */
const mostInput = 1024 * 1024;

/**
 * Most values in the arguments, twice as many as a request body may have keys: a mebibyte of `1,` is half a million
 * values, each of which is built.
 */
const mostValues = 20_000;

export const parsed = (tool: string, input: string, cut: boolean): { input: unknown; invalid?: string } => {
  if (input.trim() === "") return { input: {} };
  const expected = `Expected the arguments of ${tool} as one JSON object`;
  const smaller = "Do the work in smaller calls.";
  if (input.length > mostInput)
    return { input: {}, invalid: `${expected} of at most ${mostInput} characters, got ${input.length}. ${smaller}` };
  if (!holdsAtMost(input, mostValues))
    return { input: {}, invalid: `${expected} of at most ${mostValues} values, got more. ${smaller}` };
  try {
    const value: unknown = JSON.parse(input);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return { input: value };
    return { input: value, invalid: `${expected}, got ${input.slice(0, 200)}. Call it again with an object.` };
  } catch (error) {
    const why = cut
      ? `got text that was cut at the output limit. ${smaller}`
      : `got text that is not JSON (${messageOf(error)}): ${input.slice(0, 200)}. Call it again with valid JSON.`;
    return { input, invalid: `${expected}, ${why}` };
  }
};

const [quote, backslash, comma, object, array] = [0x22, 0x5c, 0x2c, 0x7b, 0x5b];

/**
 * Counts the beginnings of values in JSON before anything is built from it; text that is not JSON is counted the same
 * way.
 */
const holdsAtMost = (text: string, most: number): boolean => {
  // Each value takes at least one character.
  if (text.length <= most) return true;
  let count = 0;
  let quoted = false;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (quoted) {
      if (code === backslash) at += 1;
      else if (code === quote) quoted = false;
    } else if (code === quote) quoted = true;
    else if (code === comma || code === object || code === array) {
      count += 1;
      if (count > most) return false;
    }
  }
  return true;
};
