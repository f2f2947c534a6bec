/**
 * The end of a string that ends in a hash. Every hash in an event counts as the name of a blob; at worst a file is kept
 * for nothing. The search starts from the end, so that a long run of digits is not tried at every digit.
 */
const hashEnd = /(?<=[0-9a-f]{64})"/g;

/** The hashes that an event's data, as JSON, holds as whole strings or at the end of one; each once. */
export const hashesIn = (data: string): string[] => [
  ...new Set(Array.from(data.matchAll(hashEnd), ({ index }) => data.slice(index - 64, index))),
];
