import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { Mount, SandboxPlace } from "../../process/sandbox/place.ts";
import type { WorktreeRecord } from "../record.ts";
import { statsAt } from "../file/bounded-read.ts";
import { alternatesIn } from "../git/answer.ts";
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
      ...nestedGits(directory).map((path): Mount => ({ kind: "ro", from: path, to: path })),
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
      ...withoutSecrets(commonDir, commonDir),
      ...modulesWithoutSecrets(commonDir),
      ...alternatesOf(commonDir),
    ];
  },
});

const maxNested = { folders: 2000, depth: 6 };
const skipped = new Set(["node_modules", ".venv", "vendor", "target", ".git"]);

/** The `.git` of repositories inside the directory, as far as a bounded walk finds them. */
const nestedGits = (directory: string): string[] => {
  const found: string[] = [];
  const queue = [{ folder: directory, depth: 0 }];
  for (let at = 0; at < Math.min(queue.length, maxNested.folders); at += 1) {
    const { folder, depth } = queue[at] ?? { folder: directory, depth: maxNested.depth };
    let entries;
    try {
      entries = readdirSync(folder, { withFileTypes: true });
    } catch {
      continue;
    }
    for (const entry of entries) {
      if (entry.name === ".git" && depth > 0 && !entry.isSymbolicLink()) found.push(join(folder, entry.name));
      if (entry.isDirectory() && depth < maxNested.depth && !skipped.has(entry.name))
        queue.push({ folder: join(folder, entry.name), depth: depth + 1 });
    }
  }
  return found;
};

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

const namesIn = (folder: string): string[] => {
  try {
    return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? [entry.name] : []));
  } catch {
    return [];
  }
};

/** Beyond so many files of submodules, these are not shown at all. */
const maxCovered = 200;

/** Covers the files of a repository and its worktrees that may hold tokens by what git needs of them. */
const withoutSecrets = (commonDir: string, at: string, folder = "."): Mount[] =>
  [
    ...["config", "config.worktree", "credentials"].map((name) => join(folder, name)),
    ...namesIn(join(commonDir, folder, "worktrees")).map((name) => join(folder, "worktrees", name, "config.worktree")),
  ]
    .filter((path) => statsAt(join(commonDir, path))?.isFile() === true)
    .map((path) => ({ kind: "text", text: plainConfig(join(commonDir, path)), to: join(at, path) }));

/** The same of the submodules, whose files are there when a Task works in place. */
const modulesWithoutSecrets = (commonDir: string): Mount[] => {
  const covered: Mount[] = [];
  /** A submodule's name may have slashes, and it may have submodules of its own. */
  const visit = (folder: string, depth: number): void => {
    for (const name of namesIn(join(commonDir, folder))) {
      if (covered.length > maxCovered || depth > 8) return;
      const below = join(folder, name);
      const isModule = statsAt(join(commonDir, below, "HEAD")) !== undefined;
      if (isModule) covered.push(...withoutSecrets(commonDir, commonDir, below));
      visit(isModule ? join(below, "modules") : below, depth + 1);
    }
  };
  visit("modules", 0);
  return covered.length > maxCovered ? [{ kind: "empty", to: join(commonDir, "modules") }] : covered;
};
