import type { Touched } from "../../tool/tool.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { newFindings, type Finding, maxCounts, type Known, knownOf, minCounts } from "./finding.ts";

/**
 * The port of checkers, which look at the files after edits: one program of the project in one folder. Its findings are
 * hints: a checker that cannot start, answers nothing or takes too long ends, and nothing else happens.
 */
export interface Checker {
  /** Its name in results. */
  readonly name: string;
  readonly covers: (path: string) => boolean;
  /** Begins to find out what is there before an edit of this file. Cheap once it has begun. */
  warm(path: string): void;
  /** Looks at the files as they are now. Resolves when the look has ended, or never will. Never rejects. */
  look(touched: readonly Touched[]): Promise<void>;
  /** The findings that are new since the last call; empty while nothing is known. */
  take(): News;
  /** Milliseconds that a look usually takes; undefined: not known. */
  usual(): number | undefined;
  /** Resolves when its processes are gone. */
  end(): Promise<void>;
}

/** `unsure`: some findings may have been there before, because nothing was known of the files before the first edit. */
export type News = { findings: Finding[]; unsure: boolean };

/** Failures after which a checker is given up; it does not begin again in the run. */
export const mostFailures = 2;

/** Where a checker runs. */
export type Place = {
  workspace: Pick<Workspace, "run" | "root" | "rootInSandbox">;
  /** Relative to the root, "" for the root. */
  folder: string;
};

/**
 * The findings that were there before any edit, and those that have been told since. The former are never new again,
 * even if they were out of sight for a while, as behind a syntax error. A finding that was told is new again when it
 * has gone and comes back.
 */
export const createLedger = () => {
  let before: Known | undefined;
  let said: Known = new Map();
  let now: readonly Finding[] = [];
  let unsure = false;
  /** Files that were changed before anything was known. */
  const early = new Set<string>();
  return {
    isKnown: () => before !== undefined,
    touch(paths: Iterable<string>) {
      if (before === undefined) for (const path of paths) early.add(path);
    },
    /** Takes in all findings of a look that has ended. */
    found(findings: readonly Finding[]) {
      now = findings;
      if (before === undefined) {
        unsure = early.size > 0;
        before = knownOf(findings.filter(({ path }) => !early.has(path)));
      }
      said = minCounts(said, knownOf(findings));
    },
    /** Whether `take` would return findings. */
    hasNews: () => before !== undefined && newFindings(now, maxCounts(before, said)).length > 0,
    take(): News {
      if (before === undefined) return { findings: [], unsure: false };
      const fresh = newFindings(now, maxCounts(before, said));
      if (fresh.length === 0) return { findings: [], unsure: false };
      said = knownOf(now);
      const news = { findings: fresh, unsure };
      unsure = false;
      return news;
    },
  };
};
