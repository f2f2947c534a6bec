import { statSync } from "node:fs";

/**
 * Where a Task's files are on this machine and where its commands see them. Data only: `bubblewrap.ts` makes the mounts.
 */

export type Mount =
  /** `ro`, `rw`: a path of this machine; `text`: a file with this text, read-only; `empty`: an empty folder. */
  | { kind: "ro" | "rw"; from: string; to: string }
  | { kind: "text"; text: string; to: string }
  | { kind: "empty"; to: string };

export type SandboxPlace = {
  /** The Task's files, writable. */
  tree: string;
  /** What is mounted in its stead, where that is something made of it. */
  shown?: string;
  /** Where they stand inside: the project's own path, so that absolute paths lead to the Task's files. */
  at: string;
  /** Asked when a sandbox is opened, applied in this order around the tree. */
  under: () => Mount[];
  over: () => Mount[];
  /** Wraps the command line that opens the sandbox, for mounts that bubblewrap itself cannot make. */
  around?: (argv: string[]) => string[];
};

/** A path of this machine as the Task's commands see it; undefined: it is not of the Task's files. */
export const insideOf = ({ tree, at }: Pick<SandboxPlace, "tree" | "at">, path: string): string | undefined =>
  path === tree ? at : path.startsWith(`${tree}/`) ? `${at}${path.slice(tree.length)}` : undefined;

/** Changes when the files that are mounted are no longer those that stand there. */
export const stampOf = ({ tree }: SandboxPlace): string => {
  const stats = statSync(tree, { throwIfNoEntry: false });
  return stats === undefined ? "-" : `${stats.dev}:${stats.ino}`;
};
