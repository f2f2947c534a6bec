import type { Now } from "../protocol/field.ts";

/**
 * How long what Tasks of a project do usually takes: the median of the last times that it was done here. In memory
 * only, so that after a start nothing is unusual until it was seen a few times.
 */

const fewest = 3;
const kept = 15;
const mostKeys = 2000;

/** What takes its time by itself; a wait for somebody or something else has no usual length. */
const timed: ReadonlySet<Now["kind"]> = new Set(["setup", "model", "tool", "check", "review", "landing"]);

const durations = new Map<string, number[]>();

const keyOf = (project: string, { kind, text }: Now): string => `${project}\n${kind}\n${text}`;

/** `before` has ended at this time, and `after` has begun. What somebody stopped says nothing. */
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

/** In milliseconds; undefined: it was not seen often enough. */
export const usualOf = (project: string, now: Now): number | undefined => {
  const known = durations.get(keyOf(project, now));
  if (known === undefined || known.length < fewest) return undefined;
  return known.toSorted((a, b) => a - b)[Math.floor(known.length / 2)];
};
