import { realpathSync } from "node:fs";
import { defaultAuthor, type Author } from "../git/hardened.ts";
import type { Command, CommandResult, Processes } from "../../process/process.ts";
import { insideOf, type SandboxPlace } from "../../process/sandbox/place.ts";
import { shellQuote } from "../../shell-quote.ts";
import { createTreeGit, type TreeGit } from "../tree/tree-git.ts";
import { removeLocks } from "../tree/git-dir.ts";
import type { Program } from "../workspace.ts";
import { excludesAt, gitAt } from "./mount.ts";

/** Runs commands and git inside a Task's files, in its sandbox. */

/**
 * Runs a command. Its `cwd` may be a path as the command sees it. A `cwd` outside the root, such as through a link, is
 * refused: the command ends as `not-started`.
 */
export const runInside = (
  processes: Pick<Processes, "run">,
  { taskID, root, place }: { taskID: string; root: string; place: SandboxPlace },
  given: Command,
): Promise<CommandResult> => {
  const command = { ...given, cwd: insideOf({ tree: place.at, at: place.tree }, given.cwd) ?? given.cwd };
  let real: string | undefined;
  try {
    real = realpathSync(command.cwd);
  } catch {}
  if (real === undefined || real === root || real.startsWith(`${root}/`)) return processes.run(taskID, command, place);
  const output = `Expected a folder inside ${root}, got ${real}.`;
  return Promise.resolve({ exitCode: null, output, stdout: "", dropped: 0, ended: "not-started", durationMs: 0 });
};

/** A line of bash that replaces the shell by the program. */
export const programLine = (
  processes: Pick<Processes, "program">,
  { name, path }: Program,
  args: readonly string[],
): string => `exec ${[processes.program(name) ?? path, ...args].map(shellQuote).join(" ")}`;

export type TreeGitRequest = {
  processes: Pick<Processes, "run" | "tier">;
  /** The Task or fork that the processes and sandboxes belong to. */
  taskID: string;
  /** Where git runs, at the tree's top or below. */
  root: string;
  tree: string;
  gitDir: string;
  place: SandboxPlace;
  /**
   * Names a sandbox for this git alone, closed after use, for callers other than the Task's run; undefined: the Task's
   * own.
   */
  apart: string | undefined;
  /** Whether the Task was given dependency folders. */
  excluded: boolean;
  path: string;
  author: Author | undefined;
  onSpawn: ((args: readonly string[]) => void) | undefined;
};

/**
 * The owner of sandboxes that callers other than the Task's run open. It differs from the Task's id, because the end of
 * a run closes the Task's own sandboxes, and others may be reading in theirs at that time.
 */
export const readerSandboxOwner = (taskID: string): string => `${taskID}~`;

/** git over a tree of the service's, in the Task's sandbox. */
export const treeGitOf = (request: TreeGitRequest): TreeGit => {
  const { processes, taskID, root, tree, gitDir, place, apart, excluded, path, author = defaultAuthor } = request;
  const confined = processes.tier === 1;
  const seen = confined ? gitAt : gitDir;
  return createTreeGit({
    root,
    toplevel: confined ? place.at : tree,
    gitDir: seen,
    objects: `${seen}/objects`,
    scratch: { own: gitDir, seen },
    excludes: excluded ? (confined ? excludesAt : `${tree}.exclude`) : undefined,
    refresh: true,
    removeLocks: () => removeLocks(gitDir),
    run: (command) =>
      apart === undefined
        ? runInside(processes, { taskID, root: tree, place }, { ...command, own: true })
        : runInside(
            processes,
            { taskID: readerSandboxOwner(taskID), root: tree, place },
            { ...command, apart, unheld: true, own: true },
          ),
    path,
    author,
    ...(request.onSpawn === undefined ? {} : { onSpawn: request.onSpawn }),
  });
};
