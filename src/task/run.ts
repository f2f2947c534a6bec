import type { ExternalAgent } from "../agent/external/run.ts";
import type { Browser, CheckResult } from "../check/check.ts";
import type { ModelRef } from "../domain/agent.ts";
import type { Conversation } from "../domain/conversation/message.ts";
import type { Recorded, StreamID } from "../domain/event.ts";
import type { RuleTexts } from "../domain/permission/rule.ts";
import type { TaskState } from "../domain/state/task.ts";
import type { Slots } from "../engine/slot.ts";
import type { Log } from "../log.ts";
import type { Model } from "../model/model.ts";
import type { OutboundOptions } from "../outbound/address.ts";
import type { Processes } from "../process/process.ts";
import type { EventData } from "../protocol/event/event.ts";
import type { Limits } from "../protocol/limit.ts";
import type { Manager } from "../squad/install/manager.ts";
import type { Squads } from "../squad/squad.ts";
import type { CommitEvents } from "../store/claimed-stream.ts";
import type { Store } from "../store/store.ts";
import type { BackgroundCommands } from "../tool/tool.ts";
import type { Checkout, Workspace, Workspaces } from "../workspace/workspace.ts";

/** The port of a run: what its steps share; types only. */

export type RunDeps = {
  store: Store;
  workspaces: Workspaces;
  processes: Processes;
  squads: Squads;
  /** Installs what a production made. */
  manager: Pick<Manager, "install" | "validate">;
  models: {
    load(ref: ModelRef): Promise<Model>;
    /** What to ask instead of a model, without those that were tried; undefined: nothing that can be asked now. */
    fallbackModel(ref: ModelRef, tried: readonly ModelRef[]): Promise<ModelRef | undefined>;
  };
  /** The operator's external agents by name. */
  externals: Readonly<Record<string, ExternalAgent>>;
  slots: Slots;
  /** What the operator has run in every new worktree. */
  setup: Setup | undefined;
  /** Chromium for checks that look at a page, looked for anew each time. */
  browser: () => Browser;
  /** How agents may fetch pages; undefined: not at all. */
  web: OutboundOptions | undefined;
  limits: Limits;
  /** The operator's rules; a project's own are in the Task's fold. */
  permissions: RuleTexts;
  sandbox: EventData["run.started"]["sandbox"];
  worker: string;
  /** Hears every fact this service recorded, for the metrics. */
  recorded: (events: readonly Recorded[]) => void;
  log: Log;
  now: () => Date;
};

/** What the steps of one run share. */
export type Run = RunDeps & {
  stream: StreamID;
  signal: AbortSignal;
  state: () => TaskState;
  /** The Orchestrator's conversation. */
  chat: Conversation;
  chats: Conversations;
  /** False: others came in between; ask `next` again. */
  record: CommitEvents;
  /** The Task's workspace, made or opened once. */
  workspace: () => Promise<Workspace>;
  /** Resolves when no workspace is being made; what is made after the end would be nobody's. */
  workspaceMade: () => Promise<void>;
  /** Drops the workspace, so that the next use makes it anew. */
  forgetWorkspace: () => void;
  /** The files that its checks run on. */
  checkout: RunCheckout;
  /** The project's landing turn, held from the first landing attempt until the agent is asked again, or the run ends. */
  landingTurn: () => Promise<void>;
  leaveLandingTurn: () => void;
  slot: (signal?: AbortSignal) => Promise<Disposable>;
  /** The agent's commands that go on between its calls. */
  background: BackgroundCommands;
};

export interface RunCheckout extends AsyncDisposable {
  /** undefined: the Task works in place, and so do its checks. */
  at(commit: string | null): Promise<Checkout | undefined>;
  /** The operator's setup, once, before the first check that runs a command; its failure, for every check. */
  setUp(): Promise<CheckResult | undefined>;
}

/** The conversations that are open in a run; each is opened with its first use, and follows the log from there. */
export type Conversations = {
  of(sessionID: string): Promise<Conversation>;
  follow(event: Recorded): void;
  close(sessionID: string): void;
};

/** From the operator's configuration alone: a project cannot name one. */
export type Setup = { run: string; network: boolean };
