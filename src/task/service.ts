import { createAnswer } from "./operation/answer.ts";
import { createCancel } from "./operation/cancel.ts";
import { createCaptures } from "./operation/capture-screenshot.ts";
import { createChange } from "./operation/commit-change.ts";
import { createTask } from "./operation/create.ts";
import { createInterrupt } from "./operation/interrupt.ts";
import { createMessage } from "./operation/message.ts";
import { createRemove } from "./operation/remove.ts";
import { createSeeRequest } from "./operation/ended/see-request.ts";
import { createRetry } from "./operation/ended/retry.ts";
import { createRevert } from "./operation/ended/revert.ts";
import { createUpdate } from "./operation/update.ts";
import { createReads } from "./query/read.ts";
import type { Tasks, TasksDeps } from "./tasks.ts";

/** Composes the operations and queries behind the port `tasks.ts`. */
export const createTasks = (deps: TasksDeps): Tasks => {
  const reads = createReads(deps);
  const accept = createChange(deps, reads.state);
  const captures = createCaptures(deps.captures, deps, accept);
  return {
    ...reads,
    pause: deps.disk.shortage,
    create: createTask(deps),
    message: createMessage(deps, accept, (taskID) => captures.stop(taskID)),
    answer: createAnswer(deps, accept),
    interrupt: createInterrupt(deps, accept),
    see: createSeeRequest(deps, accept),
    retry: createRetry(deps, accept, (taskID) => captures.stop(taskID)),
    revert: createRevert(deps, accept),
    cancel: createCancel(deps, accept, reads.state),
    update: createUpdate(deps, accept, reads.status),
    remove: createRemove(deps, accept, (taskID) => captures.stop(taskID)),
    preview: async (directory, taskID) => captures.preview(await accept.own(directory, taskID)),
    capture: captures.take,
    archive: async (directory, taskID, signal) => deps.archive(await accept.own(directory, taskID), signal),
    stop: () => captures.stop(),
  };
};
