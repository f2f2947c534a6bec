import { decodePath } from "../file/path.ts";
import type { Git } from "./git.ts";

/** Parses git's output. */

export const splitNul = (bytes: Buffer): string[] => {
  const parts: string[] = [];
  for (let from = 0; from < bytes.length; ) {
    const end = bytes.indexOf(0, from);
    const to = end === -1 ? bytes.length : end;
    parts.push(decodePath(bytes.subarray(from, to)));
    from = to + 1;
  }
  return parts;
};

export const idOf = async (git: Git, name: string): Promise<string> =>
  (await git.run(["rev-parse", "--verify", "-q", name])).stdout.toString("latin1").trim();
