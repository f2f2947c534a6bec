import { messageOf } from "../../../error.ts";
import { contrastWords } from "../../../domain/contrast/wording.ts";
import { checksOf } from "../../../domain/evidence/check.ts";
import { branchName, publishedCommit } from "../../../domain/task/landing.ts";
import { pullRequestBody } from "../../../domain/task/pull-request.ts";
import { ForgeRefused, RepositoryAway } from "../../../repository/repository.ts";
import { loadText } from "../../../store/blob/text.ts";
import type { Run } from "../../run.ts";
import { messageFor } from "../../workspace/commit.ts";
import { repositoryPlace } from "../../repository-place.ts";
import { retryWhileRemoteAway } from "../../workspace/repository.ts";
import { reportOf } from "../settle.ts";
import { fail } from "./land.ts";

/**
 * Opens the pull request for the pushed branch, or updates it. The forge is asked whether an earlier run got through.
 * Fails the Task when there is no pull request in the end; the branch stays pushed.
 */
export const openRequest = async (run: Run): Promise<void> => {
  const place = repositoryPlace(run);
  const { landed, taskID, contrast, tree, pullRequest } = run.state();
  if (landed === null) throw new Error("Expected a pushed branch to open a pull request of.");
  const { ref } = landed;
  const commit = publishedCommit(landed);
  const title = (await messageFor(run)).split("\n")[0] ?? taskID;
  const body = pullRequestBody({
    taskID,
    report: await loadText(run.store.blobs, await reportOf(run)),
    checks: checksOf(run.state()),
    contrast: contrast === null || contrast.tree !== tree?.tree ? null : contrastWords(contrast),
    page: run.repositories.page,
  });
  try {
    const ended = pullRequest === null || pullRequest.state === "open" ? null : pullRequest.number;
    const proposal = { ref, commit, ended, fresh: pullRequest?.state !== "open", title, body };
    const opened = await retryWhileRemoteAway(run, () => run.repositories.propose(place, proposal, run.signal));
    await run.record([{ type: "landing.proposed", data: { ...opened, commit } }]);
  } catch (error) {
    if (!(error instanceof ForgeRefused || error instanceof RepositoryAway)) throw error;
    const refused = error instanceof ForgeRefused;
    await fail(run, {
      code: refused ? "landing_refused" : "repository_unavailable",
      message: `The work is done and pushed as ${branchName(ref)} of ${place.url}, but no pull request was opened: ${messageOf(error).replace(/\.$/, "")}.`,
      retryable: true,
      remedy: `${refused ? "Fix what the forge refuses" : "Wait until it answers"}, then send a message to try again, or open it by hand.`,
    });
  }
};

/**
 * Records the state of the pull request before a follow-up continues with its branch. If it was merged, its branch is
 * removed, provided that it is still as it was pushed, and the work begins on a new base. A forge that does not answer
 * stops nobody from working.
 */
export const seeRequest = async (run: Run): Promise<void> => {
  const place = repositoryPlace(run);
  const { pullRequest, pushed } = run.state();
  if (pullRequest === null || pushed === null) throw new Error("Expected a pull request of a branch that was pushed.");
  const { url, number, state, commit } = pullRequest;
  const known = { url, number, state };
  const silent = (error: unknown): undefined => {
    if (!(error instanceof ForgeRefused || error instanceof RepositoryAway)) throw error;
    run.log.warn({ task: run.stream, url, error: messageOf(error) }, "the state of a pull request could not be read");
    return undefined;
  };
  const found = await retryWhileRemoteAway(run, () => run.repositories.proposed(place, number, run.signal)).catch(
    silent,
  );
  if (found?.state === "merged") await run.repositories.removeBranch(place, pushed, run.signal).catch(silent);
  await run.record([{ type: "landing.proposed", data: { ...(found ?? known), commit } }]);
  if (found?.state === "merged") run.forgetWorkspace();
};
