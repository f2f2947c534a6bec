import type { AgentSpec, ModelRef } from "../domain/agent.ts";
import type { Conversation } from "../domain/conversation/message.ts";
import type { DomainEvent, StreamID } from "../domain/event.ts";
import type { PermissionRules } from "../domain/permission/rule.ts";
import type { StreamState } from "../domain/state/stream.ts";
import type { TaskState } from "../domain/state/task.ts";
import type { Log } from "../log.ts";
import type { Facts, Model, ToolSpec } from "../model/model.ts";
import type { OutboundOptions } from "../outbound/address.ts";
import type { TextFrame } from "../protocol/event/frame.ts";
import type { SoFar } from "../protocol/field.ts";
import type { Limits } from "../protocol/limit.ts";
import type { Store } from "../store/store.ts";
import type { BackgroundCommands, Tool, ToolContext, ToolResult, Touched } from "../tool/tool.ts";
import type { Workspace } from "../workspace/workspace.ts";

/**
 * Everything that an agent works with in one session.
 *
 * `record` and `defer` commit through the claim of the run that made the session, so a session cannot outlive its run:
 * once the claim is lost they reject, and the agent stops. All waits end when `signal` aborts.
 */
export type AgentSession = {
  agent: AgentSpec;
  sessionID: string;
  model: Model;
  tools: ReadonlyMap<string, Tool>;
  specs: readonly ToolSpec[];
  facts: Facts;
  /** Agents that it may delegate to; empty when it may not. */
  teammates: readonly Teammate[];
  /** The complete system prompt, replacing the one that `systemOf` builds from a Task. Missions set it. */
  system?: string;
  /**
   * What its requests begin with, where that stays from one attempt to the next: the first one's system prompt, given
   * the one that would be made now. Says before an unread message what has changed (`UserMessage.before`).
   */
  opening?: (now: string) => Promise<Opening>;
  limits: Limits;
  /** Permission rules that apply to every call. */
  rules: PermissionRules;
  store: Store;
  log: Log;
  signal: AbortSignal;
  chat: Conversation;
  /** The stream of the Task or of the Mission. */
  stream: StreamID;
  /** The fold of the stream, including every event this run has recorded or read. */
  state: () => StreamState;
  /** The same fold as a Task's. Throws in a Mission's session, which has no Task. */
  task: () => TaskState;
  /**
   * Commits events through the claim, and folds in these and whatever others appended in between. With `decidedAt`,
   * nothing is committed when other events came in after that version; they are folded in all the same, and the caller
   * decides again. An empty list only folds in what is new. `lazy`: see `Write.lazy`.
   */
  record: (events: readonly DomainEvent[], options?: { decidedAt?: number; lazy?: boolean }) => Promise<void>;
  /** Whether the agent should continue; false also once the Task's end has been requested. */
  wanted: () => boolean;
  /** The user asked for a summary and an end: the reply's calls are not run. */
  last: boolean;
  /** Called before each request: may replace turns that are over (`conversation.compacted`). */
  between?: () => Promise<void>;
  /** What the next reply has to be; undefined, or without the function: whatever the agent wants. */
  demand?: () => Demand | undefined;
  /**
   * The workspace, created while the model answers its first request; tools wait for it. `tool`: for which one. Rejects
   * with `NoFiles`.
   */
  workspace: (tool?: string) => Promise<Workspace>;
  /** See `ToolContext.isNamed`. */
  isNamed: (command: string) => boolean;
  /** See `ToolContext.secretsFor`. */
  secretsFor: (command: string) => Readonly<Record<string, string>> | undefined;
  /** What it is to be told once, beside the result of a call of this tool. */
  news?: (tool: string) => string | undefined;
  /** What the project's own checkers say of edits; undefined: they are not asked. */
  diagnostics?: Diagnostics | undefined;
  /** Commands that the agent left running. They are ended before anything else is done with its work. */
  background: BackgroundCommands;
  /** Options for fetching web pages; undefined: web access is off. */
  web: OutboundOptions | undefined;
  /** Resolves when there is space on the disk for what a reply or a call may write; usually at once. */
  space: () => Promise<void>;
  /**
   * Waits for one of the machine's slots; dispose the result to free it. Rejects when `signal` (default: the
   * session's) aborts.
   */
  slot: (signal?: AbortSignal) => Promise<Disposable>;
  /** Publishes a frame to live readers; it is not stored. `id`: the message or call that it belongs to. */
  live: (type: TextFrame["type"], id: string, text: string) => void;
  /** Tells live readers how far the message or call `id` has come, instead of what its text says of that. */
  doing: (id: string, text: string, soFar: SoFar) => void;
  /** Waits for `ms` milliseconds. Rejects when `signal` (default: the session's) aborts. */
  sleep: (ms: number, signal?: AbortSignal) => Promise<void>;
  /**
   * Runs a teammate for the call `callID` and resolves to the call's result. The session is identified by its call, so
   * a call that runs again after a crash continues the same session. Aborting `cut` means that the Task's time is used
   * up.
   */
  delegate: (callID: string, work: DelegatedWork, cut: AbortSignal) => Promise<ToolResult>;
  /** Who is asked a question first: a person, unless a Mission can answer. */
  asksFirst: () => Promise<"mission" | "person">;
  /** Another model that the operator listed and that can be asked now; undefined when there is none. */
  fallbackModel: () => Promise<ModelRef | undefined>;
  /** Commits `event` and ends the run until the due time `until`, unless something came in meanwhile. */
  defer: (event: DomainEvent, until: Date) => Promise<void>;
  now: () => Date;
};

/** Hints beside results. None of it fails a call, and none waits without a bound. */
export type Diagnostics = {
  /** Begins to find out what is there, because this file may be edited. */
  warm(workspace: Workspace, path: string): void;
  /** What is new with an edit, in words for a model. */
  after(workspace: Workspace, touched: readonly Touched[]): Promise<string | undefined>;
  /** What came too late for its edit. */
  late(workspace: Workspace): string | undefined;
};

/** The part that external agents use as well; they bring their own model and tools. */
export type SessionContext = Omit<AgentSession, "model" | "tools" | "specs" | "delegate">;

/** `isNew`: it is to be kept with the next reply. */
export type Opening = { system: string; isNew: boolean };

/** A call of this tool, asked for in these words. Other calls of that reply are not run. */
export type Demand = { tool: string; words: string };

export type DelegatedWork = Parameters<ToolContext["delegate"]>[0];

/** An agent that another one may delegate to. */
export type Teammate = { name: string; description: string };
