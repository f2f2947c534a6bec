import { type Dirent, readdirSync } from "node:fs";
import { join } from "node:path";
import type { Mount, SandboxPlace } from "../../process/sandbox/place.ts";
import type { WorktreeRecord } from "../record.ts";
import { statsAt } from "../file/bounded-read.ts";
import { alternatesIn } from "../git/answer.ts";
import { nestedGits } from "../git/nested.ts";
import { plainConfig } from "../git/plain-config.ts";
import { repositoryOf } from "../git/repository.ts";

/** Where commands see the files of a worktree or a directory, and the repository with them. */

/** Where a sandbox has the Task's Git directory, and the objects that it borrows. */
export const gitAt = "/run/sortie/git";
const objectsAt = "/run/sortie/objects";
/** Ignore patterns of the dependency folders that the Task was given. */
export const excludesAt = "/run/sortie/exclude";

/** A tree of the service's with its Git directory, which is no part of the tree. */
export type MountedTree = {
  tree: string;
  gitDir: string;
  /** Whether commands may write the Git directory. Its settings and what it borrows are read-only in any case. */
  writable: boolean;
  record: Pick<WorktreeRecord, "toplevel" | "commonDir">;
};

/** Shows a tree at the path of the project's own checkout, which is not visible. */
export const worktreeMounts = ({ tree, gitDir, writable, record }: MountedTree): SandboxPlace => ({
  tree,
  at: record.toplevel,
  under: () => [],
  over: () => {
    const objects = join(record.commonDir, "objects");
    return [
      { kind: writable ? "rw" : "ro", from: gitDir, to: gitAt },
      ...(writable ? ["config", "objects/info"] : []).map(
        (name): Mount => ({ kind: "ro", from: join(gitDir, name), to: join(gitAt, name) }),
      ),
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

/** Where a sandbox has a folder for git's temporary files, where a Task works in place. */
export const scratchAt = "/run/sortie/scratch";

/**
 * Shows the user's own directory; its repository and nested ones are read-only. `writable`: git may write the index and
 * the objects of the repository, for a sandbox in which no command of an agent runs.
 */
export const directoryMounts = (directory: string, scratch?: string, writable = false): SandboxPlace => ({
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
    // What squads and rules there are for the project is the user's to say.
    if (statsAt(settings)?.isDirectory() === true) nested.push({ kind: "ro", from: settings, to: settings });
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
      ...alternatesOf(commonDir),
    ];
  },
});

/** Object folders that the repository borrows from; no other path that a file may name. */
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

const entriesIn = (folder: string): Dirent[] => {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch {
    return [];
  }
};

const namesIn = (folder: string): string[] =>
  entriesIn(folder).flatMap((entry) => (entry.isDirectory() ? [entry.name] : []));

/** Where more has to be covered, of submodules or beside a repository, nothing of it is shown at all. */
const maxCovered = 200;

/**
 * What git needs to read a repository, and what comes and goes beside it. Other things there may hold tokens and keys:
 * hooks, what other programs keep, and what was typed, in the logs of refs.
 */
const needed = new Set(
  (
    "index packed-refs objects refs reftable info shallow worktrees modules description commondir gitdir config " +
    "config.worktree lfs annex rr-cache branches rebase-merge rebase-apply sequencer"
  ).split(" "),
);
const passing = /^[A-Z_]+$|\.(?:lock|pid|index|log)$|^(?:tmp|sortie-|sharedindex\.|fsmonitor)/;

const isSample = ({ name }: Dirent) => name.endsWith(".sample");

/** Covers the settings of a repository and its worktrees, which may hold tokens, by what git needs of them. */
const configsOf = (gitDir: string): Mount[] =>
  [
    ...["config", "config.worktree"].map((name) => join(gitDir, name)),
    ...namesIn(join(gitDir, "worktrees")).map((name) => join(gitDir, "worktrees", name, "config.worktree")),
  ]
    .filter((path) => statsAt(path)?.isFile() === true)
    .map((path) => ({ kind: "text", text: plainConfig(path), to: path }));

/** Covers all of a Git directory that may hold tokens. */
const withoutSecrets = (gitDir: string): Mount[] => {
  const others = entriesIn(gitDir).flatMap((entry): Mount[] => {
    const to = join(gitDir, entry.name);
    if (needed.has(entry.name) || passing.test(entry.name)) return [];
    if (entry.isFile()) return [{ kind: "text", text: "", to }];
    return !entry.isDirectory() || entriesIn(to).every(isSample) ? [] : [{ kind: "empty", to }];
  });
  const keys = join(gitDir, "annex/creds");
  if (statsAt(keys)?.isDirectory() === true) others.push({ kind: "empty", to: keys });
  return others.length > maxCovered ? [{ kind: "empty", to: gitDir }] : [...configsOf(gitDir), ...others];
};

/** The same of the submodules, whose files are there when a Task works in place. */
const modulesWithoutSecrets = (commonDir: string): Mount[] => {
  const covered: Mount[] = [];
  /** A submodule's name may have slashes, and it may have submodules of its own. */
  const visit = (folder: string, depth: number): void => {
    for (const name of namesIn(join(commonDir, folder))) {
      if (covered.length > maxCovered || depth > 8) return;
      const below = join(folder, name);
      const isModule = statsAt(join(commonDir, below, "HEAD")) !== undefined;
      if (isModule) covered.push(...withoutSecrets(join(commonDir, below)));
      visit(isModule ? join(below, "modules") : below, depth + 1);
    }
  };
  visit("modules", 0);
  return covered.length > maxCovered ? [{ kind: "empty", to: join(commonDir, "modules") }] : covered;
};
