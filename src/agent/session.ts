import type { AgentSpec, ModelRef } from "../domain/agent.ts";
import type { Conversation } from "../domain/conversation/message.ts";
import type { DomainEvent, StreamID } from "../domain/event.ts";
import type { PermissionRules } from "../domain/permission/rule.ts";
import type { StreamState } from "../domain/state/stream.ts";
import type { TaskState } from "../domain/state/task.ts";
import type { Log } from "../log.ts";
import type { Facts, Model, ToolSpec } from "../model/model.ts";
import type { OutboundOptions } from "../outbound/address.ts";
import type { LiveFrame } from "../protocol/event/frame.ts";
import type { Limits } from "../protocol/limit.ts";
import type { Store } from "../store/store.ts";
import type { BackgroundCommands, Tool, ToolContext, ToolResult } from "../tool/tool.ts";
import type { Workspace } from "../workspace/workspace.ts";

/** `AgentSession`: all that an agent works with in one session; types only. */

/** What an agent works with. Facts go out by `record`, bound to the claim, so none waits for another. */
export type AgentSession = {
  agent: AgentSpec;
  sessionID: string;
  model: Model;
  tools: ReadonlyMap<string, Tool>;
  specs: readonly ToolSpec[];
  facts: Facts;
  /** Those that it may delegate to. */
  teammates: readonly Teammate[];
  /** All that it is told beside its conversation, instead of the handbook with the Task's standing facts. */
  system?: string;
  limits: Limits;
  /** What the tools may do. */
  rules: PermissionRules;
  store: Store;
  log: Log;
  signal: AbortSignal;
  chat: Conversation;
  /** Of the Task, or of the Mission. */
  stream: StreamID;
  /** The fold, always at the newest recorded event. */
  state: () => StreamState;
  /** The same as a Task's, for what only a Task has; a Mission has none of it and throws. */
  task: () => TaskState;
  /**
   * Commits facts under the claim and folds them in, with whatever others appended in between. With `decidedAt` only when
   * nothing came in since that version.
   */
  record: (events: readonly DomainEvent[], decidedAt?: number) => Promise<void>;
  /** Whether the Task still wants this agent to go on; false also when its end is asked for. */
  wanted: () => boolean;
  /** The user asked for a summary and an end: no more tools. */
  last: boolean;
  /** Made while the model answers first; a tool waits for it. */
  workspace: () => Promise<Workspace>;
  /** What the agent left running; ended before anything else is done with its work. */
  background: BackgroundCommands;
  /** How pages may be fetched; undefined: not at all. */
  web: OutboundOptions | undefined;
  /** The right to load this machine. */
  slot: (signal?: AbortSignal) => Promise<Disposable>;
  live: (type: LiveFrame["type"], id: string, text: string) => void;
  sleep: (ms: number, signal?: AbortSignal) => Promise<void>;
  /** What the `delegate` tool does. */
  delegate: (callID: string, work: DelegatedWork, cut: AbortSignal) => Promise<ToolResult>;
  /** Another model to ask instead of this one, if the operator listed one that can be asked now. */
  fallbackModel: () => Promise<ModelRef | undefined>;
  /** Ends the run until then, unless something came in meanwhile. */
  defer: (event: DomainEvent, until: Date) => Promise<void>;
  now: () => Date;
};

/** What is shared with agents that bring a model and tools of their own. */
export type SessionContext = Omit<AgentSession, "model" | "tools" | "specs" | "delegate">;

export type DelegatedWork = Parameters<ToolContext["delegate"]>[0];

/** An agent that another one may delegate to. */
export type Teammate = { name: string; description: string };
