import { frameOf } from "../../domain/view/frame.ts";
import { isMission, type Recorded, type StreamID } from "../../domain/event.ts";
import { ServiceError } from "../../error.ts";
import type { Log } from "../../log.ts";
import type { Limits } from "../../protocol/limit.ts";
import type { Routes } from "../../protocol/route/table.ts";
import type { Filter, Store } from "../../store/store.ts";
import type { Missions } from "../../mission/missions.ts";
import type { Tasks } from "../../task/tasks.ts";
import type { Call } from "../request/call.ts";
import { createStreamLimits } from "./limit.ts";
import { type Channel, openChannel, type Timing } from "./subscriber.ts";
import { quote } from "../../protocol/issue.ts";
import { invalid } from "../request/parse.ts";
import { nextLink } from "../response/link.ts";
import { type HttpAnswer, empty, json, answeredOnSocket, taskNotFound, whenGone } from "../response/response.ts";

/**
 * The log as a stream of Server-Sent Events, or as a page of JSON. A Task's stream begins with a snapshot, replays what
 * the reader missed, continues live, and ends when the Task has ended and the reader is up to date. `limits` bound the
 * number of streams and their queues.
 */

export interface Streams {
  ofTask(call: Call<Routes["task.events"]>): Promise<HttpAnswer>;
  ofAll(call: Call<Routes["event.stream"]>): Promise<HttpAnswer>;
  ofMission(call: Call<Routes["mission.events"]>): Promise<HttpAnswer>;
  /**
   * Resolves when `isOver` resolves to true; it is called at once and after each event of the stream or Mission. Also
   * resolves after `seconds`, when the caller disconnects, and when the service stops. Counts as an open stream while
   * it waits.
   */
  wait(call: WaitCall, seconds: number, of: StreamID, isOver: () => Promise<boolean>): Promise<void>;
  /** Sends every reader its reconnection time, and ends the streams and waits. */
  close(): void;
  readonly open: number;
}

export type StreamDeps = {
  tasks: Pick<Tasks, "status">;
  missions: Pick<Missions, "find" | "statusOf">;
  store: Pick<Store, "state" | "mission" | "read" | "since" | "position" | "follow" | "live">;
  limits: Limits;
  /**
   * The identity of a directory's project, as `Filter.project`; rejects with `directory_invalid` or
   * `directory_not_allowed`.
   */
  project(directory: string): Promise<string>;
  log: Log;
  timing?: Timing;
};

const retry = "retry: 2000\n\n";
const pageSize = 100;
const earlyFrames = 1000;
/** How many streams' Missions are cached. */
const knownStreams = 10_000;

const passing = (frame: object): string => `data: ${JSON.stringify(frame)}\n\n`;

export const createStreams = (deps: StreamDeps): Streams => {
  const { tasks, store, limits, log } = deps;
  const timing = deps.timing ?? { heartbeatMs: 15_000, stallMs: 30_000 };
  const places = createStreamLimits(limits);
  const channels = new Set<Channel>();
  const stopping = new AbortController();

  const open = (call: StreamCall, taskID: string | undefined, onBeat: (channel: Channel) => void): Channel => {
    const place = places.take(call.entry.address, taskID);
    call.outgoing.once("close", () => {
      place();
      channels.delete(channel);
    });
    const channel = openChannel(call.outgoing, call.entry, limits, timing, () => onBeat(channel));
    channels.add(channel);
    return channel;
  };

  /** Runs after the answer has begun: from here on an error can only cut the stream, and the reader resumes. */
  const run = (call: StreamCall, pump: Promise<void>): HttpAnswer => {
    pump.catch((error: unknown) => {
      log.error({ requestID: call.entry.requestID, err: error }, "event stream failed");
      call.outgoing.destroy();
    });
    return answeredOnSocket;
  };

  /** The Mission that a stream is or belongs to, which never changes. */
  const missionIDs = new Map<StreamID, string | undefined>();
  const missionOf = async (stream: StreamID): Promise<string | undefined> => {
    if (missionIDs.has(stream)) return missionIDs.get(stream);
    const found = isMission(stream)
      ? (await store.mission(stream))?.missionID
      : (await store.state(stream))?.mission?.missionID;
    const [oldest] = missionIDs.size >= knownStreams ? missionIDs.keys() : [];
    if (oldest !== undefined) missionIDs.delete(oldest);
    missionIDs.set(stream, found);
    return found;
  };
  const framed = async (event: Recorded) => frameOf(event, await missionOf(event.stream));
  const durable = async (event: Recorded): Promise<string> =>
    `id: ${event.position}\ndata: ${JSON.stringify(await framed(event))}\n\n`;

  const page = async (call: StreamCall, after: number, filter: Filter): Promise<HttpAnswer> => {
    const events = await store.since(after, call.query.limit ?? pageSize, filter, whenGone(call.outgoing));
    const last = events.at(-1)?.position ?? after;
    const [more] = await store.since(last, 1, filter, whenGone(call.outgoing));
    const body = { events: await Promise.all(events.map(framed)), nextAfter: last };
    return json(call.entry, 200, body, more && nextLink(call.incoming.url ?? "", { after: last }));
  };

  const follow = async (
    channel: Channel,
    from: { after: number; present: number },
    filter: Filter,
    sent: (event: Recorded) => Promise<boolean>,
  ): Promise<void> => {
    for await (const event of store.follow(from.after, channel.signal, filter)) {
      channel.write(await durable(event));
      await (event.position < from.present ? channel.room() : channel.keepUp());
      if (channel.signal.aborted || (await sent(event))) return;
    }
  };

  const pumpTask = async (channel: Channel, call: Call<Routes["task.events"]>, after: number | undefined) => {
    const { taskID } = call.params;
    const stay = call.query.follow === true;
    const status = await tasks.status(taskID);
    const frame = (type: "task.snapshot" | "stream.end", data: object) =>
      passing({ type, taskID, at: new Date().toISOString(), data });
    channel.write(retry + frame("task.snapshot", status));

    let last = after ?? status.lastEventID;
    let settled = status.lifecycleStatus !== "active";
    // The Task has ended and the reader has everything. If a message restarted the Task, the stream continues.
    const isOver = async (): Promise<boolean> => {
      if (stay || !settled) return false;
      const state = await store.state(taskID);
      if (state !== undefined && (state.lifecycle === "active" || state.position > last)) return false;
      channel.end(frame("stream.end", {}));
      return true;
    };

    if (after === undefined && settled && !stay)
      for (const event of await store.read(taskID, { types: ["task.settled"], last: true, limit: 1 }))
        channel.write(await durable(event));
    if (await isOver()) return;

    const present = status.lastEventID;
    /** Live frames that arrived before the event they follow. */
    let early: { text: string; after: number }[] = [];
    using _live = store.live.subscribe(taskID, (live, after) => {
      if (last < present) return;
      if (after <= last && early.length === 0) channel.offer(passing(live));
      else if (early.length < earlyFrames) early.push({ text: passing(live), after });
    });
    const offerEarly = () => {
      const ready = early.findIndex((frame) => frame.after > last);
      const frames = ready < 0 ? early : early.slice(0, ready);
      early = early.slice(frames.length);
      for (const { text } of frames) channel.offer(text);
    };
    await follow(channel, { after: last, present }, { stream: taskID }, async (event) => {
      last = event.position;
      offerEarly();
      settled ||= event.type === "task.settled";
      return isOver();
    });
  };

  return {
    async ofTask(call) {
      const { taskID } = call.params;
      const state = await store.state(taskID);
      if (state === undefined) throw taskNotFound();
      const after = await resumePoint(call, store);
      if (call.query.format === "json") return page(call, after ?? 0, { stream: taskID });
      if (call.head) return empty(call.entry, 200, { "content-type": "text/event-stream; charset=utf-8" });
      const over = state.lifecycle !== "active" && after !== undefined && after >= state.position;
      if (over && call.query.follow !== true) return empty(call.entry, 204);
      // A deleted Task has no event that ends its stream, so this is checked with each heartbeat.
      const endIfGone = async (open: Channel) => {
        if (!open.signal.aborted && (await store.state(taskID)) === undefined) open.end("");
      };
      const channel = open(call, taskID, (open) => void endIfGone(open).catch(() => {}));
      return run(
        call,
        pumpTask(channel, call, after).then(() => endIfGone(channel)),
      );
    },

    async ofAll(call) {
      const filter = call.directory === undefined ? {} : { project: await deps.project(call.directory) };
      const after = await resumePoint(call, store);
      if (call.query.format === "json") return page(call, after ?? 0, filter);
      if (call.head) return empty(call.entry, 200, { "content-type": "text/event-stream; charset=utf-8" });
      const present = await store.position();
      const channel = open(call, undefined, () => {});
      // Sends an id at once, so that a reader that is cut off before the first event misses nothing.
      channel.write(`id: ${after ?? present}\n${retry}`);
      return run(
        call,
        follow(channel, { after: after ?? present, present }, filter, async () => false),
      );
    },

    async ofMission(call) {
      const { missionID } = call.params;
      const sessionID = await deps.missions.find(call.directory, missionID);
      const filter = { mission: sessionID };
      const after = await resumePoint(call, store);
      if (call.query.format === "json") return page(call, after ?? 0, filter);
      if (call.head) return empty(call.entry, 200, { "content-type": "text/event-stream; charset=utf-8" });
      const present = await store.position();
      const status = await deps.missions.statusOf(sessionID);
      // A deleted Mission has no event that ends its stream, so this is checked with each heartbeat.
      const endIfGone = async (open: Channel) => {
        if (open.signal.aborted || (await store.mission(sessionID)) !== undefined) return;
        open.end(passing({ type: "stream.end", missionID, at: new Date().toISOString(), data: {} }));
      };
      const channel = open(call, sessionID, (open) => void endIfGone(open).catch(() => {}));
      const at = new Date().toISOString();
      channel.write(
        `${after === undefined ? `id: ${present}\n` : ""}${retry}${passing({ type: "mission.snapshot", missionID, at, data: status })}`,
      );
      const pump = async () => {
        using _live = store.live.subscribe(sessionID, (live) => channel.offer(passing(live)));
        await follow(channel, { after: after ?? present, present }, filter, async () => false);
        await endIfGone(channel);
      };
      return run(call, pump());
    },

    async wait({ entry, outgoing }, seconds, of, isOver) {
      const from = await store.position();
      if (await isOver()) return;
      const place = places.take(entry.address, of);
      try {
        const until = AbortSignal.any([whenGone(outgoing), AbortSignal.timeout(seconds * 1000), stopping.signal]);
        const filter = isMission(of) ? { mission: of } : { stream: of };
        for await (const _ of store.follow(from, until, filter)) if (await isOver()) return;
      } finally {
        place();
      }
    },

    close() {
      stopping.abort();
      for (const channel of channels) channel.end(retry);
    },
    get open() {
      return channels.size;
    },
  };
};

type WaitCall = Pick<Call<Routes["task.status"]>, "entry" | "outgoing">;

type StreamCall = Pick<Call<Routes["event.stream"]>, "entry" | "incoming" | "outgoing" | "head"> & {
  query: Omit<Call<Routes["event.stream"]>["query"], "follow"> & { follow?: boolean | undefined };
};

/**
 * The position to resume after: `Last-Event-ID`, otherwise `?after=`. The header wins because it is newer than the URL
 * that the stream was opened with.
 */
const resumePoint = async (call: StreamCall, store: Pick<Store, "position">): Promise<number | undefined> => {
  const { query, incoming } = call;
  const wrong = query.format === "json" ? (["follow"] as const) : (["limit"] as const);
  for (const name of wrong)
    if (query[name] !== undefined)
      throw invalid([
        {
          path: `query.${name}`,
          message: `Expected it ${name === "limit" ? "only with" : "without"} format=json, got ${query[name]}`,
          code: "custom",
        },
      ]);
  const header = incoming.headers["last-event-id"];
  const text = typeof header === "string" && header !== "" ? header : query.after;
  if (text === undefined) return undefined;
  const last = await store.position();
  if (!/^\d{1,15}$/.test(text) || Number(text) > last)
    throw new ServiceError("invalid_event_id", `Expected an event id from 0 to ${last}, got ${quote(text)}.`);
  return Number(text);
};
