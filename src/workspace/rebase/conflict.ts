import { retryWithOpenedFolders } from "../tree/closed.ts";
import { diffArgs } from "../object/tree-change.ts";
import { readFileState } from "../file/inspect.ts";
import { overwriteFile } from "../file/replace.ts";
import type { Git } from "../git/git.ts";
import { mostBytes } from "../object/merge-text.ts";
import { changesOf } from "../object/tree-change.ts";
import { type MergeResult, mergeOnto } from "../object/rebase.ts";
import type { SnapshotResult } from "../worktree/snapshot.ts";
import type { MarkedRebase } from "../workspace.ts";
import { type Commit, commitOf } from "../object/commit.ts";

/**
 * Applies a conflicting change on top of what the project holds now, uncommitted work included. Where both sides
 * changed the same lines, the file has both between conflict markers, for an agent to resolve.
 */

export const projectSide = "the project now";
export const baseSide = "where you began";
export const taskSide = "your change";

/** Maximum length of the project's diff, characters. */
const mostShown = 12_000;

export type MarkedRebaseRequest = {
  /** git over the files, and on the project's objects. */
  git: Git;
  objects: Git;
  worktree: string;
  taken: SnapshotResult;
  baseTree: string;
  commit: Commit;
  message: string;
  /** Paths that could not be merged in the user's files. */
  dirty: readonly string[];
};

/** `before` is called with the new commit before the worktree is changed. */
export const rebaseWithMarkers = async (
  request: MarkedRebaseRequest,
  before: (commit: string) => Promise<void>,
): Promise<MarkedRebase> => {
  const { git, objects, worktree, taken, baseTree, commit, message, dirty } = request;
  // An ignored or skipped file is in no snapshot, so an agent could not see what is in its way.
  const uncommitted = (await changesOf(objects, taken.head, taken.commit)).map(({ path }) => path);
  // The files in the way may have been committed since.
  const committed = (await changesOf(objects, commit.parent, taken.head)).map(({ path }) => path);
  const seen = [...uncommitted, ...committed];
  const unseen = dirty.filter((path) => !seen.some((other) => other === path || other.startsWith(`${path}/`)));
  if (unseen.length > 0) return { ok: false, paths: unseen };

  const merged = await mergeOnto(objects, commit, taken.commit);
  const made = await commitOf(objects, merged.tree, taken.commit, message);
  await before(made);
  await retryWithOpenedFolders(worktree, async () => {
    await git.run(["reset", "-q", "--hard", made], { timeoutMs: 10 * 60_000 });
    await git.run(["clean", "-q", "-d", "-f", "-f"]);
  });
  for (const path of merged.conflicts) await relabel(worktree, path, merged);
  const paths = [...new Set([...merged.conflicts, ...dirty])].sort();
  const listed = paths.filter((path) => path.isWellFormed()).slice(0, 50);
  const diff = await objects.run([...diffArgs, commit.parent, taken.commit, "--", ...listed]);
  return {
    ok: true,
    paths,
    said: merged.said,
    uncommitted: paths.filter((path) => uncommitted.includes(path)),
    theirs: diff.stdout.toString("utf8").slice(0, mostShown),
    baseCommit: taken.commit,
    baseTree,
    ...(taken.tree === undefined && taken.omitted.length === 0
      ? {}
      : { snapshot: { head: taken.head, untracked: taken.untracked, omitted: taken.omitted } }),
    commit: made,
    tree: merged.tree,
  };
};

/** Replaces git's names of the sides, which are commit ids, by labels that make sense to the reader. */
const relabel = async (worktree: string, path: string, { ours, theirs }: MergeResult): Promise<void> => {
  const there = await readFileState(worktree, path, mostBytes);
  if (there.kind !== "present" || there.content.mode === "120000") return;
  const { bytes } = there.content;
  const lines = [
    ...markersIn(bytes, `<<<<<<< ${ours}`).map((line) => ({ ...line, text: line.text.replace(ours, projectSide) })),
    ...markersIn(bytes, `>>>>>>> ${theirs}`).map((line) => ({ ...line, text: line.text.replace(theirs, taskSide) })),
    ...markersIn(bytes, "||||||| ").map((line) => ({
      ...line,
      text: line.text.replace(/^\|{7} (?:[0-9a-f]{7,64}|empty tree)/, `||||||| ${baseSide}`),
    })),
  ].sort((one, other) => one.from - other.from);
  const parts: Buffer[] = [];
  let at = 0;
  for (const { from, to, text } of lines) {
    parts.push(bytes.subarray(at, from), Buffer.from(text, "latin1"));
    at = to;
  }
  const named = Buffer.concat([...parts, bytes.subarray(at)]);
  // A crash here leaves the base unrecorded, and the worktree is then checked out again.
  if (!named.equals(bytes)) await overwriteFile(worktree, path, named);
};

/** Most characters of a marker's line that are read; git's lines are shorter. */
const longestMarker = 1000;

/** The lines that begin with `mark`, each up to the length that a marker may have. */
const markersIn = (bytes: Buffer, mark: string): { from: number; to: number; text: string }[] => {
  const lines: { from: number; to: number; text: string }[] = [];
  for (let at = bytes.indexOf(mark); at >= 0; at = bytes.indexOf(mark, at + mark.length)) {
    if (at > 0 && bytes[at - 1] !== 0x0a) continue;
    const end = bytes.subarray(at, at + longestMarker).indexOf(0x0a);
    const to = end < 0 ? Math.min(bytes.length, at + longestMarker) : at + end;
    lines.push({ from: at, to, text: bytes.toString("latin1", at, to) });
  }
  return lines;
};

/** The paths, of those given, that still have our conflict markers. */
export const unresolvedIn = async (worktree: string, paths: readonly string[]): Promise<string[]> => {
  const marks = [`<<<<<<< ${projectSide}`, `||||||| ${baseSide}`, `>>>>>>> ${taskSide}`].map((mark) =>
    Buffer.from(mark),
  );
  const open: string[] = [];
  for (const path of paths) {
    const there = await readFileState(worktree, path, mostBytes);
    if (there.kind !== "present") continue;
    const { bytes } = there.content;
    if (marks.some((mark) => holdsLine(bytes, mark))) open.push(path);
  }
  return open;
};

/** Whether a line begins with `mark`. */
const holdsLine = (bytes: Buffer, mark: Buffer): boolean => {
  for (let at = bytes.indexOf(mark); at >= 0; at = bytes.indexOf(mark, at + mark.length))
    if (at === 0 || bytes[at - 1] === 0x0a) return true;
  return false;
};

// ---- Read back ---------------------------------------------------------------------------------------------------

/** The names of the sides for a reviewer, in the order of the markers. */
const labels = {
  "<": "<<<<<<< what the project had by then",
  "|": "||||||| what stood there before both",
  "=": "=======",
  ">": ">>>>>>> what this Task had",
} as const;

/** Lines shown before and after a place. */
const around = 3;

/**
 * The parts of a text that are between conflict markers, each with the number of its first line and the lines around
 * it.
 */
export const conflictPlaces = (text: string): string[] => {
  const lines = text.split("\n");
  const places: string[] = [];
  for (let at = 0; at < lines.length; at += 1) {
    if (markOf(lines[at] ?? "") !== "<") continue;
    const end = lines.findIndex((line, index) => index > at && markOf(line) === ">");
    if (end < 0) break;
    const marked = lines.slice(at, end + 1).map((line) => {
      const mark = markOf(line);
      return mark === undefined ? line : labels[mark];
    });
    const from = Math.max(0, at - around);
    const shown = [...lines.slice(from, at), ...marked, ...lines.slice(end + 1, end + 1 + around)];
    places.push(`at line ${at + 1}:\n${shown.join("\n")}`);
    at = end;
  }
  return places;
};

const markOf = (line: string): keyof typeof labels | undefined => {
  const found = /^(?:(<)<{6} |(\|)\|{6}(?: |\r?$)|(=)={6}\r?$|(>)>{6} )/.exec(line);
  return found?.slice(1).find((mark) => mark !== undefined) as keyof typeof labels | undefined;
};
