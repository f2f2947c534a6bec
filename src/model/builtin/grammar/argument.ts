/**
 * Checks words that become part of a command line: each must have a strict form before anything runs, and is quoted
 * nevertheless.
 */

/** A package of npm, PyPI, crates.io or a Go module: no option, no path outside, no white space, no shell syntax. */
export const nameProblem = (name: string): string | undefined =>
  name.length <= 214 && /^@?[A-Za-z0-9][A-Za-z0-9._~-]*(?:\/[A-Za-z0-9][A-Za-z0-9._~-]*)*$/.test(name)
    ? undefined
    : `expected the name of a package, got "${name.slice(0, 80)}"`;

const exact = /^v?\d{1,10}(?:\.\d{1,10}){1,3}(?:(?:[-+.]|(?=[a-z]))[0-9A-Za-z]+(?:[.+-][0-9A-Za-z]+)*)?$/;

export const versionProblem = (version: string): string | undefined =>
  version.length <= 100 && exact.test(version) && !/[.][xX*](?:[.]|$)/.test(version)
    ? undefined
    : `expected an exact version such as 1.2.3, got "${version.slice(0, 80)}"`;

/** A commit, tag or branch by a name that is no option and no range. */
const revision = /^[A-Za-z0-9_][A-Za-z0-9_./~^@{}+-]{0,199}$/;

export const isDate = (text: string): boolean => /^\d{4}-\d{2}-\d{2}$/.test(text);

export const sinceProblem = (since: string): string | undefined => {
  if (isDate(since))
    return Number.isNaN(Date.parse(`${since}T00:00:00Z`)) ||
      new Date(`${since}T00:00:00Z`).toISOString().slice(0, 10) !== since
      ? `expected a day of the calendar, got "${since}"`
      : undefined;
  return revision.test(since) && !since.includes("..")
    ? undefined
    : `expected a commit, a tag, a branch or a date as 2026-01-31, got "${since.slice(0, 80)}"`;
};
