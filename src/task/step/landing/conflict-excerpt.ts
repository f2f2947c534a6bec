import type { EventData } from "../../../protocol/event/event.ts";
import { counted, markForeign, truncateMiddle } from "../../../tool/result.ts";
import { conflictPlaces } from "../../../workspace/rebase/conflict.ts";
import type { Run } from "../../run.ts";

/**
 * Both sides of each landing conflict that an agent has resolved since, for the reviewer. Only they show whether the
 * resolution keeps both, because a diff against the project shows only one of the sides.
 */

/** Characters of one place, and of all places together. */
const longestPlace = 4000;
const longestAll = 24_000;

/** How many paths of one conflict are examined. */
const mostPaths = 50;

type Conflicted = EventData["landing.conflicted"];

/** One item for each conflict since the last landing, newest first; empty: there was none. */
export const conflictsBefore = async (run: Run): Promise<string[]> => {
  if (run.state().conflicts.length === 0) return [];
  const events = await run.store.read(run.state().taskID, { types: ["landing.conflicted", "landing.finished"] });
  const landed = events.findLastIndex(({ type }) => type === "landing.finished");
  const all = events.slice(landed + 1).flatMap((event) => (event.type === "landing.conflicted" ? [event.data] : []));
  // A conflict on the same base is the one before, with markers that were left.
  const met = all.filter(({ baseCommit }, at) => all[at - 1]?.baseCommit !== baseCommit);
  const told: string[] = [];
  let room = longestAll;
  for (const conflict of met.toReversed()) {
    const text = await placesOf(run, conflict, Math.max(0, room));
    room -= text.length;
    told.push(markForeign(`both sides of the conflict in round ${conflict.round}`, text));
  }
  return told;
};

const placesOf = async (run: Run, { paths, commit, baseCommit }: Conflicted, room: number): Promise<string> => {
  const workspace = await run.workspace();
  const looked = paths.slice(0, mostPaths);
  const [marked, project] = await Promise.all([
    workspace.texts(commit, looked, run.signal),
    workspace.texts(baseCommit, looked, run.signal),
  ]);
  const shown: string[] = [];
  const left: string[] = [];
  let rest = room;
  for (const path of looked) {
    const places = conflictPlaces(marked.get(path) ?? "");
    const texts =
      places.length === 0
        ? [`${path}: ${unmarked(project.has(path))}`]
        : places.map((place) => `${path}, ${truncateMiddle(place, "the rest is not shown", longestPlace)}`);
    for (const text of texts) {
      rest -= text.length;
      if (rest >= 0) shown.push(text);
      else left.push(path);
    }
  }
  const more = [...new Set(left), ...paths.slice(mostPaths)];
  return [
    ...shown,
    ...(more.length === 0 ? [] : [`Not shown here: places in ${counted(more.length, "file")}, ${namesOf(more)}.`]),
  ].join("\n\n");
};

const mostNames = 20;

const namesOf = (paths: readonly string[]): string =>
  `${paths.slice(0, mostNames).join(", ")}${paths.length > mostNames ? " and others" : ""}`;

const unmarked = (isThere: boolean): string =>
  isThere
    ? "no lines stand between markers; the project has this file, and one side removed or renamed it, or it is no text."
    : "no lines stand between markers; the project does not have this file, which this Task changed.";
