import type { Frame } from "../protocol/event/frame.ts";
import type { TaskStatus } from "../protocol/task/status.ts";
import { openEvents, type StreamFrame } from "./event-stream.ts";
import { toThrowable, errorOf, type Result, resultOrThrow } from "./failure.ts";
import { createClient } from "./gen/client/index.ts";
import { Mission, type Options, Project, Service, Squad, Task, Webhook } from "./gen/sdk.gen.ts";
import type { TaskArtifactData, TaskListData } from "./gen/types.gen.ts";
import { createSend, pause } from "./send.ts";

export type { StreamFrame } from "./event-stream.ts";
export { type CallError, type Result, ServiceCallError, StrangeAnswer } from "./failure.ts";

/**
 * The typed client: the generated operations with the directory and the credentials added, plus event streams that
 * resume by themselves, and `wait`. Runs in browsers and in Node, without dependencies.
 *
 * A call resolves to `{ data, error, response }` and does not throw. With `throwOnError: true`, for the client or for a
 * call, it throws instead: a `ServiceCallError`, or the reason why the service was not reached.
 *
 * Every POST carries an `Idempotency-Key`, so that it takes effect once however often it is sent. A request is sent
 * again when the service calls its refusal retryable, or when the connection was lost before the answer (send.ts).
 */

export type ClientOptions = {
  baseUrl: string;
  /** Absolute path of the project on the service's machine. A call's `query.directory` takes precedence. */
  directory?: string;
  /** Instead of a directory: the address of a repository. A call that names a project takes precedence. */
  repository?: string;
  /** The node whose directory is meant, if several nodes have a directory with this path. */
  node?: string;
  /** Default: `service`. */
  username?: string;
  password?: string;
  fetch?: typeof fetch;
  throwOnError?: boolean;
  /** How often a failed call is sent again. Default: 2; 0: never. */
  retries?: number;
};

type ListCall<Throw extends boolean> = Omit<Options<TaskListData, Throw>, "query"> & {
  query?: TaskListData["query"] & { metadata?: Record<string, string> };
};
type Own = { signal?: AbortSignal; throwOnError?: boolean };
type OfTask = Own & { path: { taskID: string } };
export type EventsCall = OfTask & { query?: { after?: number | string; follow?: boolean } };
export type MissionEventsCall = Own & {
  path: { missionID: string };
  query?: { after?: number | string; directory?: string };
};
export type WaitCall = OfTask & {
  /** After this many milliseconds the call fails with an `Error` named TimeoutError. */
  timeoutMs?: number;
};

/** Milliseconds between polls of the status while events are unavailable (too many streams, a buffering proxy). */
const pollMs = 2_000;

export const createServiceClient = (options: ClientOptions) => {
  const { directory, repository, password, username = "service" } = options;
  const place = repository === undefined ? (directory === undefined ? {} : { directory }) : { repository };
  const baseUrl = options.baseUrl.replace(/(?<!\/)\/+$/, "");
  const headers: Record<string, string> = {
    ...(password === undefined ? {} : { authorization: `Basic ${base64(`${username}:${password}`)}` }),
    ...(options.node === undefined ? {} : { "x-service-node": options.node }),
  };
  const once = options.fetch ?? ((...request: Parameters<typeof fetch>) => globalThis.fetch(...request));
  const send = createSend({ fetch: once, retries: options.retries ?? 2 });
  const throwing = options.throwOnError ?? false;
  const client = createClient({ baseUrl, headers, fetch: send, throwOnError: throwing });
  client.interceptors.error.use((error, response, _request, call) =>
    (call.throwOnError ?? throwing) ? toThrowable(error, response?.status) : error,
  );
  const task = new Task({ client });
  const mission = new Mission({ client });
  const squad = new Squad({ client });
  const project = new Project({ client });
  const service = new Service({ client });
  const webhook = new Webhook({ client });

  /** Adds the client's project to the operation, unless the call names one. */
  const inProject = <Call extends (call: never) => unknown>(operation: Call): Call =>
    ((call: { query?: object; body?: object } = {}) => {
      const named = [call.body, call.query].some(
        (part) => part !== undefined && ("repository" in part || "directory" in part),
      );
      return operation({
        ...call,
        query: { ...(named ? {} : place), ...call.query },
      } as never);
    }) as never;

  /** `query.metadata` selects Tasks whose metadata has these values. */
  const list = <Throw extends boolean = false>(call: ListCall<Throw> = {}) => {
    const { metadata = {}, ...query } = call.query ?? {};
    const filters = Object.entries(metadata).map(([key, value]) => [`metadata.${key}`, value]);
    return task.list<Throw>({ ...call, query: { ...query, ...Object.fromEntries(filters) } });
  };

  const openTask = async ({ path, query = {}, signal }: EventsCall): Promise<Result<AsyncIterable<StreamFrame>>> => {
    const { after, follow } = query;
    return openEvents({
      fetch: once,
      url: `${baseUrl}/task/${encodeURIComponent(path.taskID)}/events${follow === true ? "?follow=1" : ""}`,
      headers,
      after: after === undefined ? undefined : Number(after),
      signal,
    });
  };
  const events = async (call: EventsCall): Promise<Result<AsyncIterable<StreamFrame>>> =>
    resultOrThrow(await openTask(call), call.throwOnError ?? throwing);

  type PageQuery = { after?: number; limit?: number };
  type Page = Result<{ events: Frame[]; nextAfter: number }>;
  const askPage = async (path: string, query: object, signal: AbortSignal | undefined): Promise<Page> => {
    const asked = new URLSearchParams({ format: "json" });
    for (const [name, value] of Object.entries(query)) if (value !== undefined) asked.set(name, String(value));
    try {
      const response = await send(`${baseUrl}${path}?${asked}`, {
        headers,
        ...(signal === undefined ? {} : { signal }),
      });
      return response.ok
        ? { data: (await response.json()) as { events: Frame[]; nextAfter: number }, error: undefined, response }
        : { data: undefined, error: await errorOf(response), response };
    } catch (error) {
      return { data: undefined, error: toThrowable(error) };
    }
  };
  const pageAt = async (path: string, query: object, { signal, throwOnError = throwing }: Own): Promise<Page> =>
    resultOrThrow(await askPage(path, query, signal), throwOnError);
  /** One page of the Task's events, up to the present. */
  const eventPage = ({ path, query = {}, ...own }: OfTask & { query?: PageQuery }): Promise<Page> =>
    pageAt(`/task/${encodeURIComponent(path.taskID)}/events`, query, own);
  /** One page of the events of the Mission and its Tasks. */
  const missionEventPage = ({
    path,
    query = {},
    ...own
  }: Own & Pick<MissionEventsCall, "path"> & { query?: PageQuery & { directory?: string } }): Promise<Page> =>
    pageAt(
      `/mission/${encodeURIComponent(path.missionID)}/events`,
      { ...(query.directory === undefined ? place : {}), ...query },
      own,
    );

  const missionEvents = async ({
    path,
    query = {},
    signal,
    throwOnError = throwing,
  }: MissionEventsCall): Promise<Result<AsyncIterable<StreamFrame>>> => {
    const named = new URLSearchParams(query.directory === undefined ? place : { directory: query.directory });
    const opened = await openEvents({
      fetch: once,
      url: `${baseUrl}/mission/${encodeURIComponent(path.missionID)}/events${named.size === 0 ? "" : `?${named.toString()}`}`,
      headers,
      after: query.after === undefined ? undefined : Number(query.after),
      signal,
    });
    return resultOrThrow(opened, throwOnError);
  };

  const status = async ({ path, signal }: OfTask): Promise<Result<TaskStatus>> =>
    (await task.status({
      path,
      ...(signal === undefined ? {} : { signal }),
      throwOnError: false,
    })) as Result<TaskStatus>;

  /** Resolves when the Task's stream reports its end, or after a pause when the stream cannot be read. */
  const nextSettled = async (call: OfTask & { signal: AbortSignal }, after: number): Promise<void> => {
    const stream = await openTask({ ...call, query: { after } });
    if (stream.error !== undefined) return pause(pollMs, call.signal);
    try {
      for await (const { type } of stream.data) if (type === "task.settled" || type === "stream.end") return;
    } catch {
      return pause(pollMs, call.signal);
    }
  };

  /** Resolves to the Task's status once it has ended. */
  const untilEnded = async ({ path, signal, timeoutMs }: WaitCall): Promise<Result<TaskStatus>> => {
    const over = new AbortController();
    const stop = () => over.abort(signal?.reason);
    signal?.addEventListener("abort", stop);
    const timer =
      timeoutMs === undefined
        ? undefined
        : setTimeout(
            () => over.abort(new DOMException(`Not settled within ${timeoutMs} ms.`, "TimeoutError")),
            timeoutMs,
          );
    try {
      if (signal?.aborted === true) stop();
      for (;;) {
        const now = await status({ path, signal: over.signal });
        if (over.signal.aborted) return { data: undefined, error: reasonOf(over.signal) };
        if (now.error !== undefined || now.data.status === "inactive") return now;
        await nextSettled({ path, signal: over.signal }, now.data.lastEventID);
      }
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", stop);
    }
  };
  const wait = async (call: WaitCall): Promise<Result<TaskStatus>> =>
    resultOrThrow(await untilEnded(call), call.throwOnError ?? throwing);

  return {
    task: {
      create: inProject(task.create.bind(task)),
      list: inProject(list),
      get: task.get.bind(task),
      status: task.status.bind(task),
      board: task.board.bind(task),
      messages: task.messages.bind(task),
      message: inProject(task.message.bind(task)),
      cancel: inProject(task.cancel.bind(task)),
      retry: inProject(task.retry.bind(task)),
      revert: inProject(task.revert.bind(task)),
      answer: inProject(task.answer.bind(task)),
      interrupt: inProject(task.interrupt.bind(task)),
      update: inProject(task.update.bind(task)),
      delete: inProject(task.delete.bind(task)),
      diff: task.diff.bind(task),
      callOutput: task.callOutput.bind(task),
      checkLog: task.checkLog.bind(task),
      artifact: <Throw extends boolean = false>(call: Options<TaskArtifactData, Throw>) =>
        task.artifact<Throw>({ ...call, parseAs: "blob" }),
      preview: inProject(task.preview.bind(task)),
      capture: inProject(task.capture.bind(task)),
      projectArchive: inProject(task.projectArchive.bind(task)),
      events,
      eventPage,
      wait,
    },
    mission: {
      wake: inProject(mission.wake.bind(mission)),
      list: inProject(mission.list.bind(mission)),
      get: mission.get.bind(mission),
      status: inProject(mission.status.bind(mission)),
      rename: inProject(mission.rename.bind(mission)),
      archive: inProject(mission.archive.bind(mission)),
      abort: inProject(mission.abort.bind(mission)),
      delete: inProject(mission.delete.bind(mission)),
      messages: inProject(mission.messages.bind(mission)),
      answer: inProject(mission.answer.bind(mission)),
      plan: inProject(mission.plan.bind(mission)),
      merge: inProject(mission.merge.bind(mission)),
      projectArchive: inProject(mission.projectArchive.bind(mission)),
      events: missionEvents,
      eventPage: missionEventPage,
    },
    squad: {
      list: inProject(squad.list.bind(squad)),
      get: inProject(squad.get.bind(squad)),
      validate: inProject(squad.validate.bind(squad)),
      install: inProject(squad.install.bind(squad)),
      remove: inProject(squad.remove.bind(squad)),
      recommend: inProject(squad.recommend.bind(squad)),
    },
    /** Webhooks of all projects; `query.directory` limits a new one to its project. */
    webhook: {
      create: webhook.create.bind(webhook),
      list: webhook.list.bind(webhook),
      get: webhook.get.bind(webhook),
      update: webhook.update.bind(webhook),
      delete: webhook.delete.bind(webhook),
      test: webhook.test.bind(webhook),
      rotate: webhook.rotate.bind(webhook),
      callbackSecret: webhook.callbackSecret.bind(webhook),
      deliveries: webhook.deliveries.bind(webhook),
      redeliver: webhook.redeliver.bind(webhook),
      redeliverDead: webhook.redeliverDead.bind(webhook),
    },
    project: {
      get: inProject(project.get.bind(project)),
      requests: inProject(project.requests.bind(project)),
      grants: inProject(project.grants.bind(project)),
      list: project.list.bind(project),
    },
    service: {
      overview: service.overview.bind(service),
      health: service.health.bind(service),
      nodes: service.nodes.bind(service),
      drainNode: service.drainNode.bind(service),
      moveBlobs: service.moveBlobs.bind(service),
      models: service.models.bind(service),
      testModel: service.testModel.bind(service),
      setKey: service.setKey.bind(service),
    },
  };
};

export type ServiceClient = ReturnType<typeof createServiceClient>;

const reasonOf = ({ reason }: AbortSignal): Error => (reason instanceof Error ? reason : new Error("Aborted."));

/** Base64 of the text's UTF-8 bytes; `btoa` alone accepts only Latin-1. */
const base64 = (text: string): string => btoa(String.fromCharCode(...new TextEncoder().encode(text)));
