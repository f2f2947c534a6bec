import type { Now } from "../protocol/field.ts";

/**
 * How long a project's usual steps take: the median of their last durations on this service. Kept in memory only, so
 * after a start nothing is unusual until it has been seen a few times.
 */

const fewest = 3;
const kept = 15;
const mostKeys = 2000;

/** Steps whose duration is their own. A wait for a person or for something else has no usual length. */
const timed: ReadonlySet<Now["kind"]> = new Set(["setup", "model", "tool", "check", "review", "landing"]);

const durations = new Map<string, number[]>();

const keyOf = (project: string, { kind, text }: Now): string => `${project}\n${kind}\n${text}`;

/** Learns from `before`, which ended at `at` when `after` began. A step that somebody stopped is not counted. */
export const learnUsual = (project: string, before: Now | null, after: Now | null, at: string): void => {
  if (before === null || before === after || !timed.has(before.kind) || after?.kind === "stop") return;
  if (after?.kind === before.kind && after.since === before.since) return;
  const key = keyOf(project, before);
  const known = durations.get(key) ?? [];
  durations.delete(key);
  const [oldest] = durations.size >= mostKeys ? durations.keys() : [];
  if (oldest !== undefined) durations.delete(oldest);
  durations.set(key, [...known, Math.max(0, Date.parse(at) - Date.parse(before.since))].slice(-kept));
};

/** In milliseconds; undefined: too few durations are known. */
export const usualOf = (project: string, now: Now): number | undefined => {
  const known = durations.get(keyOf(project, now));
  if (known === undefined || known.length < fewest) return undefined;
  return known.toSorted((a, b) => a - b)[Math.floor(known.length / 2)];
};
