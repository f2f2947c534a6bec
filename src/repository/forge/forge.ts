import { z } from "zod";
import type { Comment, PullRequest } from "../repository.ts";

/**
 * The port to the program that a repository's host runs beside Git, for pull requests between branches of that one
 * repository. All methods reject with `RepositoryAway` if another try is worth it, else with `ForgeRefused`.
 */
export interface Forge {
  /** The newest open pull request of a branch, else the newest; undefined: it has none. */
  find(branch: string, base: string, signal: AbortSignal): Promise<Found | undefined>;
  /** Opens a pull request. "exists": the branch has an open one, which somebody else opened meanwhile. */
  open(wanted: Wanted, signal: AbortSignal): Promise<Found | "exists">;
  /** Updates a pull request. `draft`: its present state, since a person may have made it ready. */
  update(number: number, text: Text, signal: AbortSignal): Promise<Found>;
  /** Adds labels to a pull request, and keeps those that it has. */
  label(number: number, labels: readonly string[], signal: AbortSignal): Promise<void>;
  /** Whether an issue has a comment with this mark, among those written or changed `since`. */
  isSaid(comment: Comment, signal: AbortSignal): Promise<boolean>;
  /** Writes a comment on an issue. */
  say(comment: Comment, signal: AbortSignal): Promise<void>;
  /** The pull request of this number; undefined: there is none. */
  read(number: number, signal: AbortSignal): Promise<Found | undefined>;
}

export type Text = { title: string; body: string; draft: boolean };

/** `branch`, `base`: short names. */
export type Wanted = Text & { branch: string; base: string };

/** `head`: the commit of its branch. */
export type Found = PullRequest & { head: string; draft: boolean };

/**
 * The address of a repository at its forge. `api` has no slash at its end, `path` none at its beginning, and no `.git`.
 */
export type ForgePlace = { api: string; path: string; token: string };

/** A URL that a browser may be sent to. */
export const webURL = z.url({ protocol: /^https?$/ }).max(2000);
