import { createHash, type Hash } from "node:crypto";
import { readParts } from "../file/inspect.ts";

/**
 * Compares a file on disk with a blob, apart from line endings, without git, which would read the tree's attributes.
 */

const carriageReturn = 0x0d;
const lineFeed = 0x0a;

/**
 * The SHA-256 of a file, if its bytes with LF for each CRLF are those of the blob `object`; undefined: they are not.
 */
export const sha256WithLineEnds = async (root: string, path: string, object: string): Promise<string | undefined> => {
  let length = 0;
  if (!(await eachConverted(root, path, (part) => (length += part.length)))) return undefined;
  const blob = createHash(object.length === 64 ? "sha256" : "sha1").update(`blob ${length}\0`);
  const whole = createHash("sha256");
  await eachConverted(root, path, (part) => blob.update(part), whole);
  return blob.digest("hex") === object ? whole.digest("hex") : undefined;
};

/**
 * Passes on the file's bytes with LF for each CRLF; false: there is no file. `whole` is updated with the unchanged
 * bytes.
 */
const eachConverted = (root: string, path: string, take: (part: Buffer) => unknown, whole?: Hash): Promise<boolean> => {
  /** Whether the previous part ended in a carriage return that is not passed on yet. */
  let held = false;
  const converted = readParts(root, path, async (part) => {
    whole?.update(part);
    const out: Buffer[] = [];
    if (held && part[0] !== lineFeed) out.push(Buffer.of(carriageReturn));
    held = part.at(-1) === carriageReturn;
    const end = held ? part.length - 1 : part.length;
    let from = 0;
    for (let at = part.indexOf(carriageReturn); at !== -1 && at < end; at = part.indexOf(carriageReturn, at + 1)) {
      if (part[at + 1] !== lineFeed) continue;
      out.push(part.subarray(from, at));
      from = at + 1;
    }
    out.push(part.subarray(from, end));
    for (const piece of out) take(piece);
  });
  return converted.then((found) => {
    if (held) take(Buffer.of(carriageReturn));
    return found;
  });
};
