import type { SavedRequest } from "./saved-request.ts";

/** How a saved request is called, and arguments are put into it. The page loads this, so it imports no code. */

/** `/name` with arguments; undefined: the text is a request of its own. A slash alone is a call, of no name. */
export const callOf = (text: string): { name: string; given: string } | undefined => {
  const found = /^\/([A-Za-z0-9][\w.:-]{0,127})?(?:\s+([\s\S]*))?$/.exec(text.trim());
  return found === null ? undefined : { name: found[1] ?? "", given: (found[2] ?? "").trim() };
};

/**
 * The request's text: `$ARGUMENTS` stands for all that was given, `$1` to `$9` for its words, where quotes hold words
 * together. What a text has no place for stands below it.
 */
export const withArguments = (text: string, given: string): string =>
  withArgumentsWithin(text, given, Number.POSITIVE_INFINITY) ?? "";

/** undefined: it would have more characters than that. Each place takes all that was given, however long that is. */
export const withArgumentsWithin = (text: string, given: string, most: number): string | undefined => {
  if (given.length > most) return undefined;
  const words = [...given.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(
    ([, double, single, plain]) => double ?? single ?? plain ?? "",
  );
  let placed = false;
  // Later places may be shorter than what stands for them in the text, so that it is not over at once.
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
 * The request behind `/name …` among those of a project; a text that calls none stays. `unknown`: there is none of that
 * name.
 */
export const expand = (text: string, saved: readonly SavedRequest[]): { request: string } | { unknown: string } => {
  const call = callOf(text);
  if (call === undefined) return { request: text };
  const found = saved.find(({ name }) => name === call.name);
  return found === undefined ? { unknown: call.name } : { request: withArguments(found.text, call.given) };
};
