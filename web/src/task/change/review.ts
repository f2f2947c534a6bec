import { useSyncExternalStore } from "react";

/**
 * Comments on lines of a change. They stay in this tab until they are sent to the Task as one message, or discarded.
 */

export type Comment = {
  /** The place in the diff; there is at most one comment at each place. */
  key: string;
  path: string;
  /** null: on the whole file. */
  line: number | null;
  /** Whether the line was removed; `line` is then its number in the old file. */
  before: boolean;
  /** The code that the comment is about. */
  code: string;
  text: string;
};

const listeners = new Set<() => void>();
const known = new Map<string, readonly Comment[]>();
const none: readonly Comment[] = [];

const nameOf = (taskID: string): string => `sortie.review.${taskID}`;

const read = (taskID: string): readonly Comment[] => {
  const kept = known.get(taskID);
  if (kept !== undefined) return kept;
  let found = none;
  try {
    const parsed: unknown = JSON.parse(sessionStorage.getItem(nameOf(taskID)) ?? "[]");
    if (Array.isArray(parsed)) found = parsed as Comment[];
  } catch {}
  known.set(taskID, found);
  return found;
};

const write = (taskID: string, comments: readonly Comment[]): void => {
  known.set(taskID, comments);
  try {
    if (comments.length === 0) sessionStorage.removeItem(nameOf(taskID));
    else sessionStorage.setItem(nameOf(taskID), JSON.stringify(comments));
  } catch {}
  for (const listener of listeners) listener();
};

export const useReview = (taskID: string) => ({
  comments: useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => read(taskID),
  ),
  put: (comment: Comment) => write(taskID, [...read(taskID).filter(({ key }) => key !== comment.key), comment]),
  drop: (key: string) =>
    write(
      taskID,
      read(taskID).filter((comment) => comment.key !== key),
    ),
  clear: () => write(taskID, none),
});

const longestCode = 400;

/** The message to the Task: each comment with its file, its line, and the code there. */
export const messageOf = (comments: readonly Comment[]): string =>
  [
    "Review of the changes:",
    ...comments
      .toSorted((a, b) => a.path.localeCompare(b.path) || (a.line ?? 0) - (b.line ?? 0))
      .map(({ path, line, before, code, text }) =>
        [
          line === null ? `\`${path}\`` : `\`${path}\`, ${before ? "removed line" : "line"} ${line}`,
          ...(code.trim() === "" ? [] : [`> \`${code.trim().slice(0, longestCode).replaceAll("`", "'")}\``]),
          "",
          text.trim(),
        ].join("\n"),
      ),
  ].join("\n\n");
