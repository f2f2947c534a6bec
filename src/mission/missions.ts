import type { ModelRef } from "../domain/agent.ts";
import type { StreamID } from "../domain/event.ts";
import type { MissionState } from "../domain/state/mission.ts";
import type { Engine } from "../engine/engine.ts";
import type { Log } from "../log.ts";
import type { MissionAbort, MissionPlan, MissionWake } from "../protocol/mission/request.ts";
import type {
  MissionAborted,
  MissionAnswered,
  MissionPlanned,
  MissionStatus,
  MissionSummary,
  MissionWoken,
} from "../protocol/mission/status.ts";
import type { MessagePage } from "../protocol/task/board.ts";
import type { TaskAnswer } from "../protocol/task/request.ts";
import type { Limits } from "../protocol/limit.ts";
import type { Repositories } from "../repository/repository.ts";
import type { Catalog } from "../squad/catalog/catalog.ts";
import type { Disk } from "../store/disk/disk.ts";
import type { MissionQuery, Store } from "../store/store.ts";
import type { Accepted, Answerer, ArchiveFile, IdempotencyKey, TaskCreated, Tasks, TasksDeps } from "../task/tasks.ts";
import type { Workspaces } from "../workspace/workspace.ts";

/**
 * Operations and queries on Missions; the HTTP handlers and MCP call these.
 *
 * All methods reject with a `ServiceError` when they refuse, and have then written nothing. An operation is one commit,
 * unless its contract says otherwise: after a crash it has happened completely or not at all.
 *
 * A `missionID` is the caller's and names one Mission of a project. `directory` is the caller's text, not yet checked:
 * any folder of the project. Without it the id must name one Mission among all projects, otherwise
 * `directory_required`. An unknown id is `mission_not_found`; one that exists only in other projects is
 * `directory_mismatch`.
 *
 * `once` makes an operation idempotent, as for `Tasks`.
 */
export interface Missions {
  /**
   * Starts a Mission, or gives an existing one more direction; either way its agent becomes due. Concurrent wakes of a
   * new id create one Mission. With `body.repository`, `directory` is where the service keeps that repository. Refuses
   * with `invalid_request` for a new Mission without a text, `squad_not_available`, `model_not_found`,
   * `model_not_configured`, `disk_low`. `by`: an agent cannot take away an approval, a check or a budget limit of the
   * Mission, nor have a branch merged automatically that a person merges.
   */
  wake(
    directory: string,
    body: MissionWake,
    once?: IdempotencyKey,
    by?: "person" | "agent",
  ): Promise<Accepted<MissionWoken>>;
  /** Missions of a project, or of all projects; last update first. */
  list(
    directory: string | undefined,
    query: Omit<MissionQuery, "project">,
    signal?: AbortSignal,
  ): Promise<MissionSummary[]>;
  /** What the Mission and its Tasks are doing; queued Tasks have their place. */
  status(directory: string | undefined, missionID: string): Promise<MissionStatus>;
  /** Like `status`, for the Mission with this stream. */
  statusOf(sessionID: StreamID): Promise<MissionStatus>;
  /** The id of the Mission's stream, for readers of its events. */
  find(directory: string | undefined, missionID: string): Promise<StreamID>;
  /**
   * The Mission's conversation, oldest first: at most `limit` messages after the one whose `eventID` is `after` (0:
   * from the start), fewer where their texts are long. `nextAfter` is null on the last page.
   */
  messages(
    directory: string | undefined,
    missionID: string,
    page: { after: number; limit: number },
    signal?: AbortSignal,
  ): Promise<MessagePage>;
  /** Changes the title, or whether the Mission is archived; absent fields stay. */
  update(
    directory: string | undefined,
    missionID: string,
    patch: { title?: string; archived?: boolean },
  ): Promise<MissionSummary>;
  /**
   * Stops the Mission's agent; only another wake starts it again. With `cascade` its running Tasks are cancelled too,
   * in commits of their own after the Mission's. The call can be repeated: a crash in between leaves Tasks running that
   * a second abort cancels, and `once` is recorded last.
   */
  abort(
    directory: string | undefined,
    missionID: string,
    body: MissionAbort,
    once?: IdempotencyKey,
  ): Promise<Accepted<MissionAborted>>;
  /** Deletes the Mission's log, also while its agent works. Its Tasks stay. */
  remove(directory: string | undefined, missionID: string): Promise<void>;
  /**
   * Answers an open ask of the Mission's agent and makes it due. Refuses with `ask_closed`, or `invalid_request` for
   * the wrong kind of answer.
   */
  answer(
    directory: string | undefined,
    missionID: string,
    askID: string,
    body: TaskAnswer,
    once: IdempotencyKey | undefined,
    from: Answerer,
  ): Promise<Accepted<MissionAnswered>>;
  /**
   * Makes `body.phases` the plan, under the rules of the agent's own tools, and makes the agent due. With `approve` the
   * plan is approved in the same commit. Refuses with `plan_changed` when the plan's revision is no longer
   * `body.revision`, and with `invalid_request` for an invalid plan. Phases that equal the current plan are accepted
   * with any revision, and leave it as it is.
   */
  plan(
    directory: string | undefined,
    missionID: string,
    body: MissionPlan,
    once: IdempotencyKey | undefined,
    from: Answerer,
  ): Promise<Accepted<MissionPlanned>>;
  /**
   * Merges the Mission's own branch into the project's, by a Task that the service carries out itself. Refuses with
   * `not_mergeable` while the Mission or one of its Tasks is at work and when there is nothing to merge; otherwise
   * refuses as `Tasks.create` does.
   */
  merge(directory: string | undefined, missionID: string, once?: IdempotencyKey): Promise<Accepted<TaskCreated>>;
  /**
   * Builds the Mission's project archive; dispose the result to remove the file. Refuses with `not_a_git_worktree` and
   * `rate_limited`.
   */
  archive(directory: string, missionID: string, signal: AbortSignal): Promise<ArchiveFile>;
}

/** What `createMissions` (`service.ts`) composes the port from. */
export type MissionsDeps = {
  store: Store;
  engine: Engine;
  tasks: Tasks;
  workspaces: Pick<Workspaces, "inspect" | "branches">;
  /** Like `workspaces.inspect`, for a Mission that is woken there; rejects where nothing can run. */
  inspectNew: Workspaces["inspect"];
  repositories: Pick<Repositories, "at" | "branchFor" | "local" | "has" | "fetch" | "unpack" | "patienceSeconds">;
  catalog: Pick<Catalog, "find">;
  /** The model of a new Mission: the one named, or the default. Throws when it cannot be called. */
  resolveModel: (ref: string | undefined) => ModelRef;
  /** See `TasksDeps`. */
  callback: TasksDeps["callback"];
  disk: Pick<Disk, "admit" | "shortage">;
  archive: (state: MissionState, status: MissionStatus, signal: AbortSignal) => Promise<ArchiveFile>;
  limits: Limits;
  /** Whether the operator allows squad production; undefined: a Mission's caller decides. */
  production: boolean | undefined;
  log: Log;
  now: () => Date;
};
