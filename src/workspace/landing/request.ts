import type { Git } from "../git/git.ts";
import type { WorktreeRecord } from "../record.ts";
import type { LandingPlan } from "../workspace.ts";

/** The input of a landing. */

/** Called before every operation; a test throws or ends the process there. */
export type OnStep = (name: string) => void;

export type LandRequest = {
  taskID: string;
  record: WorktreeRecord;
  /** The folder of the Task's worktree and of `kept`. */
  home: string;
  /** The Task's worktree, where the bytes come from. */
  worktree: string;
  /** git in the project's own files. */
  git: Git;
  plan: LandingPlan;
  /** The folder of bytes by their hash: those of files that the user had edited, and of their merges. */
  kept: string;
  /** Stamp of the index at the time of the plan; undefined after a restart. */
  indexStamp: string | undefined;
  /** Why the landing is to be taken back, unless the branch already has its commit; undefined: carry it out. */
  back?: string | undefined;
  /** Aborts when the service stops: a landing that has not changed a file yet is then given up. */
  signal?: AbortSignal | undefined;
  step: OnStep;
  lockWaitMs: number;
};
