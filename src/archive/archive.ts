import type { MissionState } from "../domain/state/mission.ts";
import type { TaskState } from "../domain/state/task.ts";
import type { Limits } from "../protocol/limit.ts";
import type { MissionStatus } from "../protocol/mission/status.ts";
import type { Secrets } from "../redact.ts";
import type { Repositories } from "../repository/repository.ts";
import type { Store } from "../store/store.ts";
import type { ArchiveFile } from "../task/tasks.ts";
import type { Workspaces } from "../workspace/workspace.ts";

/** What archives are built from. */
export type ArchiveDeps = {
  store: Store;
  workspaces: Workspaces;
  repositories: Pick<Repositories, "local" | "has" | "fetch" | "unpack">;
  limits: Limits;
  /** Removes secrets from the execution flow, in addition to those that the store removed. */
  redact: (text: string) => string;
  /** Whether `redact` would leave this text unchanged. */
  isClean: Secrets["isClean"];
};

/**
 * Builds project archives: one ZIP with the tracked files of a project and the record of the work in it. The same Task
 * or Mission in the same state gives the same bytes.
 *
 * Both methods resolve to a finished ZIP in a temporary file; dispose it to remove the file. They reject with
 * `not_a_git_worktree`, with `rate_limited` while `limits.archives` are being built or sent, with `internal` after
 * `limits.archiveSeconds`, and with the signal's reason when `signal` aborts. Files beyond the archive's limits are
 * left out and listed in its manifest. A crash leaves at most the temporary file.
 */
export type Archiver = {
  /** The Task's tree, execution flow, logs and artifacts, as of `state`. */
  ofTask: (state: TaskState, signal: AbortSignal) => Promise<ArchiveFile>;
  /**
   * As of `state`: the project's tracked files on disk, or those of the branch on which the Mission's Tasks land; the
   * execution flow and logs of the Mission, and of each of its Tasks.
   */
  ofMission: (state: MissionState, status: MissionStatus, signal: AbortSignal) => Promise<ArchiveFile>;
};
