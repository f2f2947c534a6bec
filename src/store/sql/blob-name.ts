/**
 * The end of a string with a hash before it. Whatever stands as a hash in an event is a name of a blob; at worst a file
 * is kept for nothing. Looked for from its end: a long run of digits is not tried at every digit.
 */
const hashEnd = /(?<=[0-9a-f]{64})"/g;

/** The hashes that an event's data, as JSON, holds as whole strings or at the end of one; each once. */
export const hashesIn = (data: string): string[] => [
  ...new Set(Array.from(data.matchAll(hashEnd), ({ index }) => data.slice(index - 64, index))),
];
