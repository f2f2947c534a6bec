import { createAnswer, createPass } from "./operation/answer.ts";
import { createCancel } from "./operation/cancel.ts";
import { createCaptures } from "./operation/capture/screenshot.ts";
import { createChange } from "./operation/commit-change.ts";
import { createTask } from "./operation/create/create.ts";
import { createInterrupt } from "./operation/interrupt.ts";
import { createMessage } from "./operation/message.ts";
import { createRemove } from "./operation/remove.ts";
import { createExpire } from "./operation/ended/expire.ts";
import { createSeeRequest } from "./operation/ended/see-pull-request.ts";
import { createRetry } from "./operation/ended/retry.ts";
import { createRevert } from "./operation/ended/revert.ts";
import { createReserve } from "./budget-reservation.ts";
import { createUpdate } from "./operation/update.ts";
import { expectLocalFiles } from "../store/node.ts";
import { archivedOf, bringTakenOver, reachCommits } from "./query/elsewhere.ts";
import { createReads } from "./query/read.ts";
import type { Tasks, TasksDeps } from "./tasks.ts";

/** Composes the operations and queries behind the port `tasks.ts`. */
export const createTasks = (deps: TasksDeps): Tasks => {
  const reads = createReads(deps);
  const accept = createChange(deps, reads.state);
  const reserve = createReserve(deps);
  const captures = createCaptures(deps.captures, deps, accept);
  const remove = createRemove(deps, (taskID) => captures.stop(taskID));
  const revert = createRevert(deps, accept);
  const here = (taskID: string) => expectLocalFiles(deps.store.nodes, taskID);
  return {
    ...reads,
    pauseReason: deps.disk.shortage,
    create: createTask(deps),
    message: createMessage(deps, accept, reserve, (taskID) => captures.stop(taskID)),
    answer: createAnswer(deps, accept),
    passAskToPerson: createPass(deps, accept),
    interrupt: createInterrupt(deps, accept),
    refreshPullRequest: createSeeRequest(deps, accept),
    retry: createRetry(deps, accept, reserve, (taskID) => captures.stop(taskID)),
    revert: async (directory, taskID, ...rest) => {
      // The landed commits of a repository's Task are on the remote, so any node can revert them.
      if ((await reads.state(taskID)).repository === null) await here(taskID);
      return revert(directory, taskID, ...rest);
    },
    cancel: createCancel(deps, accept, reads.state),
    update: createUpdate(deps, accept, reserve, reads.status),
    remove: (directory, taskID) => remove(taskID, () => accept.own(directory, taskID)),
    expire: createExpire(reads.state, remove),
    preview: async (directory, taskID) => {
      const state = await accept.own(directory, taskID);
      await here(taskID);
      return captures.preview(state);
    },
    capture: async (directory, taskID, ...rest) => {
      await here(taskID);
      return captures.take(directory, taskID, ...rest);
    },
    archive: async (directory, taskID, signal) => {
      const state = await accept.own(directory, taskID);
      const at = await reachCommits(deps, archivedOf(state), signal);
      if (at === "here" && state.moved !== null) await bringTakenOver(deps, state, signal);
      return deps.archive(state, signal);
    },
    stop: () => captures.stop(),
  };
};
