import type { ModelRef } from "../domain/agent.ts";
import type { StreamID } from "../domain/event.ts";
import type { MissionState } from "../domain/state/mission.ts";
import type { Engine } from "../engine/engine.ts";
import type { Log } from "../log.ts";
import type { MissionAbort, MissionWake } from "../protocol/mission/request.ts";
import type {
  MissionAborted,
  MissionAnswered,
  MissionStatus,
  MissionSummary,
  MissionWoken,
} from "../protocol/mission/status.ts";
import type { MessagePage } from "../protocol/task/board.ts";
import type { TaskAnswer } from "../protocol/task/request.ts";
import type { Catalog } from "../squad/catalog/catalog.ts";
import type { MissionQuery, Store } from "../store/store.ts";
import type { Accepted, ArchiveFile, IdempotencyKey, Tasks } from "../task/tasks.ts";
import type { Workspaces } from "../workspace/workspace.ts";

/** The port that HTTP calls; types only. */

/**
 * What the service does with Missions; HTTP calls these. Refusals reject with ServiceError and have written nothing. A
 * project and a Mission's id mean one Mission; without a directory the id must mean one in all.
 */
export interface Missions {
  wake(directory: string, body: MissionWake, once?: IdempotencyKey): Promise<Accepted<MissionWoken>>;
  list(directory: string | undefined, query: Omit<MissionQuery, "project">): Promise<MissionSummary[]>;
  status(directory: string, missionID: string): Promise<MissionStatus>;
  /** Its stream's id, for whoever follows it. */
  find(directory: string | undefined, missionID: string): Promise<StreamID>;
  messages(
    directory: string | undefined,
    missionID: string,
    page: { after: number; limit: number },
  ): Promise<MessagePage>;
  update(
    directory: string | undefined,
    missionID: string,
    patch: { title?: string; archived?: boolean },
  ): Promise<MissionSummary>;
  /** Stops its agent; nothing wakes it again but a wake. */
  abort(
    directory: string | undefined,
    missionID: string,
    body: MissionAbort,
    once?: IdempotencyKey,
  ): Promise<Accepted<MissionAborted>>;
  /** Its conversation goes, its Tasks stay. */
  remove(directory: string | undefined, missionID: string): Promise<void>;
  answer(
    directory: string | undefined,
    missionID: string,
    askID: string,
    body: TaskAnswer,
    once?: IdempotencyKey,
  ): Promise<Accepted<MissionAnswered>>;
  archive(directory: string, missionID: string, signal: AbortSignal): Promise<ArchiveFile>;
}

export type MissionsDeps = {
  store: Store;
  engine: Engine;
  tasks: Tasks;
  workspaces: Pick<Workspaces, "inspect">;
  catalog: Pick<Catalog, "find">;
  resolveModel: (ref: string | undefined) => ModelRef;
  checkDisk: () => Promise<void>;
  archive: (state: MissionState, status: MissionStatus, signal: AbortSignal) => Promise<ArchiveFile>;
  /** The server's word on squad production. */
  production: boolean | undefined;
  log: Log;
  now: () => Date;
};
