/**
 * The findings of a review as the author gets them, and the same text without the words that are only for the author.
 */

const opening =
  "Somebody who did not write it reviewed your work against its contract, from the diff, the evidence and the tree that would land";
const close =
  "Fix what is right in it. Where it is wrong, or something was not seen, make the evidence show it: a test, a command, a clearer place; or say in your last message why, which the next review reads. Checks and review run again when you are done.";

export const findingsText = (parts: readonly string[], round: string): string =>
  `${opening} ${round}.\n\n${parts.join("\n")}\n\n${close}`;

/** The findings alone, for the next reviewer. A text of another form is returned unchanged. */
export const findingsIn = (text: string): string => {
  const from = text.indexOf("\n\n");
  const to = text.lastIndexOf(`\n\n${close}`);
  return text.startsWith(opening) && from < to ? text.slice(from, to).trim() : text;
};
