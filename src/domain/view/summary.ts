import type { LongText } from "../../protocol/text.ts";
import { isProposalDue, publishedCommit, landingsOf, pullRequestOf } from "../task/landing.ts";
import { revertibleOf } from "../task/by-service.ts";
import { landingBranchOf } from "../task/now.ts";
import type { Phase, TaskSummary } from "../../protocol/task/status.ts";
import { checksOf, verifiedOf } from "../evidence/check.ts";
import { isPlanDue } from "../session/approval.ts";
import { pendingOf, toPerson, waitsUntil } from "../session/ask.ts";
import { openAsks } from "../state/stream.ts";
import { isActive, isCurrent, type TaskState } from "../state/task.ts";

/**
 * The list row of a Task, as lists, boards and filters show it: derived from the fold and stored with each commit. Its
 * place in the queue is not part of it, and is added when the row is read.
 */

/** What the Task is doing, in one word; `queued` until a worker runs it. */
export const phaseOf = (state: TaskState): Phase => {
  if (!isActive(state)) return "settled";
  if (state.landingStarted !== null || isProposalDue(state)) return "landing";
  if (state.attemptStartedAt === null || state.deferred !== null || state.pause !== null) return "queued";
  // Checks that run on the base while the agent works do not make a phase.
  if (state.running.some(({ on }) => on === "work" || state.reply === null)) return "checking";
  if (state.sessions.some(({ purpose, end }) => purpose === "review" && end === null)) return "reviewing";
  if (state.retry !== null || waitsUntil(state) !== undefined) return "waiting";
  if (state.workspace === null && state.reply === null) return "preparing";
  return isPlanDue(state) ? "planning" : "working";
};

/**
 * The actions that would not be refused with a 409 now. Whether a revert still applies can only be decided on the
 * project's branch; here it is only known that something of the Task landed there.
 */
const actionsOf = (state: TaskState): TaskSummary["availableActions"] => {
  const archive = state.workspace?.kind === "worktree" || state.isolation === "worktree" ? (["archive"] as const) : [];
  const revert = "commits" in revertibleOf(state) ? (["revert"] as const) : [];
  if (!isActive(state)) return ["message", "retry", ...revert, "update", ...archive, "delete"];
  const answer = openAsks(state).length > 0 ? (["answer"] as const) : [];
  return state.landingStarted === null && !isProposalDue(state)
    ? ["message", "cancel", ...answer, "update", ...archive]
    : ["message", "update", ...archive];
};

/** The fields that the status record and the list row share. */
export const commonOf = (state: TaskState) => {
  const running = isActive(state) ? 1 : 0;
  return {
    taskID: state.taskID,
    title: state.title,
    status: running ? ("running" as const) : ("inactive" as const),
    lifecycleStatus: state.lifecycle,
    phase: phaseOf(state),
    progress: { total: 1, running, inactive: 1 - running, percent: running * 100 },
    ...(state.error === null ? {} : { error: state.error }),
    ...(state.errorInfo === null ? {} : { errorInfo: state.errorInfo }),
    productPillar: state.productPillar,
    priority: state.priority,
    source: state.source,
    directory: state.directory,
    ...(state.mission === null ? {} : { missionID: state.mission.missionID }),
    ...(state.production === null ? {} : { production: state.production }),
    ...(state.callbackURL === null ? {} : { callbackURL: state.callbackURL }),
    squad: state.squad,
    model: state.model as string,
    attempt: state.attempt,
    pending: pendingOf(state),
    verified: verifiedOf(state),
    landing: state.landing,
    isolation: state.isolation,
    landingBranch: landingBranchOf(state),
    pullRequest: pullRequestOf(state),
    now: state.now,
    git: {
      baseCommit: state.workspace?.baseCommit ?? null,
      headCommit:
        (state.landed && publishedCommit(state.landed)) ?? state.tree?.commit ?? state.workspace?.baseCommit ?? null,
      branch: state.workspace?.branch ?? null,
      checkedTree: checkedTree(state),
      landedCommit: state.landed && publishedCommit(state.landed),
      landedTree: state.landed?.tree ?? null,
      landings: landingsOf(state),
      diffStat: state.tree && {
        files: state.tree.files,
        insertions: state.tree.insertions,
        deletions: state.tree.deletions,
      },
    },
    usage: state.usage,
    budget: state.budget,
    budgetWarnings: Object.entries(state.warned).map(([name, warned]) => ({
      name: name as keyof typeof state.warned,
      ...warned,
    })),
    sandbox: state.sandbox,
    availableActions: actionsOf(state),
    archived: state.archived,
    lastEventID: state.position,
    metadata: state.metadata,
    createdAt: state.createdAt,
    startedAt: state.startedAt,
    updatedAt: state.updatedAt,
    settledAt: state.settledAt,
  };
};

/** The tree on which every required check has passed; null if there is none. */
const checkedTree = (state: TaskState): string | null => {
  const required = state.checks.filter((check) => check.required);
  const passed = required.flatMap((check) => {
    const result = state.results[check.id];
    return result !== undefined && result.state === "passed" && isCurrent(state, result) ? [result] : [];
  });
  return required.length > 0 && passed.length === required.length ? (passed[0]?.tree ?? null) : null;
};

/** What the Task itself waits for. Its place in the queue is filled in when the row is read. */
export const waitOf = ({ deferred, pause }: TaskState): TaskSummary["queue"] =>
  deferred !== null
    ? { position: 1, notBefore: deferred.until, reason: deferred.reason }
    : pause && { position: 1, notBefore: null, reason: pause.reason };

export const summarise = (state: TaskState): TaskSummary => {
  const checks = checksOf(state);
  const counts = { total: checks.length, passed: 0, failed: 0, error: 0, pending: 0 };
  for (const { state: found, stale } of checks)
    counts[stale || found === "running" || found === "pending" ? "pending" : found] += 1;
  return {
    ...commonOf(state),
    repository: state.repository,
    updated: Date.parse(state.updatedAt),
    queue: waitOf(state),
    checks,
    summary: state.summary === null ? null : headOf(state.summary).slice(0, shownSummary),
    checkCounts: counts,
    pendingCount: toPerson(openAsks(state)).length,
  };
};

/** How many characters of the agent's report a list shows. */
const shownSummary = 200;

const headOf = (text: LongText): string => (typeof text === "string" ? text : text.head);
