import { z } from "zod";
import type { Comment, PullRequest } from "../repository.ts";

/**
 * The port to the program that a repository's host runs beside Git, for pull requests between branches of that one
 * repository. All reject with `RepositoryAway` where another try is worth it, else with `ForgeRefused`.
 */
export interface Forge {
  /** The newest pull request of a branch, an open one before all others. */
  find(branch: string, base: string, signal: AbortSignal): Promise<Found | undefined>;
  /** "exists": the branch has an open one, which somebody else opened meanwhile. */
  open(wanted: Wanted, signal: AbortSignal): Promise<Found | "exists">;
  /** `draft`: as it is; a person may have made it ready. */
  update(number: number, text: Text, signal: AbortSignal): Promise<Found>;
  /** Adds labels to a pull request; those that it has stay. */
  label(number: number, labels: readonly string[], signal: AbortSignal): Promise<void>;
  /** Whether an issue has a comment with this mark, of those that were written or changed `since`. */
  isSaid(comment: Comment, signal: AbortSignal): Promise<boolean>;
  /** Writes below an issue. */
  say(comment: Comment, signal: AbortSignal): Promise<void>;
  /** undefined: there is none of this number. */
  read(number: number, signal: AbortSignal): Promise<Found | undefined>;
}

export type Text = { title: string; body: string; draft: boolean };

/** `branch`, `base`: short names. */
export type Wanted = Text & { branch: string; base: string };

/** `head`: the commit of its branch. */
export type Found = PullRequest & { head: string; draft: boolean };

/** Where a repository is for its forge. `api` has no slash at its end, `path` none at its beginning, and no `.git`. */
export type ForgePlace = { api: string; path: string; token: string };

/** What a browser may be sent to. */
export const webURL = z.url({ protocol: /^https?$/ }).max(2000);
