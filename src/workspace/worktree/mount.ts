import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { Mount, SandboxPlace } from "../../process/sandbox/place.ts";
import type { WorktreeRecord } from "../record.ts";
import { most, statsAt, textAt } from "../file/bounded-read.ts";
import { FileRefused } from "../file/folder.ts";
import { alternatesIn } from "../git/answer.ts";
import { repositoryOf } from "../git/repository.ts";

/** Where commands see the files of a worktree or a directory, and the repository with them. */

/** Where a worktree's repository is inside the sandbox. */
export const gitAt = "/run/sortie/git";

/** Shows a Task's worktree at the path of the project's own checkout, which is not visible. */
export const worktreeMounts = (worktree: string, record: WorktreeRecord): SandboxPlace => ({
  tree: worktree,
  at: record.toplevel,
  under: () => [],
  over: () => [
    { kind: "ro", from: record.commonDir, to: gitAt },
    ...withoutSecrets(record.commonDir, gitAt),
    ...(statsAt(join(record.commonDir, "modules"))?.isDirectory() === true
      ? [{ kind: "empty", to: join(gitAt, "modules") } as const]
      : []),
    ...alternatesOf(record.commonDir),
    {
      kind: "text",
      text: `gitdir: ${join(gitAt, record.gitDir.slice(record.commonDir.length + 1))}\n`,
      to: join(record.toplevel, ".git"),
    },
  ],
});

/** Shows the user's own directory; its repository and nested ones are read-only. */
export const directoryMounts = (directory: string): SandboxPlace => ({
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
    const nested = nestedGits(directory).map((path): Mount => ({ kind: "ro", from: path, to: path }));
    if (found === undefined) return nested;
    const { toplevel, commonDir } = found;
    const dotGit = join(toplevel, ".git");
    const outside = commonDir === dotGit ? [] : [commonDir];
    return [
      ...nested,
      ...[dotGit, ...outside].map((path): Mount => ({ kind: "ro", from: path, to: path })),
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

const keptSections = new Set(["core", "extensions"]);
const keptKeys =
  /^\s*(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol|safecrlf|objectformat|refstorage|compatobjectformat|partialclone|worktreeconfig)\s*(=|$)/i;

/** What is no file, or far too long for one, shows nothing. */
const textOf = (file: string): string => {
  try {
    return textAt(file, most.config) ?? "";
  } catch (error) {
    if (error instanceof FileRefused) return "";
    throw error;
  }
};

/**
 * The part of a git config that is needed to read the repository, without remotes with tokens, headers, helpers and
 * programs.
 */
export const plainConfig = (file: string): string => {
  const text = textOf(file);
  const lines: string[] = [];
  let kept = false;
  for (const line of text.split("\n")) {
    const section = /^\s*\[\s*([A-Za-z0-9.-]+)\s*("(?:[^"\\]|\\.)*")?\s*\]\s*$/.exec(line);
    if (section !== null || /^\s*\[/.test(line)) {
      const name = section?.[1]?.toLowerCase() ?? "";
      kept = keptSections.has(name) && section?.[2] === undefined;
      if (kept) lines.push(`[${name}]`);
    } else if (kept && keptKeys.test(line) && !line.endsWith("\\")) lines.push(line);
  }
  return `${lines.join("\n")}\n`;
};
