import type { TaskBoard } from "../../../../src/protocol/task/board.ts";
import type { CheckState } from "../../../../src/protocol/task/status.ts";
import { count, short } from "../../format.ts";

/** The outcome of an ended Task in a sentence, and the git commands that get at its result. */

type Task = TaskBoard["task"];

/** A longer first sentence is continued below the headline. */
const longestHeadline = 200;

/** The error's first sentence, and the rest. */
const splitError = (error: string): [string, string] => {
  const end = /(?<=[.!?])\s+(?=\S)|\n+/.exec(error)?.index ?? error.length;
  if (end <= longestHeadline) return [error.slice(0, end), error.slice(end).trim()];
  const space = error.lastIndexOf(" ", longestHeadline);
  const cut = space > longestHeadline / 2 ? space : longestHeadline;
  return [`${error.slice(0, cut)} …`, `… ${error.slice(cut).trim()}`];
};

const last = <T>(values: readonly T[]): T | undefined => values.at(-1);

/** The outcome in a sentence, and what there is to add to it. */
export const outcomeOf = (board: TaskBoard): { words: string; more: string } => {
  const { task } = board;
  if (task.lifecycleStatus !== "completed") return failureOf(board);
  const plain = (words: string) => ({ words, more: "" });
  if (task.isolation === "directory") return plain("The files were edited in place");
  const landed = last(task.git.landings);
  if (task.git.landedCommit === null || landed === undefined) return plain("Nothing changed");
  const verb = task.repository === null ? "Committed" : "Pushed";
  return plain(`${verb} \`${short(task.git.landedCommit)}\` to \`${landed.branch}\``);
};

const failureOf = (board: TaskBoard): { words: string; more: string } => {
  const { error = "", errorInfo } = board.task;
  const failing = failingOf(board);
  // The failed checks are listed below, each with its reason.
  if (errorInfo?.code === "checks_failed" && failing.length > 0)
    return { words: `${failing.length} of ${count(board.checks.length, "check")} failed`, more: "" };
  // The code at the beginning of the message is for programs.
  const [words, rest] = splitError(error.replace(/^NEEDS_MODEL: t/, "T"));
  const remedy = errorInfo?.remedy;
  return {
    words: words || "It ended without giving a reason",
    more: [rest, remedy == null || error.includes(remedy) ? "" : remedy].filter(Boolean).join(" "),
  };
};

const quoted = (word: string): string =>
  /^[\w./:@+-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;

export type GitCommand = { words: string; command: string };

/** The commands to see, take or undo the result; empty: there is nothing in Git. */
export const commandsOf = ({ directory, repository, landing, git }: Task): GitCommand[] => {
  const landed = last(git.landings);
  const branch = landed?.branch ?? git.branch;
  if (repository !== null) {
    if (landed === undefined) return [];
    const from = `git fetch ${quoted(repository.url)} ${quoted(landed.branch)}`;
    return [{ words: "Check out", command: `${from} && git switch --detach FETCH_HEAD` }];
  }
  const at = `git -C ${quoted(directory)}`;
  if (landed !== undefined && landing === "commit")
    return [
      { words: "Show", command: `${at} show ${short(landed.commit)}` },
      { words: "Undo", command: `${at} revert ${short(landed.commit)}` },
    ];
  if (branch === null || git.headCommit === null || (git.diffStat?.files ?? 0) === 0) return [];
  return [
    { words: "Check out", command: `${at} switch ${quoted(branch)}` },
    { words: "Merge", command: `${at} merge ${quoted(branch)}` },
  ];
};

/** `lines`: the known part of the check's output, shown until its log is loaded. */
export type Failing = Pick<CheckState, "id" | "name" | "exitCode" | "round" | "state"> & { lines: string };

/** The failed checks that decided against the Task. */
export const failingOf = (board: TaskBoard): Failing[] =>
  board.checks
    .filter(({ state, required, gates }) => (state === "failed" || state === "error") && (required || gates))
    .map(({ id, name, exitCode, round, state }) => {
      const seen = board.task.goals
        .flatMap(({ evidence }) => evidence)
        .findLast((piece) => piece.kind === "check" && piece.id === id);
      return { id, name, exitCode, round, state, lines: seen?.lastLines ?? "" };
    });
