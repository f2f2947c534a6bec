import { type Dirent, lstatSync } from "node:fs";
import { join } from "node:path";
import type { Mount, SandboxPlace } from "../../process/sandbox/place.ts";
import type { WorktreeRecord } from "../record.ts";
import { statsAt } from "../file/bounded-read.ts";
import { FileRefused, openFolder } from "../file/folder.ts";
import { someEntries } from "../../process/sandbox/some-entries.ts";
import { alternatesIn } from "../git/answer.ts";
import { nestedGits } from "../git/nested.ts";
import { plainConfig } from "../git/plain-config.ts";
import { repositoryOf } from "../git/repository.ts";

/**
 * Decides where commands see the files of a worktree or a directory, and the repository with them.
 *
 * bubblewrap follows links in both paths of a mount, and resolves them in this machine's whole file system: a link that
 * an agent put there would show, or create, files outside. So nothing is mounted over or from a path that an agent may
 * have shaped unless that path was checked; and a path that is mounted stays as it is, since the kernel lets no process
 * rename or remove a mount point that it sees.
 */

/** Paths in a sandbox: the Task's Git directory, and the objects that it borrows. */
export const gitAt = "/run/sortie/git";
const objectsAt = "/run/sortie/objects";
/** Ignore patterns of the dependency folders that the Task was given. */
export const excludesAt = "/run/sortie/exclude";

/** A worktree of the service's with its Git directory, which is outside the tree. */
export type MountedTree = {
  tree: string;
  gitDir: string;
  /** Whether commands may write the Git directory. Its settings and what it borrows are read-only in any case. */
  writable: boolean;
  record: Pick<WorktreeRecord, "toplevel" | "commonDir">;
};

/** The files in the service's Git directories over which something is mounted; in the tree, it is `.git`. */
const ownFiles = ["config", "objects/info/alternates"];

const expectFile = (root: string, path: string): void => {
  const components = path.split("/");
  const name = components.pop() ?? "";
  using folder = openFolder(root, components);
  if (lstatSync(folder.at(name), { throwIfNoEntry: false })?.isFile() === true) return;
  throw new FileRefused("not-a-file", `Expected a regular file at "${root}/${path}", got something else`);
};

/** Throws FileRefused if anything over which something is mounted is not a regular file. */
const expectOwn = ({ tree, gitDir }: Pick<MountedTree, "tree" | "gitDir">): void => {
  expectFile(tree, ".git");
  for (const name of ownFiles) expectFile(gitDir, name);
};

/** Whether a tree and its Git directory have what a sandbox mounts over them. */
export const isMountable = (place: Pick<MountedTree, "tree" | "gitDir">): boolean => {
  try {
    expectOwn(place);
    return true;
  } catch {
    return false;
  }
};

/** Shows a tree at the path of the project's own checkout, which is not visible. */
export const worktreeMounts = ({ tree, gitDir, writable, record }: MountedTree): SandboxPlace => ({
  tree,
  at: record.toplevel,
  under: () => [],
  over: () => {
    expectOwn({ tree, gitDir });
    const objects = join(record.commonDir, "objects");
    const part = (kind: "ro" | "rw", name: string): Mount => ({
      kind,
      from: join(gitDir, name),
      to: join(gitAt, name),
    });
    return [
      { kind: writable ? "rw" : "ro", from: gitDir, to: gitAt },
      // `objects` is a mount of its own so that no command can put another folder in its place.
      ...(writable ? [part("ro", "config"), part("rw", "objects"), part("ro", "objects/info")] : []),
      { kind: "text", text: `${objectsAt}\n`, to: join(gitAt, "objects/info/alternates") },
      { kind: "ro", from: objects, to: objectsAt },
      ...alternatesOf(record.commonDir),
      ...(statsAt(`${tree}.exclude`) === undefined
        ? []
        : [{ kind: "ro", from: `${tree}.exclude`, to: excludesAt } as const]),
      { kind: "text", text: `gitdir: ${gitAt}\n`, to: join(record.toplevel, ".git") },
    ];
  },
});

/** Path in a sandbox: the folder for git's temporary files, where a Task works in place. */
export const scratchAt = "/run/sortie/scratch";

export type MountedDirectory = {
  directory: string;
  /**
   * Whether the repository was there when the Task began; if not, an agent made it, and no borrowed objects are shown.
   */
  known: boolean;
  scratch?: string;
  /** git may write the index and the objects of the repository, for a sandbox in which no command of an agent runs. */
  writable?: boolean;
};

/** Shows the user's own directory; its repository and nested ones are read-only. */
export const directoryMounts = ({ directory, known, scratch, writable = false }: MountedDirectory): SandboxPlace => ({
  tree: directory,
  at: directory,
  under: () => {
    const found = repositoryOf(directory);
    return found === undefined || found.toplevel === directory
      ? []
      : [{ kind: "ro", from: found.toplevel, to: found.toplevel }];
  },
  over: () => {
    const found = repositoryOf(directory);
    const nested: Mount[] = [
      ...(scratch === undefined ? [] : [{ kind: "rw", from: scratch, to: scratchAt } as const]),
      ...nestedGits(directory).flatMap((path): Mount[] => [
        { kind: "ro", from: path, to: path },
        ...withoutSecrets(path),
      ]),
    ];
    const settings = join(directory, ".sortie");
    // Only the user decides which squads and rules the project has. A link is not protected: it is an agent's, or left
    // to agents.
    if (lstatSync(settings, { throwIfNoEntry: false })?.isDirectory() === true)
      nested.push({ kind: "ro", from: settings, to: settings });
    if (found === undefined) return nested;
    const { toplevel, commonDir, gitDir } = found;
    const dotGit = join(toplevel, ".git");
    const outside = commonDir === dotGit ? [] : [commonDir];
    return [
      ...nested,
      ...[dotGit, ...outside].map((path): Mount => ({ kind: writable ? "rw" : "ro", from: path, to: path })),
      ...(writable ? ["config", "hooks", "info", "objects/info", "modules", "worktrees"] : [])
        .map((name) => join(commonDir, name))
        .filter((path) => !gitDir.startsWith(`${path}/`) && statsAt(path) !== undefined)
        .map((path): Mount => ({ kind: "ro", from: path, to: path })),
      ...(writable ? configsOf : withoutSecrets)(commonDir),
      ...modulesWithoutSecrets(commonDir),
      ...(known ? alternatesOf(commonDir) : []),
    ];
  },
});

/**
 * Mounts of the object folders that the repository borrows from; any other path that its alternates name is ignored.
 */
const alternatesOf = (commonDir: string): Mount[] => {
  const paths: string[] = [];
  const visit = (objects: string, depth: number) => {
    for (const path of alternatesIn(objects)) {
      if (!path.startsWith("/") || !path.endsWith("/objects") || paths.length >= 5 || depth > 5) continue;
      if (statsAt(join(path, "pack"))?.isDirectory() !== true) continue;
      paths.push(path);
      visit(path, depth + 1);
    }
  };
  visit(join(commonDir, "objects"), 0);
  return paths.map((path) => ({ kind: "ro", from: path, to: path }));
};

/**
 * Most mounts that cover parts of a Git directory, or of all submodules; where more are needed, the whole folder is
 * covered.
 */
const maxCovered = 200;

/** Most names read in one folder, and most folders of submodules; where there are more, the whole folder is covered. */
const maxNames = 2000;
const maxFolders = 1000;

/** The folders in a folder; undefined: it has too many entries. */
const namesIn = (folder: string): string[] | undefined => {
  const { entries, crowded } = someEntries(folder, maxNames);
  return crowded ? undefined : entries.flatMap((entry) => (entry.isDirectory() ? [entry.name] : []));
};

/**
 * `needed`: what git needs to read a repository; `passing`: what comes and goes beside that. Other entries may hold
 * tokens and keys: hooks, files of other programs, and what users typed, in the logs of refs.
 */
const needed = new Set(
  (
    "index packed-refs objects refs reftable info shallow worktrees modules description commondir gitdir config " +
    "config.worktree lfs annex rr-cache branches rebase-merge rebase-apply sequencer"
  ).split(" "),
);
const passing = /^[A-Z_]+$|\.(?:lock|pid|index|log)$|^(?:tmp|sortie-|sharedindex\.|fsmonitor)/;

const isSample = ({ name }: Dirent) => name.endsWith(".sample");

const hasSamplesAlone = (folder: string): boolean => {
  const { entries, crowded } = someEntries(folder, maxNames);
  return !crowded && entries.every(isSample);
};

/**
 * Whether there is a regular file, not a link. The Git directory of a submodule may be a file, which has nothing below
 * it.
 */
const isFile = (path: string): boolean => {
  try {
    return lstatSync(path, { throwIfNoEntry: false })?.isFile() === true;
  } catch {
    return false;
  }
};

/**
 * Covers the settings of a repository and its worktrees, which may hold tokens, with the part of them that git needs.
 */
const configsOf = (gitDir: string): Mount[] => {
  const worktrees = join(gitDir, "worktrees");
  const names = namesIn(worktrees);
  return [
    ...["config", "config.worktree", ...(names ?? []).map((name) => `worktrees/${name}/config.worktree`)]
      .map((name) => join(gitDir, name))
      .filter(isFile)
      .map((path): Mount => ({ kind: "text", text: plainConfig(path), to: path })),
    ...(names === undefined ? [{ kind: "empty", to: worktrees } as const] : []),
  ];
};

/** Covers everything in a Git directory that may hold tokens. */
const withoutSecrets = (gitDir: string): Mount[] => {
  const { entries, crowded } = someEntries(gitDir, maxNames);
  if (crowded) return [{ kind: "empty", to: gitDir }];
  const others = entries.flatMap((entry): Mount[] => {
    const to = join(gitDir, entry.name);
    if (needed.has(entry.name) || passing.test(entry.name)) return [];
    if (entry.isFile()) return [{ kind: "text", text: "", to }];
    return !entry.isDirectory() || hasSamplesAlone(to) ? [] : [{ kind: "empty", to }];
  });
  const keys = join(gitDir, "annex/creds");
  if (statsAt(keys)?.isDirectory() === true) others.push({ kind: "empty", to: keys });
  return others.length > maxCovered ? [{ kind: "empty", to: gitDir }] : [...configsOf(gitDir), ...others];
};

/** Covers the same in the Git directories of submodules, which are present when a Task works in place. */
const modulesWithoutSecrets = (commonDir: string): Mount[] => {
  const covered: Mount[] = [];
  let folders = 0;
  let crowded = false;
  /** A submodule's name may have slashes, and it may have submodules of its own. */
  const visit = (folder: string, depth: number): void => {
    const names = namesIn(join(commonDir, folder));
    folders += 1;
    crowded ||= names === undefined || folders > maxFolders || covered.length > maxCovered;
    for (const name of names ?? []) {
      if (crowded || depth > 8) return;
      const below = join(folder, name);
      const isModule = statsAt(join(commonDir, below, "HEAD")) !== undefined;
      if (isModule) covered.push(...withoutSecrets(join(commonDir, below)));
      visit(isModule ? join(below, "modules") : below, depth + 1);
    }
  };
  visit("modules", 0);
  return crowded || covered.length > maxCovered ? [{ kind: "empty", to: join(commonDir, "modules") }] : covered;
};
