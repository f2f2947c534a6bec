import { homedir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { decodePath } from "../file/path.ts";
import { parseConfig, type Setting } from "../git/config-file.ts";
import type { Listing, Seen } from "./seen.ts";

/** The result of a look at a repository, and helpers to read its files. */

export type Role =
  /** A configuration, compared by its settings. */
  | "config"
  /** A hook, or another file beside hooks. */
  | "hook"
  | "head"
  /** `.git` as a file, of a submodule or a linked worktree. */
  | "pointer"
  /** `commondir` and `gitdir`. */
  | "link"
  /** The steps of a rebase or of a series of picks. */
  | "todo"
  | "strategy"
  /** A folder of such files; only that it is a folder counts. */
  | "folder"
  /** Every change counts. */
  | "plain";

/** The Git directory that a path belongs to. */
export type Place = {
  kind: "main" | "module" | "nested" | "linked";
  gitDir: string;
  /** Its work tree; undefined: unknown. */
  top: string | undefined;
};

export type Node = { path: string; role: Role; place: Place; seen: Seen };

export type Look = {
  nodes: ReadonlyMap<string, Node>;
  /** Paths where commands cannot write, so that only the user can have made a change. */
  unwritable: ReadonlySet<string>;
  listings: ReadonlyMap<string, Listing>;
  /** Folders that have too many entries to be read completely. */
  crowded: ReadonlySet<string>;
  /** Folders that hold only files of one kind, all of which were read. */
  flat: ReadonlySet<string>;
  /** Files, and folders of hooks, that the user's settings and links name, whether they exist or not. */
  named: ReadonlySet<string>;
};

export const emptyLook: Look = {
  nodes: new Map(),
  unwritable: new Set(),
  listings: new Map(),
  crowded: new Set(),
  flat: new Set(),
  named: new Set(),
};

/** The text of a file; "" if it is not a file, or was not read. */
export const textOf = (seen: Seen | undefined): string =>
  seen?.kind === "file" ? decodePath(seen.bytes ?? Buffer.alloc(0)) : "";

const parsed = new WeakMap<Seen, Setting[]>();

/** The settings of a configuration; none if git refuses the file. */
export const settingsOf = (seen: Seen | undefined): Setting[] => {
  if (seen?.kind !== "file" || seen.bytes === undefined) return [];
  let settings = parsed.get(seen);
  if (settings === undefined) parsed.set(seen, (settings = parseConfig(seen.bytes) ?? []));
  return settings;
};

/** A path in a setting, relative to a folder or to the home. */
export const pathOf = (from: string, value: string): string => {
  const path = decodePath(Buffer.from(value, "latin1"));
  return path.startsWith("~/") ? join(homedir(), path.slice(2)) : resolve(from, path);
};

/** The Git directory of the outermost superproject, since that of a submodule lies inside it. */
export const outermost = (commonDir: string): string => {
  const at = commonDir.indexOf("/.git/modules/");
  return at === -1 ? commonDir : commonDir.slice(0, at + "/.git".length);
};

/** The path that a `.git` file points to. */
export const pointsTo = (path: string, seen: Seen | undefined): string | undefined => {
  const target = /^gitdir: (.+?)\n?$/s.exec(textOf(seen))?.[1];
  return target === undefined ? undefined : resolve(dirname(path), target);
};
