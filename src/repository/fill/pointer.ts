/**
 * The pointer that Git has instead of a file in large file storage (git-lfs.com/spec/v1): hash and length, in a text of
 * three lines.
 */
export type Pointer = { oid: string; size: number };

/** Bytes. A longer file is not a pointer. */
export const longestPointer = 1024;

/** undefined: the text is not a pointer. */
export const parsePointer = (text: string): Pointer | undefined => {
  const lines = text.split("\n");
  if (!/^version https:\/\/(?:git-lfs\.github\.com|hawser\.github\.com)\/spec\/v1$/.test(lines[0] ?? ""))
    return undefined;
  const valueOf = (key: string) => lines.find((line) => line.startsWith(`${key} `))?.slice(key.length + 1);
  const oid = /^sha256:([0-9a-f]{64})$/.exec(valueOf("oid") ?? "")?.[1];
  const size = /^(?:0|[1-9]\d{0,14})$/.exec(valueOf("size") ?? "")?.[0];
  return oid === undefined || size === undefined ? undefined : { oid, size: Number(size) };
};
