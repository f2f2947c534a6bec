import type { Git } from "../git/git.ts";
import { encodePath } from "../file/path.ts";

/** Streams blobs of the repository, since a file may be too large to hold in memory. */

export type Blob = { object: string; path: string; mode: string };

/** A blob as it would be on disk, line endings converted. */
export const checkOut = async (
  git: Git,
  { object, path, mode }: Blob,
  onPart: (part: Buffer) => unknown,
): Promise<void> => {
  if (mode === "120000") return plainBlob(git, object, onPart);
  // The header states the size before conversion, so it cannot delimit objects: each has a process of its own, and
  // git's final line feed is cut off.
  const input = Buffer.concat([Buffer.from(`${object} `), encodePath(path), Buffer.of(0)]);
  let begun = false;
  let held: Buffer | undefined;
  await git.run(["cat-file", "--batch", "--filters", "-z"], {
    input,
    onOutput(chunk) {
      const rest = begun ? chunk : chunk.subarray(chunk.indexOf(0x0a) + 1);
      if (!begun && !chunk.includes(0x0a)) return;
      begun = true;
      if (rest.length === 0) return;
      if (held !== undefined) onPart(held);
      if (rest.length > 1) onPart(rest.subarray(0, -1));
      held = Buffer.from(rest.subarray(-1));
    },
  });
};

const plainBlob = async (git: Git, object: string, onPart: (part: Buffer) => unknown): Promise<void> => {
  await git.run(["cat-file", "blob", object], { onOutput: onPart });
};

/** undefined: larger than `most` bytes. */
const within = async (
  most: number,
  read: (onPart: (part: Buffer) => void) => Promise<void>,
): Promise<Buffer | undefined> => {
  const parts: Buffer[] = [];
  let bytes = 0;
  await read((part) => {
    bytes += part.length;
    if (bytes <= most) parts.push(part);
    else parts.length = 0;
  });
  return bytes > most ? undefined : Buffer.concat(parts);
};

export const checkedOut = (git: Git, blob: Blob, most: number): Promise<Buffer | undefined> =>
  within(most, (onPart) => checkOut(git, blob, onPart));

export const blobOf = (git: Git, object: string, most: number): Promise<Buffer | undefined> =>
  within(most, (onPart) => plainBlob(git, object, onPart));
