import { endedBy } from "../domain/session/ask.ts";
import { openAsks, rootOf } from "../domain/state/stream.ts";
import { isActive, type TaskState } from "../domain/state/task.ts";
import { cancel } from "../domain/task/cancel.ts";
import { dueNow } from "../engine/due.ts";
import { ServiceError } from "../error.ts";
import { newID } from "../id.ts";
import type { CancelAccepted, MessageAccepted } from "../protocol/task/accepted.ts";
import type { TaskMessage } from "../protocol/task/request.ts";
import { keepText } from "../store/blob/text.ts";
import { createAnswer } from "./operation/answer.ts";
import { createCaptures } from "./operation/capture.ts";
import { createAccept } from "./operation/change.ts";
import { createTask } from "./operation/create.ts";
import { keepAttachments } from "./operation/attachment.ts";
import { createInterrupt, interruptAll } from "./operation/interrupt.ts";
import { createReads } from "./query/read.ts";
import type { Tasks, TasksDeps } from "./tasks.ts";

export const createTasks = (deps: TasksDeps): Tasks => {
  const { store, engine, workspaces } = deps;
  const reads = createReads(deps);
  const stateOf = reads.state;

  const accept = createAccept(deps, stateOf);
  const { own, change } = accept;
  const captures = createCaptures(deps.captures, deps, accept);

  return {
    ...reads,
    create: createTask(deps),
    answer: createAnswer(deps, accept),
    interrupt: createInterrupt(deps, accept),

    preview: async (directory, taskID) => captures.preview(await own(directory, taskID)),
    capture: captures.take,

    async message(directory, taskID, body, once) {
      refuseBusy(await own(directory, taskID), body);
      const messageID = newID("msg");
      const text = await keepText(store.blobs, body.text);
      const attachments = await keepAttachments(store.blobs, body.attachments ?? []);
      const accepted = await change<MessageAccepted>(taskID, once, (state) => {
        refuseBusy(state, body);
        const active = isActive(state);
        const interrupt = active && body.onBusy === "interrupt" && state.landingStarted === null;
        const disposition = !active
          ? "restarted"
          : interrupt
            ? "interrupted"
            : body.onBusy === "queue" || state.landingStarted !== null
              ? "queued"
              : "steered";
        const sessionID = rootOf(state);
        const ended = endedBy(state, disposition);
        return {
          status: 202,
          body: {
            taskID,
            messageID,
            accepted: true,
            disposition,
            status: "running",
            lifecycleStatus: "active",
            eventID: 0,
          },
          events: [
            {
              type: "message.received",
              data: { messageID, sessionID, source: body.source, text, attachments, disposition },
            },
            // Whoever delegated reads it only when what it waits for has ended.
            ...(interrupt ? interruptAll(state, body.source) : []),
            ...ended,
          ],
          ...(active && !interrupt && ended.length === 0 && (state.deferred === null || disposition === "queued")
            ? {}
            : { due: dueNow(deps.now(), state.priority) }),
          revoke: interrupt,
        };
      });
      if (accepted.body.disposition === "restarted") captures.stop(taskID);
      return accepted;
    },

    async cancel(directory, taskID, body, once) {
      await own(directory, taskID);
      const request = { surface: body.surface ?? "api", reason: body.reason ?? "", mode: body.mode ?? "stop" };
      return change<CancelAccepted>(taskID, once, async (state) => {
        const decision = cancel(state, request, deps.now().toISOString());
        const accepted = (lifecycleStatus: "active" | "cancelled") => ({
          taskID,
          accepted: true as const,
          status: lifecycleStatus === "active" ? ("running" as const) : ("inactive" as const),
          lifecycleStatus,
          eventID: 0,
        });
        switch (decision.kind) {
          case "landing":
          case "settled": {
            const found = decision.kind === "landing" ? await landed(taskID) : state;
            throw new ServiceError(
              "task_settled",
              `Expected ${taskID} to be active, it is ${found.lifecycle === "active" ? "landing" : found.lifecycle}.`,
              { details: { taskID, lifecycleStatus: found.lifecycle } },
            );
          }
          case "nothing": {
            const active = isActive(state);
            return { status: active ? 202 : 200, body: accepted(active ? "active" : "cancelled"), events: [] };
          }
          case "events": {
            const ends = decision.events.some((event) => event.type === "task.settled");
            return {
              status: ends ? 200 : 202,
              body: accepted(ends ? "cancelled" : "active"),
              events: decision.events,
              // Whoever waited for an answer is to hear of it too.
              ...(ends
                ? { due: null }
                : decision.stops || openAsks(state).length > 0
                  ? { due: dueNow(deps.now(), "critical") }
                  : {}),
              revoke: decision.stops,
            };
          }
        }
      });
    },

    async update(directory, taskID, patch) {
      await own(directory, taskID);
      const { title, priority, archived, budget } = patch;
      const data = {
        ...(title === undefined ? {} : { title }),
        ...(priority === undefined ? {} : { priority }),
        ...(archived === undefined ? {} : { archived }),
        ...(budget === undefined ? {} : { budget }),
      };
      await change(taskID, undefined, (state) => ({
        status: 200,
        body: {},
        events: [{ type: "task.updated", data }],
        ...(priority !== undefined && isActive(state) && state.attemptStartedAt === null
          ? { due: dueNow(new Date(state.createdAt), priority) }
          : {}),
      }));
      return reads.status(taskID);
    },

    async remove(directory, taskID) {
      for (;;) {
        const state = await own(directory, taskID);
        if (isActive(state))
          throw new ServiceError("task_active", `Expected ${taskID} to be inactive, it is running. Cancel it first.`);
        await store.orphans.leave(taskID);
        workspaces.doom(taskID);
        // A message that came in between restarted it; then it is not inactive any more.
        if (await store.erase(taskID, state.version)) break;
      }
      // Its last run may still be at its end, with the files open.
      captures.stop(taskID);
      await engine.interrupt(taskID);
      await workspaces.remove(taskID);
    },

    stop: () => captures.stop(),

    async archive(directory, taskID, signal) {
      return deps.archive(await own(directory, taskID), signal);
    },
  };

  /** A landing under way ends within moments; the answer names what it ended as. */
  async function landed(taskID: string): Promise<TaskState> {
    for (let tries = 0; tries < 100; tries++) {
      const state = await stateOf(taskID);
      if (!isActive(state)) return state;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return stateOf(taskID);
  }
};

const refuseBusy = (state: TaskState, body: TaskMessage): void => {
  if (isActive(state) && body.onBusy === "reject")
    throw new ServiceError("task_busy", `Expected ${state.taskID} to be inactive (onBusy: reject), it is running.`);
};
