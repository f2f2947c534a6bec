import type { ModelRef } from "../../domain/agent.ts";
import type { Conversation } from "../../domain/conversation/message.ts";
import { concerns, converse } from "../../domain/conversation/fold.ts";
import type { Recorded, StreamID } from "../../domain/event.ts";
import { evolveMission } from "../../domain/mission/evolve.ts";
import type { MissionState } from "../../domain/state/mission.ts";
import type { RuleTexts } from "../../domain/permission/rule.ts";
import type { Slots } from "../../engine/slot.ts";
import type { Log } from "../../log.ts";
import type { Model } from "../../model/model.ts";
import type { EventData } from "../../protocol/event/event.ts";
import type { Limits } from "../../protocol/limit.ts";
import type { Catalog } from "../../squad/catalog/catalog.ts";
import { type RecordFacts, recordThrough } from "../../store/claimed-stream.ts";
import type { Claim, Fence, Store } from "../../store/store.ts";
import { openConversation } from "../../task/session/conversation.ts";
import type { Tasks } from "../../task/tasks.ts";
import type { Workspaces } from "../../workspace/workspace.ts";

/** What a Mission's run works with, and how it is opened from a claim. */

export type MissionDeps = {
  store: Store;
  /** The same that HTTP calls. */
  tasks: Tasks;
  workspaces: Pick<Workspaces, "inspect">;
  catalog: Pick<Catalog, "scan">;
  models: {
    load(ref: ModelRef): Promise<Model>;
    standIn(ref: ModelRef, tried: readonly ModelRef[]): Promise<ModelRef | undefined>;
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
  record: RecordFacts;
  /** One after another, in the order of the calls: each sees what those before it did. */
  inOrder: <T>(work: () => Promise<T>) => Promise<T>;
};

export const openMission = async (
  deps: MissionDeps,
  claim: Claim,
  signal: AbortSignal,
): Promise<MissionRun | undefined> => {
  const { store } = deps;
  const { stream, fence } = claim;
  const folded = await store.mission(stream);
  if (folded === undefined) return undefined;
  let state = folded;
  const chat = await openConversation(store, stream, state);
  const record = recordThrough(store, claim, {
    version: () => state.version,
    absorb(event) {
      state = evolveMission(state, event);
      if (concerns(event, stream, true)) converse(chat, event);
    },
    recorded: deps.recorded,
    // What a dispatch or a wake wrote.
    missed: deps.recorded,
  });
  let last: Promise<unknown> = Promise.resolve();
  return {
    ...deps,
    stream,
    signal,
    fence,
    chat,
    state: () => state,
    record,
    inOrder(work) {
      const turn = last.then(work, work);
      last = turn.catch(() => {});
      return turn;
    },
  };
};

/** Whether a squad may be made for this Mission: the operator's word, then the caller's. */
export const mayProduce = (
  { allowSquadProduction }: Pick<MissionState, "allowSquadProduction">,
  operator: boolean | undefined,
): boolean => operator !== false && (allowSquadProduction ?? operator ?? false);
