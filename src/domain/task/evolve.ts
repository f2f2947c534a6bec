import type { EventData } from "../../protocol/event/event.ts";
import { isOfMission, type Recorded } from "../event.ts";
import { afterApproval } from "../session/approval.ts";
import { freshWorkspaceFields, keptWarnings, afterMessage } from "./attempt.ts";
import { timeUntil, workedAt } from "../session/work-time.ts";
import { hasDied } from "./crash.ts";
import { createdState } from "./created.ts";
import {
  addEvidence,
  artifactEvidence,
  checkEvidence,
  commandEvidence,
  contrastEvidence,
  bindEvidenceToTree,
  keepEvidenceOnSameTree,
} from "../evidence/evidence.ts";
import { addUsage, inSession, startedSession } from "../session/session.ts";
import { evolveLanding } from "./landing.ts";
import { withNow } from "./now.ts";
import { reported } from "./report.ts";
import { reopenSlices, evolveSlices, settleWhole } from "../evidence/slice.ts";
import { outputGiven, outputRefused } from "../session/output.ts";
import { evolveSession } from "../session/evolve.ts";
import { type Checkpoint, isOpenSlice, type TaskState } from "../state/task.ts";
import { noRepetition, rootOf, waitsForAnswers } from "../state/stream.ts";

/** A Task as a fold of its events. Pure: no clock, no I/O, no randomness. */

/** Raise this whenever `evolve` or `TaskState` changes in meaning, so that stored snapshots are folded anew. */
export const taskRevision = 44;

/** Events that are no progress of the Task: they do not reset `crashes` and `alone`. */
const waits: ReadonlySet<string> = new Set([
  "task.updated",
  "run.started",
  "run.stopped",
  "run.stuck",
  "workspace.prepared",
  "checkpoint.kept",
  "workspace.moved",
  "dependencies.given",
  "setup.started",
  "mcp.asked",
  "environment.given",
  "mcp.listed",
  "agent.attached",
  "reply.retried",
  "run.paused",
  "run.resumed",
  "task.deferred",
  "model.switched",
  "budget.warned",
  "checks.found",
  "check.started",
  "ask.reminded",
  "permission.decided",
  "permissions.read",
]);

/** Folds one event in. Never modifies the previous state, which must stay valid if the commit fails. */
export const evolve = (before: TaskState | undefined, event: Recorded): TaskState =>
  withNow(fold(before, event), event.at);

const fold = (before: TaskState | undefined, event: Recorded): TaskState => {
  if (before === undefined) {
    if (event.type !== "task.created")
      throw new Error(`Expected task.created as the first event of ${event.stream}, got ${event.type}`);
    return { ...createdState(event), version: event.version, position: event.position };
  }
  const state: TaskState = {
    ...before,
    version: event.version,
    position: event.position,
    updatedAt: event.at,
    workedAt: workedAt(before, event),
    crashes: waits.has(event.type) ? before.crashes : 0,
    alone: waits.has(event.type) && before.alone,
  };
  if (isOfMission(event)) throw new Error(`Expected a Task's fact in ${event.stream}, got ${event.type}`);
  switch (event.type) {
    case "task.created":
      throw new Error(`Expected one task.created in ${event.stream}, got a second at version ${event.version}`);
    case "task.updated":
      return {
        ...state,
        title: event.data.title ?? state.title,
        titleBy: event.data.title === undefined ? state.titleBy : (event.data.titleBy ?? "caller"),
        priority: event.data.priority ?? state.priority,
        archived: event.data.archived ?? state.archived,
        ...(event.data.budget === undefined
          ? {}
          : { budget: event.data.budget, warned: keptWarnings(state, event.data.budget) }),
      };
    case "run.started":
      return {
        ...state,
        deferred: null,
        pause: null,
        startedAt: state.startedAt ?? event.at,
        attemptStartedAt: state.attemptStartedAt ?? event.at,
        // A run that died counts as working until its own last event.
        time: { ms: timeUntil(before, before.workedAt), since: waitsForAnswers(before) ? null : event.at },
        sandbox: event.data.sandbox,
        worker: event.data.worker,
        crashes: hasDied(before, event.data.worker) ? before.crashes + 1 : before.crashes,
        alone: event.data.alone === true,
        stopped: false,
        running: [],
      };
    case "reply.finished":
      return {
        ...evolveSession(state, event),
        ...reported(state, event),
        ...(event.data.system === undefined ? {} : { system: event.data.system }),
      };
    case "run.stopped":
    case "run.paused":
    case "run.resumed":
    case "reply.retried":
    case "task.deferred":
    case "model.switched":
    case "tool.started":
    case "conversation.compacted":
    case "ask.opened":
    case "ask.passed":
    case "ask.reminded":
    case "permission.decided":
      return evolveSession(state, event);
    case "ask.answered":
      return { ...evolveSession(state, event), ...afterApproval(state, event) };
    case "approval.moved":
      return { ...state, ...afterApproval(state, event) };
    case "workspace.prepared":
      return state.landed === null
        ? { ...state, workspace: event.data, earlier: null, moved: null }
        : { ...state, ...freshWorkspaceFields, workspace: event.data, earlier: null };
    case "checkpoint.kept":
      return {
        ...state,
        checkpoint: {
          ...event.data,
          version: event.data.upTo ?? event.version,
          before: state.checkpoint === null ? null : alone(state.checkpoint),
        },
      };
    case "workspace.moved":
      return afterMove(state, event.data);
    case "dependencies.given":
      return { ...state, dependencies: event.data.folders };
    case "mcp.asked": {
      const { digest, granted, names, servers } = event.data;
      return { ...state, projectServers: { digest, granted, names, servers } };
    }
    case "environment.given": {
      const { from, digest, granted, settings } = event.data;
      return { ...state, environment: { from, digest, granted, settings } };
    }
    case "mcp.listed": {
      const { server, tools, problem } = event.data;
      return { ...state, mcp: { ...state.mcp, [server]: { tools, problem } } };
    }
    case "setup.started":
      return { ...state, setup: { ...event.data, finished: null } };
    case "setup.finished":
      return { ...state, setup: { run: event.data.run, worktree: event.data.worktree, finished: event.data } };
    case "agent.attached":
      return { ...state, externalSessions: { ...state.externalSessions, [event.data.sessionID]: event.data.attached } };
    case "message.received":
      return {
        ...state,
        ...(event.data.disposition === "queued" ? {} : { deferred: null }),
        ...afterMessage(state, event),
        messages: state.messages + 1,
        repetition: noRepetition,
      };
    case "tool.finished": {
      const call = state.open.find((open) => open.callID === event.data.callID);
      const forked = state.sessions.some(({ sessionID, fork }) => fork !== null && sessionID === event.data.sessionID);
      const edits = !forked && (call?.effect === "workspace" || call?.effect === "unknown");
      const writes = edits && call.effect === "workspace" && event.data.outcome !== "error";
      const after = {
        ...evolveSession(state, event),
        touched: state.touched || edits,
        writes: state.writes + Number(writes),
        seenRed: state.seenRed || isRed(event.data),
        ...(edits ? { edits: state.edits + 1, ...reopenSlices(state) } : {}),
      };
      const { tree } = event.data;
      if (tree === undefined) return { ...after, ...commandEvidence(after, event) };
      const { edits: at, writes: by } = after;
      return { ...after, ...keepEvidenceOnSameTree(state, after, tree), left: { tree, edits: at, writes: by } };
    }
    case "note.written":
    case "message.passed":
    case "run.stuck":
      return state;
    case "artifact.recorded":
      return {
        ...state,
        artifacts: [...state.artifacts, { ...event.data, at: event.at }],
        ...artifactEvidence(state, event),
      };
    case "budget.warned": {
      const { name, used, cap } = event.data;
      return { ...state, warned: { ...state.warned, [name]: { used, cap, at: event.at } } };
    }
    case "permissions.read":
      return { ...state, projectRules: event.data };
    case "slice.defined":
    case "slice.revised":
    case "slice.ordered":
    case "slice.dropped":
    case "slice.settled":
    case "review.finished":
      return { ...state, ...evolveSlices(state, event) };
    case "task.abandoned":
      return { ...state, abandoned: { why: event.data.why, tried: event.data.tried } };
    case "output.given":
      return { ...state, ...outputGiven(state, event.data) };
    case "output.refused":
      return { ...state, ...outputRefused(state, event.data) };
    case "session.started":
      return { ...state, sessions: [...state.sessions, startedSession(state, event)] };
    case "check.judged": {
      const { sessionID, checkID, verdict, notes } = event.data;
      return {
        ...state,
        ...inSession(state, sessionID, ({ judged }) => ({ judged: { ...judged, [checkID]: { verdict, notes } } })),
      };
    }
    case "session.interrupted": {
      const { sessionID, ...interrupted } = event.data;
      return { ...state, ...inSession(state, sessionID, () => ({ interrupted })) };
    }
    case "session.ended": {
      const { sessionID, joined, ...how } = event.data;
      const end = { ...how, ...(joined === undefined ? {} : { joined }), at: event.at };
      // No call outlives its session. Logs written before `closingCalls` existed can hold a call that nobody would ever
      // end.
      const open = state.open.filter((call) => call.sessionID !== sessionID);
      const after = { ...state, open, ...inSession(state, sessionID, () => ({ end })) };
      return (joined?.files ?? 0) === 0
        ? after
        : { ...after, touched: true, edits: state.edits + 1, writes: state.writes + 1, ...reopenSlices(after) };
    }
    case "commit.described": {
      const { said, usage } = event.data;
      return {
        ...state,
        ...addUsage(state, rootOf(state), usage, { model: 1, tool: 0 }),
        described: { said: said ?? state.described?.said ?? null, edits: state.edits },
      };
    }
    case "tree.committed": {
      const { commit, tree, files, insertions, deletions } = event.data;
      const after = {
        ...state,
        ...bindEvidenceToTree(state, tree),
        tree: event.data,
        denied: null,
        touched: false,
        revertOf: state.revertOf && { ...state.revertOf, tried: true },
        mergeOf: state.mergeOf && { ...state.mergeOf, tried: true },
      };
      const summary = `${files} ${files === 1 ? "file" : "files"} changed, +${insertions} -${deletions}`;
      const change = {
        id: commit,
        kind: "change" as const,
        summary,
        sessionID: null,
        commit,
        tree,
        lastLines: null,
        at: event.at,
      };
      return files === 0 ? after : { ...after, ...addEvidence(after, change) };
    }
    case "change.denied":
      return { ...state, denied: event.data };
    case "checks.found":
      return { ...state, ownChecks: event.data.checks };
    case "checks.replaced":
      return { ...state, ...withChecks(state, event.data.checks) };
    case "check.started":
      return { ...state, running: [...state.running, { checkID: event.data.checkID, on: event.data.on }] };
    case "check.finished": {
      const { checkID, on } = event.data;
      const running = state.running.filter((one) => one.checkID !== checkID || one.on !== on);
      return on === "base"
        ? { ...state, running, baseline: { ...state.baseline, [checkID]: event.data } }
        : {
            ...state,
            running,
            results: { ...state.results, [checkID]: { ...event.data, edits: state.edits, writes: state.writes } },
            seenRed: state.seenRed || event.data.state === "failed",
            ...checkEvidence(state, event),
          };
    }
    case "contrast.finished":
      return { ...state, contrast: event.data, ...contrastEvidence(state, event) };
    case "workspace.rebased":
    case "landing.conflicted":
    case "landing.started":
    case "landing.withdrawn":
    case "landing.finished":
    case "landing.proposed":
      return evolveLanding(state, event);
    case "squad.staged":
      return { ...state, staged: event.data };
    case "squad.installing":
      // The tree of an earlier package, landed or not, says nothing about this one.
      return { ...state, installing: event.data.squad.digest, tree: null };
    case "squad.installed":
      return { ...state, installing: null, installed: event.data };
    case "git.tampered":
      return { ...state, tampered: [...(state.tampered ?? []), ...event.data.files] };
    case "cancel.requested":
      return { ...state, deferred: null, cancel: event.data };
    case "task.settled":
      return {
        ...state,
        lifecycle: event.data.lifecycleStatus,
        revertOf: state.revertOf && { ...state.revertOf, tried: true },
        mergeOf: state.mergeOf && { ...state.mergeOf, tried: true },
        // Earlier versions let a Task fail during a landing. That landing is over, too: later messages are read before
        // anything lands.
        landingStarted: null,
        error: event.data.error ?? null,
        errorInfo: event.data.errorInfo ?? null,
        settledAt: event.at,
        slices: event.data.lifecycleStatus === "completed" ? settleWhole(state, event.at) : state.slices,
        sessions: state.sessions.map((session) =>
          session.callID === null && session.purpose === "work"
            ? session
            : { ...session, end: session.end ?? { outcome: "stopped", reason: null, at: event.at } },
        ),
        time: { ms: timeUntil(state, event.at), since: null },
        open: [],
        asks: [],
        running: [],
        retry: null,
        tried: [],
        deferred: null,
        pause: null,
        quotaSince: null,
        cancel: null,
      };
  }
};

const alone = (kept: NonNullable<TaskState["checkpoint"]>): Checkpoint => {
  const { before: _, ...checkpoint } = kept;
  return checkpoint;
};

/**
 * Folds in a move to another node. The files are now those of the checkpoint, or of the base if there is none. Work
 * that was committed and kept continues unchanged; later work is lost and is done again from there.
 */
const afterMove = (state: TaskState, moved: EventData["workspace.moved"]): TaskState => {
  const { tree, touched } = state;
  const tips = new Map(moved.forks?.map(({ name, commit }) => [name, commit]));
  const sessions = state.sessions.map((session) => {
    const tip = tips.get(session.fork?.name ?? "");
    return session.fork === null || tip === undefined ? session : { ...session, fork: { ...session.fork, tip } };
  });
  const { checkpoint } = state;
  // The new node cannot keep the copy of a fork that was not restored.
  const forks = checkpoint?.forks?.filter(({ name, commit }) => tips.get(name) === commit) ?? [];
  const left = checkpoint?.forks === undefined ? checkpoint : { ...checkpoint, forks };
  const after = { ...state, sessions, checkpoint: left, moved, dependencies: null, setup: null, externalSessions: {} };
  if (!touched && (tree === null || tree.commit === moved.commit)) return after;
  return {
    ...after,
    tree: null,
    denied: null,
    touched: true,
    conflicts: [],
    edits: state.edits + 1,
    writes: state.writes + 1,
    ...reopenSlices(state),
  };
};

/** Whether a command ended by itself with an exit code other than 0. */
const isRed = ({ tool, exitCode }: EventData["tool.finished"]): boolean =>
  (tool === "shell" || tool === "process") && exitCode !== null && exitCode !== 0;

/** The Task must pass these checks from now on; rounds under the earlier checks no longer count. */
const withChecks = (state: TaskState, checks: TaskState["checks"]): Partial<TaskState> => ({
  checks,
  unchecked: checks.length === 0,
  round: 0,
  slices: state.slices.map((slice) =>
    slice.whole && isOpenSlice(slice)
      ? {
          ...slice,
          contract: {
            ...slice.contract,
            revision: slice.contract.revision + 1,
            acceptance: checks.map(({ name }) => `\`${name}\` passes`),
          },
        }
      : slice,
  ),
});
