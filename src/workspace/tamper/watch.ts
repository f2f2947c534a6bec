import { realpathSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { isWithin } from "../../process/sandbox/system-mount.ts";
import { decodePath, osPath } from "../file/path.ts";
import type { Setting } from "../git/config-file.ts";
import type { Indexes } from "./indexes.ts";
import { type Look, type Node, pathOf, type Place, type Role, settingsOf, textOf } from "./node.ts";
import { type Listing, listingOf, type Seen, seenAt } from "./seen.ts";

/**
 * Looks at everything that tells git, run in a repository, to run programs or send something elsewhere: its own Git
 * directory, those of its submodules, linked worktrees and repositories inside, and the files that they name. Leaves
 * out objects, refs, logs and the index, which hold what is committed or staged.
 */

export type WatchOptions = {
  /**
   * The Git directory that holds all others of the repository: if the project is a submodule, that of its superproject.
   */
  root: string;
  /** Repositories known to be inside the work tree, by their `.git`. */
  nested: Iterable<string>;
  /** The folder that commands can write in, outside of the Git directory; undefined: everything. */
  writable: string | undefined;
  indexes: Indexes;
};

/** Most files and folders of one look. If there are more, the Git directory counts as crowded. */
const mostNodes = 10_000;
const mostNew = 100;
const deepest = { hooks: 4, links: 5, includes: 10, modules: 8, repositories: 8 };

/** Names that a Git directory has itself, so that no submodule with a longer name is behind them. */
const ownNames = new Set(
  (
    "objects refs logs hooks info branches remotes modules worktrees rr-cache lfs annex svn reftable head config index " +
    "description packed-refs orig_head fetch_head commit_editmsg shallow gitdir commondir gc.log"
  ).split(" "),
);

const isGitDirName = /^(?:head|config|commondir|objects|refs|hooks)$/;

const isPlainFolder = (path: string): boolean => {
  try {
    return decodePath(realpathSync.native(osPath(path), { encoding: "buffer" })) === path;
  } catch {
    return false;
  }
};

/**
 * `before`: an earlier look; what has not changed since is not read again. `accepted`: the present state is the user's.
 * Otherwise files outside the Git directories are looked at only if the earlier look was led to them: a command may
 * have made a setting name anybody's files.
 */
export const lookAt = (options: WatchOptions, before: Look, accepted: boolean): Look => {
  const { root, nested, writable, indexes } = options;
  const nodes = new Map<string, Node>();
  const unwritable = new Set<string>();
  const listings = new Map<string, Listing>();
  const crowded = new Set<string>();
  const flat = new Set<string>();
  const named = new Set<string>();

  /** The state of each path; each is looked at only once. */
  const peeked = new Map<string, Seen | undefined>();
  const peek = (path: string): Seen | undefined => {
    if (peeked.has(path)) return peeked.get(path);
    const seen = seenAt(path, before.nodes.get(path)?.seen);
    peeked.set(path, seen);
    return seen;
  };

  const look = (path: string, role: Role, place: Place): Seen | undefined => {
    const found = nodes.get(path);
    if (found !== undefined) return found.seen;
    if (nodes.size >= mostNodes) {
      crowded.add(place.gitDir);
      return undefined;
    }
    const seen = peek(path);
    if (seen === undefined) return undefined;
    nodes.set(path, { path, role, place, seen });
    if (writable !== undefined && (isWithin(root, path) || !isWithin(writable, path))) unwritable.add(path);
    return seen;
  };

  /** The state of a file when it was last the user's, which decides what other files it names. */
  const trusted = (path: string, seen: Seen | undefined): Seen | undefined =>
    accepted ? seen : before.nodes.get(path)?.seen;

  const namesIn = (folder: string, seen: Seen | undefined): string[] => {
    if (seen?.kind !== "folder") return [];
    const listing = listingOf(folder, seen, before.listings.get(folder));
    listings.set(folder, listing);
    if (listing.crowded) crowded.add(folder);
    return listing.names;
  };

  const note = (path: string): string => {
    named.add(path);
    return path;
  };

  /** The paths in a folder, also where the user has a link in its place. */
  const open = (path: string, place: Place): string[] => {
    const seen = look(path, "folder", place);
    if (seen?.kind === "folder") return namesIn(path, seen).map((name) => `${path}/${name}`);
    const link = trusted(path, seen);
    if (link?.kind !== "link") return [];
    const target = note(resolve(dirname(path), link.target));
    return namesIn(target, look(target, "folder", place)).map((name) => `${target}/${name}`);
  };

  /**
   * Like `open`, for a folder of files. If very many of them are new, they are not looked at, and the folder is put
   * back as a whole.
   */
  const openFlat = (folder: string, place: Place): string[] => {
    const paths = open(folder, place);
    const [first] = paths;
    if (first === undefined) return [];
    flat.add(dirname(first));
    const old = accepted ? paths : paths.filter((path) => before.nodes.has(path));
    if (paths.length - old.length <= mostNew) return paths;
    crowded.add(dirname(first));
    return old;
  };

  /** Like `look`; if the user has a link there, looks at its target as well. */
  const follow = (path: string, role: Role, place: Place, depth = 0): Seen | undefined => {
    const seen = look(path, role, place);
    const link = trusted(path, seen);
    if (link?.kind !== "link" || depth > deepest.links) return seen;
    return follow(note(resolve(dirname(path), link.target)), role, place, depth + 1) ?? seen;
  };

  const visited = new Set<string>();
  const isVisited = (path: string): boolean => visited.size === visited.add(path).size;

  const hooks = (folder: string, place: Place, depth = 0): void => {
    if (isVisited(folder)) return;
    for (const path of openFlat(folder, place)) {
      if (depth === 0 && path.endsWith(".sample")) continue;
      if (follow(path, "hook", place)?.kind === "folder" && depth < deepest.hooks) hooks(path, place, depth + 1);
    }
  };

  const config = (path: string, place: Place, depth = 0): void => {
    if (depth > deepest.includes || isVisited(path)) return;
    const seen = look(path, "config", place);
    const said = trusted(path, seen);
    if (said?.kind === "link") config(note(resolve(dirname(path), said.target)), place, depth + 1);
    for (const setting of settingsOf(said)) {
      if (setting.value === "") continue;
      const from = setting.name.startsWith("core.") ? (place.top ?? place.gitDir) : dirname(path);
      const target = pathOf(from, setting.value);
      if (/^include(?:if\..*)?\.path$/s.test(setting.name)) config(note(target), place, depth + 1);
      else if (setting.name === "core.hookspath") hooks(note(target), place);
      else if (setting.name === "core.attributesfile") follow(note(target), "plain", place);
    }
  };

  /** The user's settings of a Git directory, before it is looked at completely. */
  const settings = (gitDir: string): Setting[] => {
    const path = `${gitDir}/config`;
    return settingsOf(trusted(path, peek(path)));
  };
  const settingIn = (gitDir: string, wanted: string): string | undefined =>
    settings(gitDir).findLast(({ name }) => name === wanted)?.value;

  const each = (folder: string, place: Place, roles: Readonly<Record<string, Role>>): void => {
    for (const path of open(folder, place)) {
      const role = roles[basename(path).toLowerCase()];
      if (role === "config") config(path, place);
      else if (role !== undefined) follow(path, role, place);
    }
  };
  const all = (folder: string, place: Place, role: Role): void => {
    for (const path of openFlat(folder, place)) follow(path, role, place);
  };

  /** What is looked at in a Git directory, by name in lower case: file systems may not tell the cases apart. */
  const parts: Readonly<Record<string, (path: string, place: Place, depth: number) => void>> = {
    config: (path, place) => config(path, place),
    "config.worktree": (path, place) => config(path, place),
    head: (path, place) => look(path, "head", place),
    commondir: (path, place) => look(path, "link", place),
    gitdir: (path, place) => look(path, "link", place),
    hooks: (path, place) => hooks(path, place),
    info: (path, place) => each(path, place, { attributes: "plain", grafts: "plain" }),
    objects: (path, place) => each(`${path}/info`, place, { alternates: "plain", "http-alternates": "plain" }),
    // Addresses in files, which git reads if the configuration has no remote of that name.
    remotes: (path, place) => all(path, place, "plain"),
    branches: (path, place) => all(path, place, "plain"),
    "rebase-merge": (path, place) => each(path, place, steps),
    "rebase-apply": (path, place) => each(path, place, steps),
    sequencer: (path, place) => each(path, place, { todo: "todo", opts: "config" }),
    // Files that let others fetch, and that `git instaweb` starts.
    "git-daemon-export-ok": (path, place) => look(path, "plain", place),
    gitweb: (path, place) => all(path, place, "plain"),
    // Some users have `.git/safe/../../bin` on their PATH: this entry puts programs of the work tree there.
    safe: (path, place) => look(path, "plain", place),
    modules: (path, place, depth) => modules(path, place, depth),
    worktrees: (path, place, depth) => linked(path, place, depth),
  };
  const steps = { "git-rebase-todo": "todo", "git-rebase-todo.backup": "todo", strategy: "strategy" } as const;

  const gitDir = (place: Place, depth: number): void => {
    const seen = depth > deepest.repositories ? undefined : look(place.gitDir, "folder", place);
    if (seen?.kind !== "folder") return;
    const names = namesIn(place.gitDir, seen);
    // In a crowded folder, all names that count are tried.
    const found = crowded.has(place.gitDir)
      ? Object.keys(parts).map((name) => (name === "head" ? "HEAD" : name))
      : names.filter((name) => Object.hasOwn(parts, name.toLowerCase()));
    for (const name of found) parts[name.toLowerCase()]?.(`${place.gitDir}/${name}`, place, depth);
    if (place.top !== undefined) links(place.top, place, depth);
  };

  /** Submodules' Git directories: their names may have slashes, and they may have submodules of their own. */
  const modules = (folder: string, place: Place, depth: number): void => {
    for (const path of open(folder, place)) module(path, place, depth, 0);
  };
  const module = (path: string, place: Place, depth: number, level: number): void => {
    const names = level <= deepest.modules ? namesIn(path, peek(path)) : [];
    const isGitDir = names.some((name) => isGitDirName.test(name.toLowerCase()));
    if (isGitDir) {
      const worktree = settingIn(path, "core.worktree");
      const top = worktree === undefined ? undefined : pathOf(path, worktree);
      gitDir({ kind: "module", gitDir: path, top }, depth + 1);
    } else look(path, "folder", place);
    for (const name of names) {
      if (isGitDir && ownNames.has(name.toLowerCase())) continue;
      const below = `${path}/${name}`;
      if (peek(below)?.kind === "folder") module(below, place, depth, level + 1);
    }
  };

  /** The user's linked worktrees. */
  const linked = (folder: string, place: Place, depth: number): void => {
    for (const path of open(folder, place)) {
      const back = `${path}/gitdir`;
      const dotGit = resolve(path, textOf(trusted(back, peek(back))).replace(/\n$/, ""));
      const isNamed = basename(dotGit) === ".git";
      const own: Place = { kind: "linked", gitDir: path, top: isNamed ? dirname(dotGit) : undefined };
      gitDir(own, depth + 1);
      const hooksPath = settingIn(place.gitDir, "core.hookspath") ?? "";
      if (own.top !== undefined && hooksPath !== "") hooks(note(pathOf(own.top, hooksPath)), own);
      // Only if the folder is there, so that no file of this name elsewhere is looked at.
      if (isNamed && nodes.get(path)?.seen.kind === "folder") look(dotGit, "pointer", own);
    }
  };

  /** Repositories in the work tree that the index links to: git runs in them whenever it looks at the tree. */
  const links = (top: string, place: Place, depth: number): void => {
    const common = place.kind === "linked" ? dirname(dirname(place.gitDir)) : place.gitDir;
    const idBytes = settingIn(common, "extensions.objectformat") === "sha256" ? 32 : 20;
    for (const path of indexes.gitlinksIn(place.gitDir, idBytes)) {
      const folder = join(top, decodePath(path));
      // Whatever a crafted index says, git looks at nothing outside the tree.
      if (!isWithin(top, folder) || folder === top || folder.includes("/.git/")) continue;
      repository(join(folder, ".git"), depth);
    }
  };
  const repository = (dotGit: string, depth: number): void => {
    const top = dirname(dotGit);
    const known = before.nodes.get(dotGit)?.seen;
    if ((known === undefined || peek(dotGit) !== known) && !isPlainFolder(top)) return;
    const place: Place = { kind: "nested", gitDir: dotGit, top };
    if (look(dotGit, "pointer", place)?.kind === "folder") gitDir(place, depth + 1);
  };

  const main = settingIn(root, "core.worktree");
  const top = main !== undefined ? pathOf(root, main) : basename(root) === ".git" ? dirname(root) : undefined;
  const place: Place = { kind: "main", gitDir: root, top };
  gitDir(place, 0);
  if (top !== undefined && join(top, ".git") !== root) look(join(top, ".git"), "pointer", place);
  for (const dotGit of nested) repository(dotGit, 1);
  // Paths that nothing leads to any more, such as a submodule that the index has lost, may be led to again later.
  if (!accepted) for (const { path, role, place: its } of before.nodes.values()) look(path, role, its);
  return { nodes, unwritable, listings, crowded, flat, named };
};
