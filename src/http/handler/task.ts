import type { TaskState } from "../../domain/state/task.ts";
import type { Log } from "../../log.ts";
import type { Limits } from "../../protocol/limit.ts";
import type { OperationID, Routes } from "../../protocol/route/table.ts";
import type { ListQuery, Store } from "../../store/store.ts";
import type { Tasks } from "../../task/tasks.ts";
import { checkAttachments } from "../request/attachment.ts";
import type { Call, Handler } from "../request/call.ts";
import { cursorOf } from "../request/cursor.ts";
import type { RunOnce } from "../request/idempotency.ts";
import { matchesTag, tagged, tagOf, unchanged } from "../response/etag.ts";
import { attachmentNamed, servedType } from "../response/file.ts";
import { nextLink } from "../response/link.ts";
import { answer, empty, json, jsonType, whenGone } from "../response/response.ts";
import type { Streams } from "../stream/event-stream.ts";
import { accepted, sendArchive } from "./answer.ts";

/** The Task routes: from a parsed call to `Tasks` and back. Malformed ids have been refused by request/serve.ts. */

export type TaskDeps = {
  tasks: Tasks;
  store: Pick<Store, "state" | "nodes">;
  runOnce: RunOnce;
  streams: Streams;
  limits: Limits;
  log: Log;
};

type TaskRoute = Extract<OperationID, `task.${string}`>;

const listSize = 50;

const messagesSize = 200;

export const createTaskHandlers = (deps: TaskDeps): { [ID in TaskRoute]: Handler<Routes[ID]> } => {
  const { tasks, store, runOnce, streams, limits, log } = deps;
  // Texts of status answers by fold. A fold object never changes, and the status of a Task that is not queued depends
  // on nothing else, so between two events every poll gets the same text.
  const statusTexts = new WeakMap<TaskState, { text: string; etag: string }>();
  const statusText = async (taskID: string): Promise<{ text: string; etag: string }> => {
    const state = await store.state(taskID);
    const known = state === undefined || tasks.pauseReason() !== undefined ? undefined : statusTexts.get(state);
    if (known !== undefined) return known;
    const status = await tasks.status(taskID);
    const text = JSON.stringify(status);
    const made = { text, etag: tagOf(text) };
    // With several nodes, the status of an active Task also depends on whether its node is up.
    const alone = store.nodes === undefined || status.lifecycleStatus !== "active";
    if (state !== undefined && alone && status.queue === null && status.lastEventID === state.position)
      statusTexts.set(state, made);
    return made;
  };

  /**
   * A board's ETag. It changes with the Task's last event, its place in the queue and what it does now; the rest of a
   * board comes from events.
   */
  const boardTag = async (taskID: string): Promise<string> => {
    const { lastEventID, queue, now } = await tasks.status(taskID);
    return tagOf(JSON.stringify([lastEventID, queue, now]));
  };

  /** Waits until the Task has ended or, if the caller sent an ETag, until the ETag differs. */
  const waited = async (
    { entry, params, query, incoming, outgoing, head }: Call<Routes["task.status" | "task.board"]>,
    tagNow: (taskID: string) => Promise<string>,
  ): Promise<void> => {
    if (query.wait === undefined || query.wait === 0 || head) return;
    const had = incoming.headers["if-none-match"];
    const { taskID } = params;
    await streams.wait({ entry, outgoing }, query.wait, taskID, async () => {
      const state = await store.state(taskID);
      if (state === undefined) return true;
      return had === undefined ? state.lifecycle !== "active" : !matchesTag(had, await tagNow(taskID));
    });
  };

  return {
    "task.create": async ({ entry, directory, body, once }) => {
      await checkAttachments(body.attachments, limits);
      return accepted(entry, await runOnce(once, () => tasks.create(directory, body, once)));
    },

    "task.list": async ({ entry, directory, query, prefixed, incoming, outgoing }) => {
      const { limit = listSize, cursorUpdated, cursorTaskID, ...filters } = query;
      const cursor = cursorOf("taskID", cursorUpdated, cursorTaskID);
      // One more than asked for, to find out whether there is a next page.
      const asked = {
        ...(filters as Omit<ListQuery, "project" | "limit">),
        ...(Object.keys(prefixed).length === 0 ? {} : { metadata: prefixed }),
        ...(cursor === undefined ? {} : { cursor }),
        limit: limit + 1,
      };
      const found = await tasks.list(directory, asked, whenGone(outgoing));
      const page = found.slice(0, limit);
      const last = found.length > limit ? page.at(-1) : undefined;
      const next = last && { cursorUpdated: last.updated, cursorTaskID: last.taskID };
      return json(entry, 200, page, next && nextLink(incoming.url ?? "", next));
    },

    "task.get": async ({ entry, params }) => json(entry, 200, await tasks.get(params.taskID)),

    "task.update": async ({ entry, params, directory, body }) =>
      json(entry, 200, await tasks.update(directory, params.taskID, body)),

    "task.delete": async ({ entry, params, directory }) => {
      await tasks.remove(directory, params.taskID);
      return json(entry, 200, { taskID: params.taskID, deleted: true });
    },

    "task.status": async (call) => {
      const { entry, params, incoming } = call;
      await waited(call, async (taskID) => (await statusText(taskID)).etag);
      const { text, etag } = await statusText(params.taskID);
      return (
        unchanged(entry, incoming.headers["if-none-match"], etag) ?? answer(entry, 200, text, jsonType, tagged(etag))
      );
    },

    "task.board": async (call) => {
      const { entry, params, incoming } = call;
      await waited(call, boardTag);
      // Computed before the board is read, so that a board may be newer than its ETag, never older.
      const etag = await boardTag(params.taskID);
      return (
        unchanged(entry, incoming.headers["if-none-match"], etag) ??
        json(entry, 200, await tasks.board(params.taskID), tagged(etag))
      );
    },

    "task.messages": async ({ entry, params, query, incoming, outgoing }) => {
      const page = { after: query.after ?? 0, limit: query.limit ?? messagesSize };
      const found = await tasks.messages(params.taskID, page, whenGone(outgoing));
      const { nextAfter } = found;
      return json(
        entry,
        200,
        found,
        nextAfter === null ? undefined : nextLink(incoming.url ?? "", { after: nextAfter }),
      );
    },

    "task.diff": async ({ entry, params, query: { from, to } }) => {
      const between = from === undefined || to === undefined ? undefined : { from, to };
      return answer(entry, 200, await tasks.diff(params.taskID, between), "text/x-diff; charset=utf-8");
    },

    "task.callOutput": async ({ entry, params }) =>
      answer(entry, 200, await tasks.callOutput(params.taskID, params.callID), "text/plain; charset=utf-8"),

    "task.checkLog": async ({ entry, params }) =>
      answer(entry, 200, await tasks.checkLog(params.taskID, params.checkID), "text/plain; charset=utf-8"),

    "task.artifact": async ({ entry, params }) => {
      const { artifact, content } = await tasks.artifact(params.taskID, params.artifactID);
      return answer(entry, 200, content, servedType(artifact.mime), {
        "content-disposition": attachmentNamed(artifact.filename),
        "content-security-policy": "default-src 'none'; sandbox",
      });
    },

    "task.preview": async ({ entry, params, directory }) =>
      json(entry, 200, await tasks.preview(directory, params.taskID)),

    "task.capture": async ({ entry, params, directory, body, once, outgoing }) => {
      const gone = whenGone(outgoing);
      const take = () => tasks.capture(directory, params.taskID, body, once, gone);
      return accepted(entry, await runOnce(once, take));
    },

    "task.events": (call) => streams.ofTask(call),

    "task.message": async ({ entry, params, directory, body, once }) => {
      await checkAttachments(body.attachments, limits);
      return accepted(entry, await runOnce(once, () => tasks.message(directory, params.taskID, body, once)));
    },

    "task.retry": async ({ entry, params, directory, body, once }) =>
      accepted(entry, await runOnce(once, () => tasks.retry(directory, params.taskID, body, once))),

    "task.revert": async ({ entry, params, directory, body, once, outgoing }) => {
      const gone = whenGone(outgoing);
      return accepted(entry, await runOnce(once, () => tasks.revert(directory, params.taskID, body, once, gone)));
    },

    "task.cancel": async ({ entry, params, directory, body, once }) =>
      accepted(entry, await runOnce(once, () => tasks.cancel(directory, params.taskID, body, once))),

    "task.answer": async ({ entry, params, directory, body, once, caller }) =>
      accepted(
        entry,
        await runOnce(once, () => tasks.answer(directory, params.taskID, params.askID, body, once, caller)),
      ),

    "task.interrupt": async ({ entry, params, directory, body, once }) =>
      accepted(
        entry,
        await runOnce(once, () => tasks.interrupt(directory, params.taskID, params.sessionID, body, once)),
      ),

    "task.projectArchive": async ({ entry, params, directory, head, outgoing }) => {
      if (head) {
        await tasks.status(params.taskID);
        return empty(entry, 200, { "content-type": "application/zip" });
      }
      return sendArchive(entry, outgoing, await tasks.archive(directory, params.taskID, whenGone(outgoing)), log);
    },
  };
};
