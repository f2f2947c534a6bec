import type { Browser } from "../check/check.ts";
import type { ModelRef } from "../domain/agent.ts";
import type { Conversation } from "../domain/conversation/message.ts";
import type { Recorded, StreamID } from "../domain/event.ts";
import type { RuleTexts } from "../domain/permission/rule.ts";
import type { MissionState } from "../domain/state/mission.ts";
import type { Engine } from "../engine/engine.ts";
import type { Slots } from "../engine/slot.ts";
import type { Log } from "../log.ts";
import type { Model } from "../model/model.ts";
import type { Processes } from "../process/process.ts";
import type { EventData } from "../protocol/event/event.ts";
import type { Limits } from "../protocol/limit.ts";
import type { Repositories } from "../repository/repository.ts";
import type { Catalog } from "../squad/catalog/catalog.ts";
import type { CommitEvents } from "../store/claimed-stream.ts";
import type { Disk } from "../store/disk/disk.ts";
import type { Patience } from "../store/disk/patience.ts";
import type { Fence, Store } from "../store/store.ts";
import type { Environment, Setup } from "../task/environment.ts";
import type { Tasks } from "../task/tasks.ts";
import type { Head, Workspaces } from "../workspace/workspace.ts";

/** What a run of a Mission needs of the service. One object serves all runs of a worker (`worker/run.ts`). */
export type MissionDeps = {
  store: Store;
  /** The same port that HTTP calls. */
  tasks: Tasks;
  workspaces: Pick<Workspaces, "inspect" | "openHead" | "closeHead" | "branches">;
  repositories: Repositories;
  catalog: Pick<Catalog, "scan">;
  models: {
    /** Rejects with a `ServiceError` when the model is not configured or cannot be called. */
    load(ref: ModelRef): Promise<Model>;
    /** Another model to ask, none of `tried`; undefined: none can be asked now. */
    fallbackModel(ref: ModelRef, tried: readonly ModelRef[]): Promise<ModelRef | undefined>;
  };
  slots: Slots;
  engine: Pick<Engine, "standAside" | "drains" | "betweenSteps">;
  disk: Pick<Disk, "shortage" | "pauses" | "plenty" | "onPause" | "look">;
  limits: Limits;
  /** The operator's rules. */
  permissions: RuleTexts;
  /** The sandbox tier of this service, recorded with each run. */
  sandbox: EventData["run.started"]["sandbox"];
  /** The operator's preparation of new files, before the first check. */
  setup: Setup | undefined;
  /** The environment and setup of the project's commands; undefined: none. Rejects with `EnvironmentLost`. */
  environment: (
    of: Pick<MissionState, "directory" | "project" | "repository">,
  ) => Promise<{ environment: Environment; setup: Setup | undefined } | undefined>;
  processes: Pick<Processes, "setEnvironment">;
  /** The machine's browser, for checks that look at pages. */
  browser: () => Browser;
  /** The general squad, for phases that no squad owns. */
  squad: string;
  /** Whether the operator allows squad production; undefined: the Mission's caller decides. */
  production: boolean | undefined;
  /** This service's id, under which it claims streams. */
  worker: string;
  /** Called with every event that this service recorded, for the metrics. */
  recorded: (events: readonly Recorded[]) => void;
  log: Log;
  now: () => Date;
};

/**
 * One run of a Mission under a claim. It holds nothing that the log does not: whoever claims the Mission after a crash
 * folds its log and runs the next step.
 */
export type MissionRun = MissionDeps & {
  /** The Mission's session id, which is its stream. */
  stream: StreamID;
  /** Aborts when the service stops or the claim is lost. */
  signal: AbortSignal;
  /** The claim, checked in every commit of the run. */
  fence: Fence;
  /** The fold, including every event that the run has recorded or read. */
  state: () => MissionState;
  chat: Conversation;
  /**
   * Commits events through the claim and folds them in, together with what others appended. Resolves to false when
   * `decidedAt` was given and other events came in after it: nothing was committed, so ask `nextStep` again. Rejects
   * with `ClaimLost`.
   */
  record: CommitEvents;
  /** See `Patience`: awaited before anything begins that writes. */
  space: Patience["space"];
  /** The project's files for the agent's look-ups; they are removed with the run. */
  head: () => Promise<Head>;
  /** Like `head`, but at the newest head. */
  newestHead: () => Promise<Head>;
  /**
   * Runs concurrent calls one after another, in the order they were made, so that each sees what the earlier ones did.
   */
  inOrder: <T>(work: () => Promise<T>) => Promise<T>;
};

/**
 * Whether a squad may be produced for this Mission: false when the operator forbids it, otherwise what the caller
 * chose, otherwise what the operator chose.
 */
export const mayProduce = (
  { allowSquadProduction }: Pick<MissionState, "allowSquadProduction">,
  operator: boolean | undefined,
): boolean => operator !== false && (allowSquadProduction ?? operator ?? false);
