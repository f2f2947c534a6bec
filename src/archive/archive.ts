import type { MissionState } from "../domain/state/mission.ts";
import type { TaskState } from "../domain/state/task.ts";
import type { Limits } from "../protocol/limit.ts";
import type { MissionStatus } from "../protocol/mission/status.ts";
import type { Store } from "../store/store.ts";
import type { ArchiveFile } from "../task/tasks.ts";
import type { Workspaces } from "../workspace/workspace.ts";

/** The port. */

export type ArchiveDeps = {
  store: Store;
  workspaces: Workspaces;
  limits: Limits;
  /** Takes secrets out of the execution flow once more. */
  redact: (text: string) => string;
};

export type Archiver = {
  ofTask: (state: TaskState, signal: AbortSignal) => Promise<ArchiveFile>;
  ofMission: (state: MissionState, status: MissionStatus, signal: AbortSignal) => Promise<ArchiveFile>;
};
