import type { TaskState } from "../../domain/state/task.ts";
import { ServiceError } from "../../error.ts";
import { isID } from "../../id.ts";
import type { Log } from "../../log.ts";
import { quote } from "../../protocol/issue.ts";
import type { Limits } from "../../protocol/limit.ts";
import type { OperationID, Routes } from "../../protocol/route/table.ts";
import type { ListQuery, Store } from "../../store/store.ts";
import type { Tasks } from "../../task/tasks.ts";
import { checkAttachments } from "../request/attachment.ts";
import type { Handler } from "../request/call.ts";
import type { RunOnce } from "../request/idempotency.ts";
import { matchesTag } from "../response/etag.ts";
import { attachmentNamed, servedType } from "../response/file.ts";
import { answer, empty, json, jsonType, whenGone } from "../response/response.ts";
import type { Streams } from "../stream/event-stream.ts";
import { accepted, sendArchive } from "./answer.ts";

/** The Task routes: from a parsed call to `Tasks` and back. Malformed ids are refused before (request/serve.ts). */

export type TaskDeps = {
  tasks: Tasks;
  store: Pick<Store, "state">;
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
  const statusTexts = new WeakMap<TaskState, string>();
  return {
    "task.create": async ({ entry, directory, body, once }) => {
      await checkAttachments(body.attachments, limits);
      return accepted(entry, await runOnce(once, () => tasks.create(directory, body, once)));
    },

    "task.list": async ({ entry, directory, query, prefixed, incoming, outgoing }) => {
      const { limit = listSize, cursorUpdated, cursorTaskID, ...filters } = query;
      const cursor = cursorOf(cursorUpdated, cursorTaskID);
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
      return json(entry, 200, page, last === undefined ? undefined : { link: nextLink(incoming.url ?? "", last) });
    },

    "task.get": async ({ entry, params }) => json(entry, 200, await tasks.get(params.taskID)),

    "task.update": async ({ entry, params, directory, body }) =>
      json(entry, 200, await tasks.update(directory, params.taskID, body)),

    "task.delete": async ({ entry, params, directory }) => {
      await tasks.remove(directory, params.taskID);
      return json(entry, 200, { taskID: params.taskID, deleted: true });
    },

    "task.status": async ({ entry, params }) => {
      const state = await store.state(params.taskID);
      const known = state === undefined || tasks.pause() !== undefined ? undefined : statusTexts.get(state);
      if (known !== undefined) return answer(entry, 200, known, jsonType);
      const status = await tasks.status(params.taskID);
      const text = JSON.stringify(status);
      if (state !== undefined && status.queue === null && status.lastEventID === state.position)
        statusTexts.set(state, text);
      return answer(entry, 200, text, jsonType);
    },

    "task.board": async ({ entry, params, incoming }) => {
      // The ETag is of the state before the board is read: a board may be newer than its tag, never older.
      const { lastEventID, queue } = await tasks.status(params.taskID);
      const etag = `W/"${lastEventID}-${queue?.position ?? ""}"`;
      if (matchesTag(incoming.headers["if-none-match"], etag)) return empty(entry, 304, { etag });
      return json(entry, 200, await tasks.board(params.taskID), { etag });
    },

    "task.messages": async ({ entry, params, query, outgoing }) => {
      const page = { after: query.after ?? 0, limit: query.limit ?? messagesSize };
      return json(entry, 200, await tasks.messages(params.taskID, page, whenGone(outgoing)));
    },

    "task.diff": async ({ entry, params, query: { from, to } }) => {
      const between = from === undefined || to === undefined ? undefined : { from, to };
      return answer(entry, 200, await tasks.diff(params.taskID, between), "text/x-diff; charset=utf-8");
    },

    "task.callOutput": async ({ entry, params }) =>
      answer(
        entry,
        200,
        new Uint8Array(await tasks.callOutput(params.taskID, params.callID)),
        "text/plain; charset=utf-8",
      ),

    "task.checkLog": async ({ entry, params }) =>
      answer(
        entry,
        200,
        new Uint8Array(await tasks.checkLog(params.taskID, params.checkID)),
        "text/plain; charset=utf-8",
      ),

    "task.artifact": async ({ entry, params }) => {
      const { artifact, bytes } = await tasks.artifact(params.taskID, params.artifactID);
      return answer(entry, 200, new Uint8Array(bytes), servedType(artifact.mime), {
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

    "task.cancel": async ({ entry, params, directory, body, once }) =>
      accepted(entry, await runOnce(once, () => tasks.cancel(directory, params.taskID, body, once))),

    "task.answer": async ({ entry, params, directory, body, once }) =>
      accepted(entry, await runOnce(once, () => tasks.answer(directory, params.taskID, params.askID, body, once))),

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

const cursorOf = (updated: string | undefined, taskID: string | undefined): ListQuery["cursor"] => {
  if (updated === undefined && taskID === undefined) return undefined;
  if (updated === undefined || taskID === undefined)
    throw new ServiceError(
      "invalid_cursor",
      `Expected cursorUpdated and cursorTaskID together, got only ${updated === undefined ? "cursorTaskID" : "cursorUpdated"}.`,
    );
  if (!/^\d{1,15}$/.test(updated) || !isID("task", taskID))
    throw new ServiceError(
      "invalid_cursor",
      `Expected updated and taskID of the last element of a page, got ${quote(updated)} and ${quote(taskID)}.`,
    );
  return { updated: Number(updated), taskID };
};

const nextLink = (target: string, last: { updated: number; taskID: string }): string => {
  const url = new URL(target, "http://localhost");
  url.searchParams.set("cursorUpdated", String(last.updated));
  url.searchParams.set("cursorTaskID", last.taskID);
  return `<${url.pathname}${url.search}>; rel="next"`;
};
