import { branchName, publishedCommit } from "../../../domain/task/landing.ts";
import { messageOf } from "../../../error.ts";
import type { EventData } from "../../../protocol/event/event.ts";
import { RepositoryAway, type RepositoryPlace } from "../../../repository/repository.ts";
import { LandingUnfinished } from "../../../workspace/error.ts";
import type { Workspace } from "../../../workspace/workspace.ts";
import type { Run } from "../../run.ts";
import { landedEvent } from "../../workspace/landing.ts";
import { keepCheckpoint } from "../../checkpoint.ts";
import { repositoryPlace } from "../../repository-place.ts";
import { retryWhileRemoteAway } from "../../workspace/repository.ts";
import { namedPaths } from "../../../domain/task/commit-text.ts";
import { awaitLanding } from "../approve.ts";
import { fail, handleConflict, rebase } from "./land.ts";

/**
 * Lands the checked tree in a repository: moves the target branch to the commit, if the branch is still where the work
 * began, or else the Task's own branch. `landing.started` is the point of no return: after it, the remote is asked
 * whether the push got through.
 */
export const push = async (run: Run, retries: boolean): Promise<void> => {
  const workspace = await run.workspace();
  await run.landingTurn();
  const place = repositoryPlace(run);
  const { landingStarted, tree, workspace: prepared, conflicts, pushed } = run.state();
  if (landingStarted !== null) return roll(run, workspace, place, landingStarted);
  if (tree === null || prepared?.baseCommit == null) throw new Error("Expected a committed tree to push.");
  const unresolved = await run.workspaces.unresolved(workspace, conflicts);
  if (unresolved.length > 0) return handleConflict(run, workspace, retries, { kind: "unresolved", paths: unresolved });
  if (await awaitLanding(run, workspace)) return;

  const target = await retryWhileRemoteAway(run, async () => {
    if (prepared.targetRef === null) {
      const { remote, project: commonDir } = run.state();
      const { commit } = tree;
      if (remote !== null)
        await run.repositories.take(place, { commonDir, commit, base: prepared.baseCommit ?? "" }, run.signal);
      if (pushed === null) return { ref: await freeBranch(run, place), from: null, moved: false };
      // If somebody deleted the Task's own branch, it is created again: nobody loses anything by that.
      const gone = (await run.repositories.ask(place, pushed.ref, run.signal)) === null;
      return { ref: pushed.ref, from: gone ? null : pushed.commit, moved: false };
    }
    const fetched = await run.repositories.fetch(place, run.signal);
    const ref = `refs/heads/${branchName(prepared.targetRef)}`;
    return { ref, from: fetched.of, moved: fetched.commit !== prepared.baseCommit };
  }).catch((error: unknown) => {
    if (error instanceof RepositoryAway) return error;
    throw error;
  });
  if (target instanceof RepositoryAway) return away(run, workspace, place, target);
  if (target.moved) return rebase(run, workspace, tree, retries);
  const { commit, tree: treeID } = tree;
  const names = await run.repositories.unfilled(place, { commit, base: prepared.baseCommit }, run.signal);
  if ("refused" in names) return unchangeable(run, workspace, names.refused);
  const named = names.commit === commit ? {} : { pushed: names.commit };
  // A node that takes over after the point of no return has to push the same commit.
  await keepCheckpoint(run, names.commit);
  const data = { commit, tree: treeID, from: target.from ?? nothing(commit), ref: target.ref, paths: [], ...named };
  const started = await run.record([{ type: "landing.started", data }], { decidedAt: run.state().version });
  if (started) await roll(run, workspace, place, data);
};

/** How the log writes that a ref did not exist. */
const nothing = (commit: string): string => "0".repeat(commit.length);

const roll = async (
  run: Run,
  workspace: Workspace,
  place: RepositoryPlace,
  started: EventData["landing.started"],
): Promise<void> => {
  const { commit, tree, ref } = started;
  const change = { commit: publishedCommit(started), ref };
  const from = /^0+$/.test(started.from) ? null : started.from;
  if (!(await run.repositories.has(place, change.commit))) return withoutCommit(run, place, started);
  const done = await retryWhileRemoteAway(run, () =>
    run.repositories.push(place, { ...change, from }, run.signal),
  ).catch((error: unknown) => {
    // Whether the push got through is not known, so the Task can neither fail nor complete.
    throw error instanceof RepositoryAway ? new LandingUnfinished(error) : error;
  });
  if (done.ok) {
    await run.record([landedEvent(run.state(), { commit, tree, from: started.from, ref, paths: [] }, [])]);
    return;
  }
  const why = done.reason === "refused" ? done.words : `${ref} of ${place.url} has moved`;
  await run.record([{ type: "landing.withdrawn", data: { reason: why.slice(0, 1000) } }]);
  const { branch, targetRef } = workspace.prepared;
  if (done.reason === "moved" && targetRef !== null && done.head !== null) return;
  const name = ref.replace(/^refs\/heads\//, "");
  const said =
    done.reason === "refused"
      ? `${place.url} refused the push to ${name}: ${done.words}`
      : done.head === null
        ? `${name} of ${place.url} is gone`
        : `${name} of ${place.url} was changed by somebody else, so it is not touched`;
  await fail(run, {
    code: "landing_refused",
    message: `The work is done and in the archive, as branch ${branch} of ${holderOf(run)}, but ${said}.`,
    retryable: true,
    remedy: "Fix what the remote refuses, then send a message to push again.",
  });
};

/**
 * For a commit that was too large for a checkpoint and is gone with its node: all that can be found out is whether the
 * push got through.
 */
const withoutCommit = async (
  run: Run,
  place: RepositoryPlace,
  started: EventData["landing.started"],
): Promise<void> => {
  const { commit, tree, ref, from } = started;
  const head = await retryWhileRemoteAway(run, () => run.repositories.ask(place, ref, run.signal)).catch(
    (error: unknown) => {
      throw error instanceof RepositoryAway ? new LandingUnfinished(error) : error;
    },
  );
  if (head === publishedCommit(started)) {
    await run.record([landedEvent(run.state(), { commit, tree, from, ref, paths: [] }, [])]);
    return;
  }
  await run.record([{ type: "landing.withdrawn", data: { reason: "its commit was lost with the node that made it" } }]);
  await fail(run, {
    code: "landing_refused",
    message: `The commit ${commit.slice(0, 12)} for ${ref} of ${place.url} was lost with the node that made it.`,
    retryable: true,
    remedy: "Send a message to do the work again.",
  });
};

/** The agent was told of these changes before, as of those that a rule forbids, and could not undo them. */
const unchangeable = (run: Run, { prepared: { branch } }: Workspace, refused: { path: string; why: string }[]) =>
  fail(run, {
    code: "landing_refused",
    message: `The work is done and in the archive, as branch ${branch} of ${holderOf(run)}, but it changes files that are only fetched: ${namedPaths(refused.map(({ path, why }) => `${path} (${why})`))}.`,
    retryable: false,
    remedy: "Send a message that says how to continue without these changes.",
  });

const holderOf = (run: Run): string => {
  const { remote, directory } = run.state();
  return remote === null ? "the service's mirror" : directory;
};

const away = (run: Run, { prepared: { branch } }: Workspace, place: RepositoryPlace, error: RepositoryAway) =>
  fail(run, {
    code: "repository_unavailable",
    message: `The work is done and in the archive, as branch ${branch} of ${holderOf(run)}, but ${place.url} could not be reached: ${messageOf(error)}.`,
    retryable: true,
    remedy: "Send a message to push again when it can be reached.",
  });

/** A branch name that is free on the remote: an existing branch is somebody else's. */
const freeBranch = async (run: Run, place: RepositoryPlace): Promise<string> => {
  const { taskID, title, createdAt } = run.state();
  const name = run.repositories.branchFor({ taskID, title, at: new Date(createdAt) });
  for (let count = 1; ; count += 1) {
    const ref = `refs/heads/${name}${count === 1 ? "" : `-${count}`}`;
    if ((await run.repositories.ask(place, ref, run.signal)) === null) return ref;
  }
};
