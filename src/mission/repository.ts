import { messageOf, ServiceError } from "../error.ts";
import { pullRequestOf } from "../domain/mission/whole/pull-request.ts";
import { branchOf } from "../domain/mission/whole/merge.ts";
import type { EventData } from "../protocol/event/event.ts";
import type { MissionRepository } from "../domain/state/mission.ts";
import { ForgeRefused, RepositoryAway, type RepositoryPlace } from "../repository/repository.ts";
import { waitThrough } from "../task/workspace/repository.ts";
import type { MissionRun } from "./run.ts";

/**
 * A Mission whose project is a repository by address. Its Tasks land on one branch of the Mission's own: a later phase
 * begins from what an earlier one left, and nothing reaches the branch of others. At the end that branch is proposed as
 * a whole.
 */

const refOf = (run: MissionRun): string => `refs/heads/${branchOf(run.state())}`;

/** The local place of the Mission's branch; its Tasks work in that directory. */
const branchPlace = (run: MissionRun, { url }: MissionRepository): RepositoryPlace =>
  run.repositories.place(url, branchOf(run.state()) ?? undefined);

/**
 * The directory in which the Mission's catalog is read and its Tasks work: the project's, but with a repository the
 * place of the Mission's branch once something was dispatched.
 */
export const taskDirectory = (run: MissionRun): string => {
  const { directory, repository, tasks } = run.state();
  return repository === null || tasks.length === 0 ? directory : branchPlace(run, repository).directory;
};

/** Fetches the repository's files before the agent continues. A string says why that was not possible. */
export const refresh = async (run: MissionRun): Promise<string | undefined> => {
  const { directory, repository, tasks } = run.state();
  if (repository === null) return undefined;
  try {
    if (tasks.length > 0) {
      await seeMerge(run);
      const place = branchPlace(run, repository);
      // If the branch is missing, the next dispatch makes it anew.
      const head = await waitThrough(run, place.url, () => run.repositories.ask(place, refOf(run), run.signal));
      if (head !== null) await waitThrough(run, place.url, () => run.repositories.fetch(place, run.signal));
    } else {
      const place = run.repositories.at(directory);
      if (place !== undefined) await waitThrough(run, place.url, () => run.repositories.fetch(place, run.signal));
    }
    return undefined;
  } catch (error) {
    return saidOf(run, error);
  }
};

/**
 * The directory for a Task to be dispatched. If the Mission's branch does not exist, it is made from the current head
 * of the base. Its name is recorded first, and a branch of that name that belongs to somebody else is left alone.
 */
export const readyRemoteBranch = async (run: MissionRun): Promise<{ directory: string } | { why: string }> => {
  const { directory, repository } = run.state();
  if (repository === null) return { directory };
  try {
    const base = run.repositories.at(directory);
    if (base === undefined) throw new Error(`Expected the files of a repository in ${directory}, got nothing.`);
    await waitThrough(run, base.url, async () => {
      while (!(await isMade(run, base)))
        await run.record([{ type: "mission.branched", data: await freeBranch(run, base, repository) }]);
      await run.repositories.fetch(branchPlace(run, repository), run.signal);
    });
    return { directory: branchPlace(run, repository).directory };
  } catch (error) {
    return { why: saidOf(run, error) };
  }
};

/**
 * Whether the Mission's branch exists or was made now. false: it has no name yet, or somebody else has taken that name.
 */
const isMade = async (run: MissionRun, base: RepositoryPlace): Promise<boolean> => {
  const { branch, tasks } = run.state();
  const used = branch?.used ?? tasks.length > 0;
  if (branch === null && !used) return false;
  const ref = refOf(run);
  const head = await run.repositories.ask(base, ref, run.signal);
  if (head !== null) return used || head === branch?.commit;
  const commit = used || branch === null ? (await run.repositories.fetch(base, run.signal)).of : branch.commit;
  if (!(await run.repositories.has(base, commit))) await run.repositories.fetch(base, run.signal);
  const made = await run.repositories.push(base, { commit, ref, from: null }, run.signal);
  if (!made.ok && made.reason === "refused")
    throw new ServiceError("repository_unavailable", `${base.url} refused the branch ${ref.slice(11)}: ${made.words}`);
  return used || made.ok;
};

const freeBranch = async (
  run: MissionRun,
  base: RepositoryPlace,
  { branch: first }: MissionRepository,
): Promise<EventData["mission.branched"]> => {
  const { of: commit } = await run.repositories.fetch(base, run.signal);
  for (let count = 1; ; count += 1) {
    const branch = count === 1 ? first : `${first}-${count}`;
    if ((await run.repositories.ask(base, `refs/heads/${branch}`, run.signal)) === null)
      return { sessionID: run.stream, branch, commit, of: null };
  }
};

/** Opens the pull request for the whole, or records why there is none. Tried again with each `done`. */
export const proposeWhole = async (run: MissionRun): Promise<void> => {
  const { directory, repository, pullRequest } = run.state();
  const base = run.repositories.at(directory);
  if (repository === null || base === undefined) throw new Error("Expected a Mission of a repository.");
  const ref = refOf(run);
  const done = await (async () => {
    const { allowed, proposes } = run.repositories.landing(base);
    if (proposes !== undefined) throw new ForgeRefused(0, proposes);
    if (!allowed.includes("pull-request")) throw new ForgeRefused(0, "the operator allows none (repositories.landing)");
    const commit = await run.repositories.ask(base, ref, run.signal);
    if (commit === null) throw new ForgeRefused(0, `the branch ${branchOf(run.state())} is gone`);
    const ended = pullRequest === null || pullRequest.state === "open" ? null : pullRequest.number;
    const proposal = {
      ref,
      commit,
      ended,
      fresh: pullRequest?.state !== "open",
      ...pullRequestOf(run.state(), run.repositories.page),
    };
    const opened = await waitThrough(run, base.url, () => run.repositories.propose(base, proposal, run.signal));
    return { commit, pullRequest: opened };
  })().catch((error: unknown) => ({ commit: null, pullRequest: null, reason: saidOf(run, error).slice(0, 1000) }));
  await run.record([{ type: "mission.proposed", data: { sessionID: run.stream, ...done } }]);
};

/**
 * Records what became of the pull request. Once it is merged, its branch is removed if it is still at the proposed
 * commit: what is dispatched later is a change of its own.
 */
const seeMerge = async (run: MissionRun): Promise<void> => {
  const { pullRequest, proposed, directory } = run.state();
  const base = run.repositories.at(directory);
  if (pullRequest?.state !== "open" || proposed === null || base === undefined) return;
  try {
    const found = await run.repositories.proposed(base, pullRequest.number, run.signal);
    if (found === undefined || found.state === "open") return;
    const at = { ref: refOf(run), commit: proposed };
    if (found.state === "merged") await run.repositories.removeBranch(base, at, run.signal);
    await run.record([
      { type: "mission.proposed", data: { sessionID: run.stream, commit: proposed, pullRequest: found } },
    ]);
  } catch (error) {
    run.log.warn({ mission: run.stream, error: saidOf(run, error) }, "what became of a pull request is not known");
  }
};

/** The message of a remote or forge that is away or refuses; any other error is thrown. */
const saidOf = (run: MissionRun, error: unknown): string => {
  run.signal.throwIfAborted();
  if (error instanceof RepositoryAway || error instanceof ForgeRefused) return messageOf(error);
  if (error instanceof ServiceError && !error.retryable) return messageOf(error);
  throw error;
};
