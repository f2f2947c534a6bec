import type { Touched } from "../../tool/tool.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { beyond, type Finding, joined, type Known, knownOf, shared } from "./finding.ts";

/**
 * The port of those who look at the files: one program of the project in one folder. What it says is a hint: a checker
 * that cannot start, answers nothing or takes too long ends, and nothing else happens.
 */
export interface Checker {
  /** What it is called in results. */
  readonly name: string;
  readonly covers: (path: string) => boolean;
  /** Begins to find out what is there before an edit of this file. Cheap when it has begun. */
  warm(path: string): void;
  /** Looks at the files as they are now. Resolves when it has, or never will. Never rejects. */
  look(touched: readonly Touched[]): Promise<void>;
  /** What is new since it was last asked; empty while nothing is known. */
  take(): News;
  /** Milliseconds that it takes, as far as is known. */
  usual(): number | undefined;
  /** Resolves when its processes are gone. */
  end(): Promise<void>;
}

/** `unsure`: some of it may have been there before, because nothing was known of the files before the first edit. */
export type News = { findings: Finding[]; unsure: boolean };

/** A checker that is given up does not begin again in a run. */
export const mostFailures = 2;

/** What a checker needs of where it runs. */
export type Place = {
  workspace: Pick<Workspace, "run" | "root" | "rootInSandbox">;
  /** Below the root, "" for the root. */
  folder: string;
};

/**
 * What was there before, and what has been told since. The first is never new again, also where it was out of sight in
 * between, as behind a syntax error; what was told is new when it has gone and comes back.
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
    /** All that is there, as of a look that has ended. */
    found(findings: readonly Finding[]) {
      now = findings;
      if (before === undefined) {
        unsure = early.size > 0;
        before = knownOf(findings.filter(({ path }) => !early.has(path)));
      }
      said = shared(said, knownOf(findings));
    },
    /** Whether `take` would give something. */
    hasNews: () => before !== undefined && beyond(now, joined(before, said)).length > 0,
    take(): News {
      if (before === undefined) return { findings: [], unsure: false };
      const fresh = beyond(now, joined(before, said));
      if (fresh.length === 0) return { findings: [], unsure: false };
      said = knownOf(now);
      const news = { findings: fresh, unsure };
      unsure = false;
      return news;
    },
  };
};
