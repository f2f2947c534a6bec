import type { DomainEvent } from "../../../domain/event.ts";
import { rootOf } from "../../../domain/state/stream.ts";
import type { TaskState } from "../../../domain/state/task.ts";
import { notRevertibleText, revertibleOf, revertRequest } from "../../../domain/task/by-service.ts";
import { titleOf } from "../../../domain/task/title.ts";
import { dueNow } from "../../../engine/due.ts";
import { messageOf, ServiceError } from "../../../error.ts";
import { newID } from "../../../id.ts";
import type { CheckSpec } from "../../../protocol/check.ts";
import type { TaskReverted } from "../../../protocol/task/accepted.ts";
import type { TaskRevert } from "../../../protocol/task/request.ts";
import { commonDirOf, withLocalDirectory, RepositoryAway } from "../../../repository/repository.ts";
import { keepText } from "../../../store/blob/text.ts";
import type { Tasks, TasksDeps } from "../../tasks.ts";
import { checkSpecs, invalidField } from "../check-spec.ts";
import type { Change } from "../commit-change.ts";
import { expectRoom } from "../create/create.ts";
import { idempotencyRecord, replay } from "../idempotency.ts";
import { withBaselines } from "../visual-baseline.ts";

/** Creates a Task that takes back what another one landed, if that applies to the project's branch as it is now. */
export const createRevert =
  (deps: TasksDeps, { own }: Change): Tasks["revert"] =>
  async (directory, taskID, body, once, signal) => {
    const { store, engine } = deps;
    const state = withLocalDirectory(deps.repositories, await own(directory, taskID));
    const commits = await revertibleNow(deps, state, signal);
    await expectRoom(deps);
    const checks = await checksOf(deps, state, body);
    const { title, squad } = state;
    const revertID = newID("task");
    const created: DomainEvent = {
      type: "task.created",
      data: {
        taskID: revertID,
        title: titleOf(`Revert "${title}"`),
        titleBy: "caller",
        request: await keepText(store.blobs, revertRequest(title, taskID, commits)),
        productPillar: state.productPillar,
        priority: state.priority,
        source: body.source ?? "api",
        directory: state.directory,
        project: state.project,
        ...(state.repository === null ? {} : { repository: state.repository }),
        checks,
        ...((body.checks ?? (state.unchecked ? [] : undefined))?.length === 0 ? { unchecked: true as const } : {}),
        attachments: [],
        metadata: {},
        squad,
        model: state.wanted,
        ...(state.effort === null ? {} : { effort: state.effort }),
        isolation: "worktree",
        landing: "commit",
        budget: null,
        sessionID: newID("ses"),
        agent: state.sessions.find(({ sessionID }) => sessionID === rootOf(state))?.agent ?? "",
        contrast: false,
        ...(deps.terms === undefined ? {} : { terms: deps.terms(checks.some(({ kind }) => kind === "visual")) }),
        revertOf: { taskID, title, commits },
      },
    };
    const { id, version, digest } = squad;
    const reply: TaskReverted = {
      task_id: revertID,
      taskID: revertID,
      revertOf: taskID,
      directory: state.directory,
      squad: { id, version, digest },
      isolation: "worktree",
      landing: "commit",
      ...(state.repository === null ? {} : { repository: state.repository }),
    };
    const due = dueNow(deps.now(), state.priority);
    const done = await store.commit({
      appends: [{ stream: revertID, expected: 0, events: [created] }],
      due: [{ stream: revertID, due }],
      ...(once === undefined ? {} : { once: idempotencyRecord(once, 202, reply, false) }),
    });
    if (done.ok) {
      engine.nudge(revertID, due);
      return { status: 202, body: reply, replayed: false };
    }
    if (done.reason === "once") return replay(done.bodyHash, done.stored, once);
    throw new Error(`A revert could not be written: ${done.reason}`);
  };

/** The commits to take back, newest first. Rejects with `not_revertible`. */
const revertibleNow = async (deps: TasksDeps, state: TaskState, signal: AbortSignal): Promise<string[]> => {
  const { taskID } = state;
  const refuse = (reason: string, paths: readonly string[] = []) =>
    new ServiceError("not_revertible", notRevertibleText(taskID, reason, paths), {
      details: { taskID, reason, paths: paths.slice(0, 500) },
    });
  const found = revertibleOf(state);
  if ("reason" in found) throw refuse(found.reason);
  const reverted = await deps.workspaces.revertible(
    commonDirOf(deps.repositories, state),
    await headOf(deps, state, signal, refuse),
    found.commits,
  );
  if (!reverted.ok) throw refuse(reverted.reason, reverted.paths);
  return found.commits;
};

/** The project's branch now: the commit that is checked out, or the remote's. */
const headOf = async (
  { workspaces, repositories }: TasksDeps,
  state: TaskState,
  signal: AbortSignal,
  refuse: (reason: string) => ServiceError,
): Promise<string> => {
  const place = state.repository === null ? undefined : repositories.at(state.directory);
  if (place !== undefined) {
    if (!repositories.landing(place).allowed.includes("commit"))
      throw refuse("its operator allows no landing on branches of repositories (repositories.landing of config.jsonc)");
    const { commit, branch } = await repositories.fetch(place, signal).catch((error: unknown) => {
      if (!(error instanceof RepositoryAway)) throw error;
      throw new ServiceError("repository_unavailable", `${place.url} could not be fetched: ${messageOf(error)}.`);
    });
    if (branch === null) throw refuse("its ref is no longer a branch of the remote");
    return commit;
  }
  const { git } = await workspaces.inspect(state.directory);
  if (git === undefined || git.head === null) throw refuse("its project no longer has a Git commit");
  if (git.branch === null) throw refuse("the project has no branch checked out");
  return git.head;
};

/**
 * The checks that the caller asked for. Without any, those of the Task's own checks that passed on the base before its
 * work: a check that proves the work may well fail without it. If none is left, the project's own checks run, as for
 * every Task.
 */
const checksOf = async (
  { store, limits }: TasksDeps,
  { checks, baseline, directory }: TaskState,
  body: TaskRevert,
): Promise<CheckSpec[]> => {
  if (body.checks === undefined) return checks.filter(({ id, kind }) => kind !== "review" && passed(baseline[id]));
  const judged = body.checks.findIndex((check) => typeof check === "object" && check.kind === "review");
  if (judged >= 0)
    throw invalidField(`checks[${judged}].kind`, "Expected no check of the kind review: a revert calls no model");
  return withBaselines(checkSpecs(body.checks), body.checks, {
    attachments: [],
    directory,
    blobs: store.blobs,
    limits,
  });
};

const passed = (result: { state: string } | undefined): boolean => result?.state === "passed";
