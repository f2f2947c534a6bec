import type { Git } from "../git/git.ts";
import type { WorktreeRecord } from "../record.ts";
import type { LandingPlan } from "../workspace.ts";

/** What a landing is given, and what it comes to. */

/** Told before every operation; a test throws or ends the process there. */
export type OnStep = (name: string) => void;

export type LandRequest = {
  taskID: string;
  origin: WorktreeRecord;
  /** The Task's worktree, where the bytes come from. */
  worktree: string;
  /** git in the project's own files. */
  git: Git;
  plan: LandingPlan;
  /** Bytes by their hash: what the user had edited, and what it was merged to. */
  kept: string;
  /** The index as the plan saw it; undefined after a restart. */
  indexStamp: string | undefined;
  step: OnStep;
  lockWaitMs: number;
};

export type Landed = { ok: true; kept: string[] } | { ok: false; reason: string };
