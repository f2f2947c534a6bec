import type { DomainEvent } from "../../../domain/event.ts";
import { dueNow } from "../../../engine/due.ts";
import { ServiceError } from "../../../error.ts";
import { newID } from "../../../id.ts";
import { MissionMovedOn, type TaskCreated, type Tasks, type TasksDeps } from "../../tasks.ts";
import { idempotencyRecord, replay } from "../idempotency.ts";
import { createdOf, handoverOf } from "./event.ts";
import { chooseExecutor } from "./executor.ts";
import { placeTask } from "./place.ts";

/**
 * Creates a Task: fills in what the request leaves open, refuses a request that cannot be carried out, and writes
 * everything in one commit.
 */
export const createTask =
  (deps: TasksDeps): Tasks["create"] =>
  async (directory, body, once, origin, replyTo) => {
    const { store, engine } = deps;
    const told = body.callbackURL === undefined ? undefined : deps.callback(body.callbackURL);
    const callback = replyTo === undefined ? told : { url: replyTo, shown: replyTo };
    const where = await placeTask(deps, directory, body, origin !== undefined);
    const who = await chooseExecutor(deps, where, body, origin);
    await expectRoom(deps);

    const taskID = newID("task");
    const data = await createdOf(deps, { ...where, ...who, taskID, body, origin, callbackURL: callback?.shown });
    const events: DomainEvent[] = [{ type: "task.created", data }];
    if (origin?.handover !== undefined) events.push(await handoverOf(store, data, origin.handover));
    const { id, version, digest } = who.squad;
    const reply: TaskCreated = {
      task_id: taskID,
      taskID,
      directory: data.directory,
      squad: { id, version, digest },
      ...where.place,
      ...(where.repository === undefined ? {} : { repository: where.repository }),
    };
    const due = dueNow(deps.now(), data.priority);
    const also = origin?.also({ taskID, title: data.title, squad: who.squad });
    const done = await store.commit({
      appends: [{ stream: taskID, expected: 0, events }, ...(also === undefined ? [] : [also.append])],
      due: [{ stream: taskID, due }],
      ...(callback === undefined ? {} : { callbacks: [{ stream: taskID, url: callback.url }] }),
      ...(also?.fence === undefined ? {} : { fence: also.fence }),
      ...(once === undefined ? {} : { once: idempotencyRecord(once, 202, reply, false) }),
    });
    if (done.ok) {
      engine.nudge(taskID, due);
      return { status: 202, body: reply, replayed: false };
    }
    if (done.reason === "once") return replay(done.bodyHash, done.stored, once);
    if (origin !== undefined && done.reason !== "name") throw new MissionMovedOn(done.reason);
    throw new Error(`A new Task could not be written: ${done.reason}`);
  };

/** Refuses another Task when the disk is low or the queue is full. */
export const expectRoom = async ({
  disk,
  store,
  limits,
}: Pick<TasksDeps, "disk" | "store" | "limits">): Promise<void> => {
  await disk.admit();
  if ((await store.waiting()) >= limits.waiting)
    throw new ServiceError("queue_full", `Expected fewer than ${limits.waiting} waiting Tasks.`);
};
