import { createScanner, parse, type ParseError, printParseErrorCode } from "jsonc-parser";

/**
 * Bounds how deep a value from elsewhere is nested: whatever walks it later (JSON, schemas, redaction, copies) recurses
 * once for each level, and some thousands of levels overflow the stack.
 */

/** The most levels of arguments that models and programs pass. */
export const deepest = 64;

/**
 * Whether a value has at most `levels` levels of nesting; a text or number is no level. Does not recurse, and looks at
 * each part once.
 */
export const isNestedWithin = (value: unknown, levels = deepest): boolean => {
  let level: unknown[] = [value];
  for (let depth = 0; ; depth += 1) {
    const nested = level.filter((part): part is object => typeof part === "object" && part !== null);
    if (nested.length === 0) return true;
    if (depth === levels) return false;
    level = nested.flatMap((part) => Object.values(part) as unknown[]);
  }
};

/**
 * The same for a JSON text, before it is parsed. Also bounds the number of its values, each of which takes time and
 * memory. The contents of strings do not count.
 */
export const isTextNestedWithin = (text: string, levels: number, values = Number.POSITIVE_INFINITY): boolean => {
  let depth = 0;
  let left = values;
  let quoted = false;
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at];
    if (quoted) {
      if (character === "\\") at += 1;
      else if (character === '"') quoted = false;
    } else if (character === '"') quoted = true;
    else if (character === "{" || character === "[") {
      depth += 1;
      left -= 1;
      if (depth > levels || left < 0) return false;
    } else if (character === "}" || character === "]") depth -= 1;
    else if (character === ",") {
      left -= 1;
      if (left < 0) return false;
    }
  }
  return true;
};

/** The value, or a note in its place if it is nested too deep to be walked and kept. */
export const withBoundedNesting = (value: unknown): unknown =>
  isNestedWithin(value) ? value : `[more than ${deepest} levels of nesting are not kept]`;

/**
 * The tokens that open and close a level, and the end of the text (`SyntaxKind` of jsonc-parser does not exist at run
 * time).
 */
const opening = new Set([1, 3]);
const closing = new Set([2, 4]);
const endOfText = 17;

/** Like `isTextNestedWithin`, for a text with comments, which may contain quotes. */
const isJsoncNestedWithin = (text: string, levels: number): boolean => {
  const scanner = createScanner(text, true);
  let depth = 0;
  for (let token: number = scanner.scan(); token !== endOfText; token = scanner.scan()) {
    if (opening.has(token)) depth += 1;
    else if (closing.has(token)) depth -= 1;
    if (depth > levels) return false;
  }
  return true;
};

/**
 * Reads JSON with comments and trailing commas that a project wrote. `problem`: the first thing that is wrong with it;
 * `value` is then what could be read, or undefined if it is nested deeper than `deepest`, which would overflow the
 * parser's stack.
 */
export const parseJsonc = (text: string): { value: unknown; problem: string | undefined } => {
  if (!isJsoncNestedWithin(text, deepest))
    return { value: undefined, problem: `it is nested more than ${deepest} levels deep` };
  const errors: ParseError[] = [];
  const value: unknown = parse(text, errors, { allowTrailingComma: true });
  const [first] = errors;
  return {
    value,
    problem: first === undefined ? undefined : `${printParseErrorCode(first.error)} at offset ${first.offset}`,
  };
};
