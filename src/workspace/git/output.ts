import { decodePath } from "../file/path.ts";
import type { Git } from "./git.ts";

/** Parses git's output. */

/** The NUL-separated parts one by one, for loops over very many that let other work run in between. */
export function* partsIn(bytes: Buffer): Generator<string> {
  for (let from = 0; from < bytes.length; ) {
    const end = bytes.indexOf(0, from);
    const to = end === -1 ? bytes.length : end;
    yield decodePath(bytes.subarray(from, to));
    from = to + 1;
  }
}

export const splitNul = (bytes: Buffer): string[] => [...partsIn(bytes)];

export const idOf = async (git: Git, name: string): Promise<string> =>
  (await git.run(["rev-parse", "--verify", "-q", name])).stdout.toString("latin1").trim();
