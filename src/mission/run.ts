import type { ModelRef } from "../domain/agent.ts";
import type { Conversation } from "../domain/conversation/message.ts";
import type { Recorded, StreamID } from "../domain/event.ts";
import type { RuleTexts } from "../domain/permission/rule.ts";
import type { MissionState } from "../domain/state/mission.ts";
import type { Slots } from "../engine/slot.ts";
import type { Log } from "../log.ts";
import type { Model } from "../model/model.ts";
import type { EventData } from "../protocol/event/event.ts";
import type { Limits } from "../protocol/limit.ts";
import type { Catalog } from "../squad/catalog/catalog.ts";
import type { CommitEvents } from "../store/claimed-stream.ts";
import type { Fence, Store } from "../store/store.ts";
import type { Tasks } from "../task/tasks.ts";
import type { Workspaces } from "../workspace/workspace.ts";

/** The port of a Mission's run; types only. */

export type MissionDeps = {
  store: Store;
  /** The same that HTTP calls. */
  tasks: Tasks;
  workspaces: Pick<Workspaces, "inspect">;
  catalog: Pick<Catalog, "scan">;
  models: {
    load(ref: ModelRef): Promise<Model>;
    fallbackModel(ref: ModelRef, tried: readonly ModelRef[]): Promise<ModelRef | undefined>;
  };
  slots: Slots;
  limits: Limits;
  permissions: RuleTexts;
  sandbox: EventData["run.started"]["sandbox"];
  /** The squad for phases that nobody owns. */
  squad: string;
  /** The server's word on squad production: undefined = the caller decides. */
  production: boolean | undefined;
  worker: string;
  recorded: (events: readonly Recorded[]) => void;
  log: Log;
  now: () => Date;
};

export type MissionRun = MissionDeps & {
  stream: StreamID;
  signal: AbortSignal;
  fence: Fence;
  state: () => MissionState;
  chat: Conversation;
  /** False: others came in between; ask `nextStep` again. */
  record: CommitEvents;
  /** One after another, in the order of the calls: each sees what those before it did. */
  inOrder: <T>(work: () => Promise<T>) => Promise<T>;
};

/** Whether a squad may be made for this Mission: the operator's word, then the caller's. */
export const mayProduce = (
  { allowSquadProduction }: Pick<MissionState, "allowSquadProduction">,
  operator: boolean | undefined,
): boolean => operator !== false && (allowSquadProduction ?? operator ?? false);
