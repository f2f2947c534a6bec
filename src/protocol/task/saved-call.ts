import type { SavedRequest } from "./saved-request.ts";

/** Parses the call of a saved request and inserts its arguments. The page loads this file, so it imports no code. */

/**
 * Parses `/name` with arguments; undefined: the text is a request itself. A slash alone is a call with an empty name.
 */
export const callOf = (text: string): { name: string; given: string } | undefined => {
  const found = /^\/([A-Za-z0-9][\w.:-]{0,127})?(?:\s+([\s\S]*))?$/.exec(text.trim());
  return found === null ? undefined : { name: found[1] ?? "", given: (found[2] ?? "").trim() };
};

/**
 * The request's text with its arguments: `$ARGUMENTS` stands for all of them, `$1` to `$9` for single words, which
 * quotes can hold together. Arguments for which the text has no placeholder are appended below it.
 */
export const withArguments = (text: string, given: string): string =>
  withArgumentsWithin(text, given, Number.POSITIVE_INFINITY) ?? "";

/**
 * Like `withArguments`; undefined if the result would exceed `most` characters. Each placeholder takes all arguments,
 * however long they are.
 */
export const withArgumentsWithin = (text: string, given: string, most: number): string | undefined => {
  if (given.length > most) return undefined;
  const words = [...given.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(
    ([, double, single, plain]) => double ?? single ?? plain ?? "",
  );
  let placed = false;
  // A later argument may be shorter than its placeholder, so a small excess does not decide yet.
  let more = 0;
  let over = false;
  const filled = text.replaceAll(/\$(ARGUMENTS\b|[1-9](?!\d))/g, (place, which: string) => {
    placed = true;
    const put = which === "ARGUMENTS" ? given : (words[Number(which) - 1] ?? "");
    more += put.length - place.length;
    over ||= more > 2 * most;
    return over ? "" : put;
  });
  const whole = placed || given === "" ? filled : `${filled}\n\n${given}`;
  return over || whole.length > most ? undefined : whole;
};

/**
 * The request that `/name …` calls; a text that is no call is returned unchanged. `unknown`: the project has no saved
 * request of that name.
 */
export const expand = (text: string, saved: readonly SavedRequest[]): { request: string } | { unknown: string } => {
  const call = callOf(text);
  if (call === undefined) return { request: text };
  const found = saved.find(({ name }) => name === call.name);
  return found === undefined ? { unknown: call.name } : { request: withArguments(found.text, call.given) };
};
