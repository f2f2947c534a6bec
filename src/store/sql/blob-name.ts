/** Whatever stands as a hash in an event is a name of a blob; at worst a file is kept for nothing. */
const hashes = /[0-9a-f]{64}(?=")/g;

/** The hashes that an event's data, as JSON, holds as whole strings or at the end of one; each once. */
export const hashesIn = (data: string): string[] => [...new Set(data.match(hashes))];
