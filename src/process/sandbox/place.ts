import { statSync } from "node:fs";

/**
 * Where a Task's files are on this machine, and at which path its commands see them. Data only: `bubblewrap.ts` makes
 * the mounts.
 */

export type Mount =
  /** `ro`, `rw`: a path of this machine; `text`: a read-only file with this text; `empty`: an empty folder. */
  | { kind: "ro" | "rw"; from: string; to: string }
  | { kind: "text"; text: string; to: string }
  | { kind: "empty"; to: string }
  /** A symbolic link with this text, which is resolved inside the sandbox. */
  | { kind: "link"; text: string; to: string };

export type SandboxPlace = {
  /** The Task's files, writable. */
  tree: string;
  /** Mounted instead of `tree`, if a merged view of it exists. */
  shown?: string;
  /** The path of the files inside: the project's own path, so that absolute paths lead to the Task's files. */
  at: string;
  /** Mounts below and above the tree, in this order; evaluated each time a sandbox is opened. */
  under: () => Mount[];
  over: () => Mount[];
  /** Wraps the command line that opens the sandbox, for mounts that bubblewrap cannot make itself. */
  around?: (argv: string[]) => string[];
};

/** A path of this machine as the Task's commands see it; undefined if it is not one of the Task's files. */
export const insideOf = ({ tree, at }: Pick<SandboxPlace, "tree" | "at">, path: string): string | undefined =>
  path === tree ? at : path.startsWith(`${tree}/`) ? `${at}${path.slice(tree.length)}` : undefined;

/** Identifies the folder at `tree`; changes when another folder has taken its place. */
export const stampOf = ({ tree }: SandboxPlace): string => {
  const stats = statSync(tree, { throwIfNoEntry: false });
  return stats === undefined ? "-" : `${stats.dev}:${stats.ino}`;
};
