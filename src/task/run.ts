import type { ExternalAgent } from "../agent/external/run.ts";
import type { Diagnostics } from "../agent/session.ts";
import type { Browser, CheckResult } from "../check/check.ts";
import type { ModelRef } from "../domain/agent.ts";
import type { Conversation } from "../domain/conversation/message.ts";
import type { Recorded, StreamID } from "../domain/event.ts";
import type { RuleTexts } from "../domain/permission/rule.ts";
import type { TaskState } from "../domain/state/task.ts";
import type { Engine } from "../engine/engine.ts";
import type { Slots } from "../engine/slot.ts";
import type { Log } from "../log.ts";
import type { Model } from "../model/model.ts";
import type { OutboundOptions } from "../outbound/address.ts";
import type { Processes } from "../process/process.ts";
import type { RunCheck } from "../protocol/check.ts";
import type { TurnFailure } from "../protocol/event/conversation.ts";
import type { EventData } from "../protocol/event/event.ts";
import type { Limits } from "../protocol/limit.ts";
import type { EnvironmentSettings } from "../protocol/task/environment.ts";
import type { Manager } from "../squad/install/manager.ts";
import type { Fetched, Repositories } from "../repository/repository.ts";
import type { Squads } from "../squad/squad.ts";
import type { CommitEvents } from "../store/claimed-stream.ts";
import type { Disk } from "../store/disk/disk.ts";
import type { Patience } from "../store/disk/patience.ts";
import type { CheckResults, KeptResult } from "../store/check-result.ts";
import type { Store } from "../store/store.ts";
import type { McpConnections } from "../tool/mcp/connections.ts";
import type { McpServers } from "../tool/mcp/server.ts";
import type { BackgroundCommands } from "../tool/tool.ts";
import type { Usage } from "../workspace/usage/measure.ts";
import type { Checkout, Workspace, Workspaces } from "../workspace/workspace.ts";
import type { Environment, Setup } from "./environment.ts";

/** Tasks that run alone because the service may have died of them; see `worker/suspects.ts`. */
type Suspects = { isAlone: (stream: StreamID) => boolean; clear: (stream: StreamID) => void };

/** The parts of the service that a run of a Task needs. One object serves all runs of a worker (`worker/run.ts`). */
export type RunDeps = {
  store: Store;
  workspaces: Workspaces;
  repositories: Repositories;
  processes: Processes;
  squads: Squads;
  /** Installs the package that a production, a Task that makes a squad, has staged. */
  manager: Pick<Manager, "install" | "validate" | "expectInstallable">;
  models: {
    /** Rejects with a `ServiceError` when the model is not configured or cannot be called. */
    load(ref: ModelRef): Promise<Model>;
    /** Another model to ask, none of those `tried`; undefined when none can be asked now. */
    fallbackModel(ref: ModelRef, tried: readonly ModelRef[]): Promise<ModelRef | undefined>;
  };
  /** The operator's external agents, by name. */
  externals: Readonly<Record<string, ExternalAgent>>;
  /** The operator's MCP servers, by name. */
  mcpServers: McpServers;
  /** Whether the operator has granted what a project's file with this digest asks for. */
  granted: (project: string, digest: string, file: string) => boolean;
  environments: Environments;
  /** Reads a variable of the service's environment. Its value counts as a secret from then on. */
  variable: (name: string) => string | undefined;
  /**
   * Whether the project's checkers look at edits, and the places, shared by all Tasks, for checkers that keep running.
   */
  diagnostics: { enabled: boolean; room: () => Disposable | undefined };
  slots: Slots;
  /** For work beside a Task's own, such as checks on the base; such work takes a slot as well. */
  backgroundSlots: Slots;
  checkResults: CheckResults;
  engine: Pick<Engine, "standAside" | "drains" | "betweenSteps">;
  suspects: Suspects;
  disk: Pick<Disk, "shortage" | "pauses" | "plenty" | "onPause" | "free" | "look">;
  /** The command to run in every new worktree; undefined: none. */
  setup: Setup | undefined;
  /** The browser for visual checks. It is looked up at each call, so that installing one needs no restart. */
  browser: () => Browser;
  /** Options for fetching web pages; undefined: web access is off. */
  web: OutboundOptions | undefined;
  limits: Limits;
  /** The operator's rules; the project's rules are in the Task's fold. */
  permissions: RuleTexts;
  /** The sandbox tier of this service, recorded with each run. */
  sandbox: EventData["run.started"]["sandbox"];
  /** This service's id, under which it claims streams. */
  worker: string;
  /** Called with every event that this service recorded, for the metrics. */
  recorded: (events: readonly Recorded[]) => void;
  log: Log;
  now: () => Date;
};

/**
 * One run of a Task under a claim, shared by its steps.
 *
 * A run holds nothing that the log does not: whoever claims the Task after a crash folds its log and runs the next
 * step. Everything here ends with the run.
 */
export type Run = RunDeps & {
  /** The Task's id. */
  stream: StreamID;
  /** Aborts when the service stops or the claim is lost; each step then rejects. */
  signal: AbortSignal;
  /** The fold, including every event that the run has recorded or read. */
  state: () => TaskState;
  /** The Orchestrator's conversation. */
  chat: Conversation;
  /** What the project's commands get in addition to its files. */
  environment: Environment;
  /** The conversations of all sessions. */
  chats: Conversations;
  /**
   * Commits events through the claim and folds them in, together with what others appended. Resolves to false when
   * `decidedAt` was given and other events came in after it: nothing was committed, so ask `next` again. Waits while
   * the disk is full. Rejects with `ClaimLost`.
   */
  record: CommitEvents;
  /** Await it before any work that writes; see `Patience`. */
  space: Patience["space"];
  /** The bound on the Task's disk space. */
  bound: DiskBound;
  /** The Task's workspace; the first call creates or opens it, later ones resolve to the same. */
  workspace: () => Promise<Workspace>;
  /**
   * Where the work on a repository begins: the state of the remote when it was first fetched since the last landing.
   */
  base: () => Promise<Fetched>;
  /** Resolves when no workspace is being created, so that none appears after the run's end. Never rejects. */
  workspaceMade: () => Promise<void>;
  /** Closes the sandboxes of the Task and its forks, with everything in them; the next command opens one again. */
  closeSandboxes: () => Promise<void>;
  /** Drops the workspace, so that the next use opens it again. */
  forgetWorkspace: () => void;
  /** The checkpoints of a Task that another node could continue. */
  checkpoints: Checkpoints;
  /** The files that the Task's checks run on. */
  checkout: RunCheckout;
  /** The project's own checks, for a request that names none. The session runner sets them with `offerOwn`. */
  own: () => readonly RunCheck[];
  offerOwn: (checks: readonly RunCheck[], commands: readonly string[]) => void;
  /** The project's own commands, as found in the user's directory. */
  commands: () => readonly string[];
  baseline: Baseline;
  /**
   * Waits for the project's landing turn, which one Task holds at a time. It is held until the agents work again or the
   * run ends; later calls resolve at once.
   */
  landingTurn: () => Promise<void>;
  /** Gives the landing turn up; does nothing when it is not held. */
  leaveLandingTurn: () => void;
  /**
   * Waits for one of the machine's slots, by the Task's rank; dispose the result to free it. Rejects when `signal`
   * (default: the run's) aborts.
   */
  slot: (signal?: AbortSignal) => Promise<Disposable>;
  /** Commands of the agent that keep running between its calls; they end with the turn. */
  background: BackgroundCommands;
  /** The project's own checkers, which look at edits; they end with the turn, too. */
  checkers: Diagnostics & { end(): Promise<void> };
  /** The MCP servers that the agents' calls have needed; they end with the turn, like the background commands. */
  mcp: McpConnections;
};

/**
 * Keeps a Task's files for other nodes while its agents work, and releases what is no longer needed. Nothing here
 * rejects.
 */
export type Checkpoints = {
  /**
   * Call it after each call of an agent. Keeps the files, concurrently with the work that follows, if a checkpoint is
   * due and no call is under way that may change them.
   */
  keepIfDue(): void;
  /**
   * Keeps the files at once if calls have changed them, because the run is about to end or to wait. Resolves when done.
   */
  now(): Promise<void>;
  /**
   * Resolves when the files are no longer being read and any checkpoint made of them is recorded. Call it before the
   * workspace moves to another commit.
   */
  end(): Promise<void>;
  /** Like `end`, while other agents continue: the files are not read again until the result is disposed. */
  hold(): Promise<Disposable>;
  /** Releases all checkpoints but the newest ones. */
  release(): Promise<void>;
};

/** The files that a run's checks use: created for the first check, reused for later commits, removed with the run. */
export interface RunCheckout extends AsyncDisposable {
  /**
   * The files of a commit. undefined for null, that is when the Task works in place: its checks run in the user's
   * directory.
   */
  at(commit: string | null): Promise<Checkout | undefined>;
  /**
   * Runs the operator's setup once per run, before the first check that runs a command. Resolves to the failure, as the
   * result of every check, or to undefined when it passed or there is none.
   */
  setUp(): Promise<CheckResult | undefined>;
}

/**
 * The result of one of the project's own checks on the base. It is determined concurrently with the work, once a file
 * differs, or taken over from another Task that had the same tree.
 */
export type BaseResult = Pick<KeptResult, "state" | "reason" | "exitCode" | "unfinished">;

export interface Baseline extends AsyncDisposable {
  /** Begins, unless it has begun already or there is nothing to find out. Cheap; call it after each event. */
  begin(): void;
  /**
   * Ids of checks that have been running on the base for more than half of their time limit, so their result comes
   * soon.
   */
  slowChecks(): string[];
  /** Resolves when the results on the current base are on record. */
  settled(): Promise<void>;
  /**
   * One sentence for each check whose result on the base an agent must know: the check says nothing of the work, or it
   * was red without the work, or another Task has seen it pass on the same tree. `isKnown`: whether the agents know it
   * already.
   */
  news(isKnown: (spec: RunCheck, result: BaseResult) => boolean): string[];
  /** Ends running checks, and begins none until `settled` is called: the Task is about to end. */
  stop(): Promise<void>;
}

/** The bound on one Task's disk space (`limits.taskDiskBytes`). */
export interface DiskBound {
  /**
   * Runs work that may write. `signal` aborts when the Task outgrows its bound. In the result, `over` is the Task's
   * usage if it exceeds the bound, and `ended` says whether the signal has aborted.
   */
  during<T>(work: (signal: AbortSignal) => Promise<T>): Promise<{ value: T; over: Usage | undefined; ended: boolean }>;
  /** Whether the Task exceeded its bound when it was last measured. */
  isOver(): boolean;
  /**
   * Why the Task cannot succeed as it is: it exceeds its bound. Measures anew if it exceeded the bound before, or if
   * `isSuspect`. undefined: it does not exceed it.
   */
  failure(isSuspect?: boolean): Promise<TurnFailure | undefined>;
  /** Why the Task may ask its model for no further step: it had several steps to free space, and did not. */
  stopReason(): TurnFailure | undefined;
}

/** Conversations that are open in a run; each is read from the log at its first use and updated with later events. */
export type Conversations = {
  /** The conversation of a session, always the same object while it is open. */
  of(sessionID: string): Promise<Conversation>;
  /** Applies a recorded event to the open conversations that it belongs to. */
  follow(event: Recorded): void;
  /** Forgets a conversation; the Orchestrator's stays open. */
  close(sessionID: string): void;
};

/** The environments that the operator has configured. */
export type Environments = {
  /** Whether commands may run in images. If so, a project may ask for one with its devcontainer.json. */
  readonly containers: boolean;
  /** The configuration for the project in a directory, or for a repository by address. */
  of(directory: string): OperatorEnvironment | undefined;
  /** Values of secrets by name, which are redacted from then on. Rejects with `EnvironmentLost`. */
  secrets(names: readonly string[]): Promise<Record<string, string>>;
};

/** `shell`: patterns of the agents' commands that get the secrets, in the syntax that `isWholly` reads. */
type OperatorEnvironment = EnvironmentSettings & { shell?: string[] | undefined };
