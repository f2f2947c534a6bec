import type { EventData, ModelUsage } from "../protocol/event.ts";
import type { Budget, Usage } from "../protocol/status.ts";
import type { ModelRef } from "./agent.ts";
import { advance, callMark, noCircle } from "./circle.ts";
import type { Recorded } from "./event.ts";
import { begin } from "./begin.ts";
import { isIdle, isLeft, isRead, isWaiting, staysOnBranch, type TaskState } from "./task.ts";

/** A Task as a fold of its events. Pure: no clock, no I/O, no randomness. */

/** Raised whenever `evolve` or `TaskState` changes in meaning, so that stored snapshots are folded anew. */
export const taskRevision = 2;

/** Facts that complete nothing: between two of them a Task has not moved on. */
const waits: ReadonlySet<string> = new Set([
  "task.updated",
  "run.started",
  "run.stopped",
  "workspace.prepared",
  "dependencies.given",
  "setup.started",
  "agent.attached",
  "reply.retried",
  "task.deferred",
  "model.switched",
  "budget.warned",
  "check.started",
  "permission.decided",
  "permissions.read",
]);

/** Something of this machine's was under way; waiting for a model is not. */
const isBusy = (state: TaskState): boolean =>
  state.open.some(({ callID }) => !isWaiting(state, callID)) || state.running !== null || state.landingStarted !== null;

/** Folds one event in. The state before is never changed: a commit that fails leaves it as it was. */
export const evolve = (before: TaskState | undefined, event: Recorded): TaskState => {
  if (before === undefined) {
    if (event.type !== "task.created")
      throw new Error(`Expected task.created as the first event of ${event.stream}, got ${event.type}`);
    return { ...begin(event), version: event.version, position: event.position };
  }
  const state: TaskState = {
    ...before,
    version: event.version,
    position: event.position,
    updatedAt: event.at,
    crashes: waits.has(event.type) ? before.crashes : 0,
  };
  switch (event.type) {
    case "task.created":
      throw new Error(`Expected one task.created in ${event.stream}, got a second at version ${event.version}`);
    case "task.updated":
      return {
        ...state,
        title: event.data.title ?? state.title,
        titleBy: event.data.title === undefined ? state.titleBy : "caller",
        priority: event.data.priority ?? state.priority,
        archived: event.data.archived ?? state.archived,
        ...(event.data.budget === undefined
          ? {}
          : { budget: event.data.budget, warned: kept(state, event.data.budget) }),
      };
    case "run.started":
      return {
        ...state,
        deferred: null,
        startedAt: state.startedAt ?? event.at,
        attemptStartedAt: state.attemptStartedAt ?? event.at,
        // A run that died worked until its last fact.
        time: { ms: timeUntil(before, before.updatedAt), since: event.at },
        sandbox: event.data.sandbox,
        crashes: isBusy(before) && !before.stopped ? before.crashes + 1 : before.crashes,
        stopped: false,
        running: null,
      };
    case "run.stopped":
      return { ...state, stopped: true, time: { ms: timeUntil(state, event.at), since: null } };
    case "workspace.prepared":
      return state.landed === null
        ? { ...state, workspace: event.data }
        : { ...state, ...fresh, workspace: event.data };
    case "dependencies.given":
      return { ...state, dependencies: event.data.folders };
    case "setup.started":
      return { ...state, setup: { ...event.data, finished: null } };
    case "setup.finished":
      return { ...state, setup: { run: event.data.run, worktree: event.data.worktree, finished: event.data } };
    case "agent.attached":
      return { ...state, attached: { ...state.attached, [event.data.sessionID]: event.data.attached } };
    case "message.received":
      return {
        ...state,
        ...(event.data.disposition === "queued" ? {} : { deferred: null }),
        ...received(state, event),
        messages: state.messages + 1,
        circle: noCircle,
      };
    case "reply.finished":
      return {
        ...state,
        reply: { read: event.data.read, finish: event.data.finish, failure: event.data.failure },
        ...(state.queued && event.data.finish !== "calls" ? { queued: false, input: event.version } : {}),
        time: state.time.since === null ? { ...state.time, since: event.at } : state.time,
        retry: null,
        tried: [],
        quotaSince: null,
        steps: state.steps + 1,
        messages: state.messages + 1,
        ...spent(state, event.data.sessionID, event.data.usage, { model: 1, tool: event.data.calls.length }),
      };
    case "reply.retried":
      return { ...state, retry: event.data };
    case "task.deferred": {
      const { until, reason } = event.data;
      const quotaSince = state.quotaSince ?? event.at;
      return {
        ...state,
        deferred: { at: event.at, until, reason },
        time: { ms: timeUntil(state, event.at), since: null },
        quotaSince,
        retry: null,
        tried: [],
      };
    }
    case "model.switched":
      return {
        ...state,
        ...asking(state, event.data.to),
        tried: [...state.tried, event.data.from],
        retry: null,
      };
    case "tool.started": {
      const { callID, sessionID, tool, effect, input } = event.data;
      const open = [...state.open, { callID, sessionID, tool, effect, mark: callMark(tool, input) }];
      return taken({ ...state, open }, event.at);
    }
    case "tool.finished": {
      const call = state.open.find((open) => open.callID === event.data.callID);
      const edits = call?.effect === "workspace" || call?.effect === "unknown";
      const open = state.open.filter(({ callID }) => callID !== event.data.callID);
      return left(
        {
          ...state,
          open,
          circle: call === undefined ? state.circle : advance(state.circle, call.mark, event.data, open.length === 0),
          asks: state.asks.filter((ask) => ask.callID !== event.data.callID),
          touched: state.touched || edits,
          edits: edits ? state.edits + 1 : state.edits,
        },
        event.at,
      );
    }
    case "note.written":
      return state;
    case "conversation.compacted":
      return {
        ...state,
        ...spent(state, event.data.sessionID, event.data.usage, {
          model: event.data.by === "service" ? 0 : 1,
          tool: 0,
        }),
      };
    case "budget.warned": {
      const { name, used, cap } = event.data;
      return { ...state, warned: { ...state.warned, [name]: { used, cap, at: event.at } } };
    }
    case "permission.decided":
      return event.data.decision === "allow"
        ? taken(
            {
              ...state,
              asks: state.asks.map((ask) => (ask.callID === event.data.callID ? { ...ask, begun: true } : ask)),
            },
            event.at,
          )
        : state;
    case "permissions.read":
      return { ...state, projectRules: event.data };
    case "ask.opened": {
      const { kind } = event.data;
      return left(
        {
          ...state,
          asks: [...state.asks, { ...event.data, answer: null, begun: false }],
          asked: { ...state.asked, [kind]: state.asked[kind] + 1 },
        },
        event.at,
      );
    }
    case "ask.answered":
      return {
        ...state,
        asks: state.asks.map((ask) => (ask.askID === event.data.askID ? { ...ask, answer: event.data } : ask)),
      };
    case "tree.committed":
      return { ...state, tree: event.data, touched: false };
    case "check.started":
      return { ...state, running: { checkID: event.data.checkID, on: event.data.on } };
    case "check.finished":
      return event.data.on === "base"
        ? { ...state, running: null, baseline: { ...state.baseline, [event.data.checkID]: event.data } }
        : {
            ...state,
            running: null,
            results: { ...state.results, [event.data.checkID]: { ...event.data, edits: state.edits } },
          };
    case "workspace.rebased":
      return {
        ...state,
        workspace: state.workspace && moved(state.workspace, event.data),
        tree: state.tree && {
          ...state.tree,
          commit: event.data.commit,
          tree: event.data.tree,
          parent: event.data.baseCommit,
        },
        left: event.data.left ?? state.left,
        moves: state.moves + 1,
      };
    case "landing.conflicted": {
      const { baseCommit, baseTree, snapshot, paths, round } = event.data;
      return {
        ...state,
        workspace: state.workspace && { ...seenAs(state.workspace, snapshot), baseCommit, baseTree },
        tree: null,
        touched: true,
        landingRound: round,
        moves: 0,
        conflicts: paths,
        left: [],
      };
    }
    case "landing.started":
      return { ...state, landingStarted: event.data };
    case "landing.withdrawn":
      return { ...state, landingStarted: null };
    case "landing.finished":
      // On a branch of its own nothing has gone anywhere: with a message unread the work simply goes on.
      return { ...state, landingStarted: null, landed: staysOnBranch(state) && !isRead(state) ? null : event.data };
    case "git.tampered":
      return { ...state, tampered: [...(state.tampered ?? []), ...event.data.files] };
    case "cancel.requested":
      return { ...state, deferred: null, cancel: event.data };
    case "task.settled":
      return {
        ...state,
        lifecycle: event.data.lifecycleStatus,
        error: event.data.error ?? null,
        errorInfo: event.data.errorInfo ?? null,
        settledAt: event.at,
        time: { ms: timeUntil(state, event.at), since: null },
        open: [],
        asks: [],
        running: null,
        retry: null,
        tried: [],
        deferred: null,
        quotaSince: null,
        cancel: null,
      };
  }
};

/** The Orchestrator's session goes on with a model. */
const asking = (state: TaskState, model: ModelRef) => ({
  model,
  sessions: state.sessions.map((session, index) => (index === 0 ? { ...session, model } : session)),
});

/**
 * A message is read with the next request; a queued one once the agent has finished what it does. A message to a
 * settled Task begins a new attempt; after a landing it begins from a new base.
 */
const received = (state: TaskState, event: Recorded & { type: "message.received" }): Partial<TaskState> =>
  state.lifecycle === "active"
    ? event.data.disposition === "queued" && !isIdle(state)
      ? { queued: true }
      : { input: event.version, round: event.data.source === "checks" ? state.round + 1 : state.round }
    : {
        ...asking(state, state.wanted),
        input: event.version,
        queued: false,
        lifecycle: "active",
        attempt: state.attempt + 1,
        attemptStartedAt: null,
        time: { ms: 0, since: null },
        warned: withoutTime(state.warned),
        settledAt: null,
        error: null,
        errorInfo: null,
        tampered: null,
        // What made it fail may be mended; it begins again, as after a kill.
        setup: state.setup?.finished?.state === "failed" ? { ...state.setup, finished: null } : state.setup,
        round: 0,
        landingRound: 0,
        moves: 0,
        // What made a check red may be mended outside the tree: a new attempt is checked anew.
        results: {},
        ...(state.landed === null ? {} : staysOnBranch(state) ? { landed: null } : { ...fresh, workspace: null }),
      };

const timeUntil = ({ time }: TaskState, at: string): number =>
  time.since === null ? time.ms : time.ms + Math.max(0, Date.parse(at) - Date.parse(time.since));

/** The warnings that still hold under another budget. */
const kept = ({ warned }: TaskState, budget: Budget): TaskState["warned"] =>
  Object.fromEntries(Object.entries(warned).filter(([name, { cap }]) => budget[name as keyof Budget] === cap));

/** Each attempt has its own time. */
const withoutTime = (warned: TaskState["warned"]): TaskState["warned"] =>
  Object.fromEntries(Object.entries(warned).filter(([name]) => name !== "maxMinutes"));

/** Landing renews the base: what comes after it starts from a new workspace. */
const fresh = {
  tree: null,
  touched: false,
  results: {},
  landed: null,
  landingRound: 0,
  moves: 0,
  conflicts: [],
  left: [],
};

type Place = EventData["workspace.prepared"];

/** On the branch's own commit: the snapshot has nothing beyond it any more, but says what was left out. */
const moved = (place: Place, { baseCommit, baseTree }: EventData["workspace.rebased"]): Place => ({
  ...place,
  baseCommit,
  baseTree,
  ...(place.snapshot === undefined ? {} : { snapshot: { ...place.snapshot, head: baseCommit } }),
});

const seenAs = (place: Place, snapshot: Place["snapshot"]): Place => {
  const { snapshot: before, ...rest } = place;
  return snapshot === undefined ? (before === undefined ? place : rest) : { ...rest, snapshot };
};

/** The time of the attempt stands still while the Task is left to whoever answers. */
const left = (state: TaskState, at: string): TaskState =>
  isLeft(state) ? { ...state, time: { ms: timeUntil(state, at), since: null } } : state;

/** It goes on once something is done again, also within one run: an external agent stays while it waits. */
const taken = (state: TaskState, at: string): TaskState =>
  state.time.since === null && !isLeft(state) ? { ...state, time: { ...state.time, since: at } } : state;

/** What a model call cost, on the Task and on its session. */
const spent = (state: TaskState, sessionID: string, call: ModelUsage, calls: { model: number; tool: number }) => {
  const add = (sum: Usage): Usage => ({
    inputTokens: sum.inputTokens + call.inputTokens,
    outputTokens: sum.outputTokens + call.outputTokens,
    cacheReadTokens: sum.cacheReadTokens + call.cacheReadTokens,
    cacheWriteTokens: sum.cacheWriteTokens + call.cacheWriteTokens,
    costUSD: sum.costUSD === null || call.costUSD === null ? null : sum.costUSD + call.costUSD,
    modelCalls: sum.modelCalls + calls.model,
    toolCalls: sum.toolCalls + calls.tool,
  });
  return {
    usage: add(state.usage),
    sessions: state.sessions.map((session) =>
      session.sessionID === sessionID ? { ...session, usage: add(session.usage) } : session,
    ),
  };
};
