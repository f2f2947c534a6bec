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
   * Resolves to the system prompt of all the session's requests: that of its first request, so that a provider's cache
   * holds over several attempts. `now` is the prompt that would be built at present; the differences are stated in
   * front of an unread message (`UserMessage.before`).
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
  /** Called before each request. May replace turns that are over with a summary (`conversation.compacted`). */
  between?: () => Promise<void>;
  /** What the next reply must be. Absent, or undefined: the agent is free. */
  demand?: () => Demand | undefined;
  /**
   * The workspace, created while the model answers its first request; tools wait for it. `tool`: the name of the tool
   * that needs it. Rejects with `NoFiles`.
   */
  workspace: (tool?: string) => Promise<Workspace>;
  /** See `ToolContext.isNamed`. */
  isNamed: (command: string) => boolean;
  /** See `ToolContext.secretsFor`. */
  secretsFor: (command: string) => Readonly<Record<string, string>> | undefined;
  /** A message to add once to the result of a call of this tool. */
  news?: (tool: string) => string | undefined;
  /** Reports of the project's own checkers on edits; undefined: they are not asked. */
  diagnostics?: Diagnostics | undefined;
  /** Commands that the agent left running. They are ended before anything else is done with its work. */
  background: BackgroundCommands;
  /** Options for fetching web pages; undefined: web access is off. */
  web: OutboundOptions | undefined;
  /** Resolves when the disk has space for what a reply or a call may write; usually at once. */
  space: () => Promise<void>;
  /**
   * Waits for one of the machine's slots; dispose the result to free it. Rejects when `signal` (default: the
   * session's) aborts.
   */
  slot: (signal?: AbortSignal) => Promise<Disposable>;
  /** Publishes a frame to live readers; it is not stored. `id`: the message or call that it belongs to. */
  live: (type: TextFrame["type"], id: string, text: string) => void;
  /** Tells live readers the progress of the message or call `id`, replacing the progress stated in its text. */
  doing: (id: string, text: string, soFar: SoFar) => void;
  /** Waits for `ms` milliseconds. Rejects when `signal` (default: the session's) aborts. */
  sleep: (ms: number, signal?: AbortSignal) => Promise<void>;
  /**
   * Runs a teammate for the call `callID` and resolves to the call's result. The session is identified by its call, so
   * a call that runs again after a crash continues the same session. Aborting `cut` means that the Task's time is used
   * up.
   */
  delegate: (callID: string, work: DelegatedWork, cut: AbortSignal) => Promise<ToolResult>;
  /** Who is asked a question first: the Mission if one can answer, otherwise a person. */
  asksFirst: () => Promise<"mission" | "person">;
  /** Another model that the operator listed and that can be asked now; undefined when there is none. */
  fallbackModel: () => Promise<ModelRef | undefined>;
  /** Commits `event` and ends the run until the due time `until`, unless another event was appended meanwhile. */
  defer: (event: DomainEvent, until: Date) => Promise<void>;
  now: () => Date;
};

/** Hints added to results. They never fail a call and never wait without a bound. */
export type Diagnostics = {
  /** Starts collecting the file's existing diagnostics, because this file may be edited next. */
  warm(workspace: Workspace, path: string): void;
  /** The diagnostics that are new since the edit, worded for a model. */
  after(workspace: Workspace, touched: readonly Touched[]): Promise<string | undefined>;
  /** Diagnostics that arrived too late to be reported with their edit. */
  late(workspace: Workspace): string | undefined;
};

/** The part of a session that external agents use as well; they bring their own model and tools. */
export type SessionContext = Omit<AgentSession, "model" | "tools" | "specs" | "delegate">;

/** `isNew`: `system` must be stored with the next reply. */
export type Opening = { system: string; isNew: boolean };

/** Requires the reply to call this tool; `words` is the request for it. Other calls of that reply are not run. */
export type Demand = { tool: string; words: string };

export type DelegatedWork = Parameters<ToolContext["delegate"]>[0];

/** An agent that another agent may delegate to. */
export type Teammate = { name: string; description: string };
