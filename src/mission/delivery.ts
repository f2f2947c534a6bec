import { workOf } from "../domain/mission/plan.ts";
import { deliveredBy, type MissionState } from "../domain/state/mission.ts";
import type { EventData } from "../protocol/event/event.ts";
import { counted, shareRoom } from "../tool/result.ts";

/** What a phase delivered. A correction's report does not repeat what it corrects, so both are told. */

type End = EventData["task.ended"];

/** All ends of a phase that changed something, and the one that was completed last; the newest last. */
export const deliveriesOf = (state: MissionState, phaseID: string): End[] => {
  const work = workOf(state, phaseID);
  const newest = work.flatMap((task) => deliveredBy(task) ?? []).at(-1);
  return work
    .flatMap(({ ends }) => ends)
    .filter((end) => end === newest || (end.outcome === "completed" && hasChanged(end)));
};

/** Without Git nothing lands, so the changed files decide there. */
const hasChanged = ({ landedCommit, evidence }: End): boolean =>
  landedCommit !== null || (evidence?.diffStat?.files ?? 0) > 0;

/** A report cut to fewer characters says nothing. */
const leastWords = 75;

/**
 * How many characters of each report are told. Where the room is short, the first report, which says what the work is,
 * and the newest ones share it; those in between get 0.
 */
export const sharedAmong = (reports: readonly string[], room: number): number[] => {
  const lengths = reports.map(({ length }) => length);
  const newest = reports.length - 1;
  const most = lengths.reduce((total, length) => total + length, 0) <= room ? reports.length : room / leastWords;
  const isTold = (at: number): boolean => at === newest || (most >= 2 && (at === 0 || newest - at < most - 1));
  return shareRoom(
    lengths.map((length, at) => (isTold(at) ? length : 0)),
    room,
    0,
  );
};

/**
 * The change of all ends together; undefined: none has a diff stat. The number of files is left out where several ends
 * changed files and not all of those are named.
 */
export const changeOf = (ends: readonly End[]): string | undefined => {
  const stats = ends.flatMap(({ evidence }) =>
    evidence?.diffStat == null ? [] : [{ ...evidence.diffStat, named: evidence.files ?? [] }],
  );
  const [only, ...more] = stats;
  if (only === undefined) return undefined;
  const lines = `+${sum(stats, "insertions")} -${sum(stats, "deletions")}`;
  if (more.length === 0) return `${counted(only.files, "file")} ${lines}`;
  if (stats.some(({ files, named }) => named.length < files)) return lines;
  return `${counted(new Set(stats.flatMap(({ named }) => named.map(({ path }) => path))).size, "file")} ${lines}`;
};

const sum = <K extends string>(stats: readonly Record<K, number>[], name: K): number =>
  stats.reduce((total, stat) => total + stat[name], 0);
