import type { Frame, LiveFrame } from "../protocol/event/frame.ts";
import type { MissionStatus } from "../protocol/mission/status.ts";
import type { TaskStatus } from "../protocol/task/status.ts";
import { toThrowable, type CallError, errorOf, type Result } from "./failure.ts";
import { pause } from "./send.ts";

/**
 * Events of a Task or a Mission as an async iterable that resumes by itself: a lost connection is reopened after the
 * last event id, so no event is missed and no durable event is repeated. It ends with `stream.end` or the signal, and
 * throws when the service refuses or cannot be reached for too long.
 */

export type StreamFrame =
  | Frame
  | LiveFrame
  | { type: "task.snapshot"; taskID: string; at: string; data: TaskStatus }
  | { type: "mission.snapshot"; missionID: string; at: string; data: MissionStatus }
  | { type: "stream.end"; taskID?: string; missionID?: string; at: string; data: Record<string, never> };

export type EventSource = {
  fetch: typeof fetch;
  url: string;
  headers: Record<string, string>;
  after: number | undefined;
  signal: AbortSignal | undefined;
  /**
   * How many attempts in a row may bring no new durable event before it throws. `waitMs`: the first delay between
   * attempts; tests make it shorter.
   */
  tries?: number;
  waitMs?: number;
  /** Called when the connection opens, and when it is lost, with the time of the next attempt. */
  onState?: (state: StreamState) => void;
};

export type StreamState = { open: true } | { open: false; retryAt: number };

/** Milliseconds without data after which the connection counts as dead; heartbeats come every 15 s. */
const silenceMs = 45_000;
const longestWaitMs = 10_000;

export const openEvents = async (source: EventSource): Promise<Result<AsyncIterable<StreamFrame>>> => {
  const first = await connect(source, source.after);
  // With unlimited tries, the first connection is retried as well.
  const patient = source.tries === Number.POSITIVE_INFINITY;
  if (first.kind === "refused" && (first.final || !patient))
    return { data: undefined, error: first.error, ...responseOf(first.response) };
  return { data: read(source, first), error: undefined, ...responseOf(first.response) };
};

const responseOf = (response: Response | undefined) => (response === undefined ? {} : { response });

type Connected =
  | { kind: "open"; response: Response; body: ReadableStream<Uint8Array>; cut: AbortController }
  | { kind: "over"; response: Response }
  | { kind: "refused"; error: CallError; response: Response | undefined; waitMs: number | undefined; final: boolean };

const connect = async (source: EventSource, after: number | undefined): Promise<Connected> => {
  const { fetch, url, headers, signal } = source;
  const cut = new AbortController();
  try {
    const response = await fetch(url, {
      headers: {
        ...headers,
        accept: "text/event-stream",
        ...(after === undefined ? {} : { "last-event-id": String(after) }),
      },
      signal: signal === undefined ? cut.signal : AbortSignal.any([signal, cut.signal]),
    });
    if (response.status === 204) return { kind: "over", response };
    if (response.ok && response.body !== null) return { kind: "open", response, body: response.body, cut };
    const { status } = response;
    const seconds = Number(response.headers.get("retry-after") ?? "");
    return {
      kind: "refused",
      error: await errorOf(response),
      response,
      waitMs: seconds > 0 ? seconds * 1000 : undefined,
      final: status !== 429 && status < 500,
    };
  } catch (error) {
    const reason = error instanceof Error ? error : new Error(String(error));
    return { kind: "refused", error: reason, response: undefined, waitMs: undefined, final: signal?.aborted === true };
  }
};

async function* read(source: EventSource, first: Connected): AsyncGenerator<StreamFrame, void, undefined> {
  const { signal, tries = 10, waitMs = 500 } = source;
  let now = first;
  let last = source.after;
  let failures = 0;
  for (;;) {
    if (now.kind === "over" || hasEnded(signal)) return;
    if (now.kind === "open") {
      source.onState?.({ open: true });
      for await (const { id, frame } of framesOf(now.body, now.cut)) {
        if (id !== undefined) {
          last = id;
          failures = 0;
        } else if (frame.type === "task.snapshot") last ??= frame.data.lastEventID;
        yield frame;
        if (frame.type === "stream.end") return;
      }
    }
    if (hasEnded(signal)) return;
    failures += 1;
    if (now.kind === "refused" && (now.final || failures > tries)) throw toThrowable(now.error);
    if (failures > tries) throw new Error(`The event stream was cut ${failures} times in a row without a new event.`);
    const asked = now.kind === "refused" ? now.waitMs : undefined;
    // Jitter, so that readers whose connections were lost together do not reconnect together.
    const ms = (asked ?? Math.min(longestWaitMs, waitMs * 2 ** (failures - 1))) * (0.75 + Math.random() / 2);
    source.onState?.({ open: false, retryAt: Date.now() + ms });
    await pause(ms, signal);
    if (hasEnded(signal)) return;
    now = await connect(source, last);
  }
}

const hasEnded = (signal: AbortSignal | undefined): boolean => signal?.aborted === true;

type Received = { id: number | undefined; frame: StreamFrame };

/** Yields the frames of one connection; ends when the connection ends, for whatever reason. */
async function* framesOf(body: ReadableStream<Uint8Array>, cut: AbortController): AsyncGenerator<Received> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let buffer = "";
  try {
    for (;;) {
      const chunk = await withTimeout(reader.read(), cut);
      if (chunk.done) return;
      buffer += decoder.decode(chunk.value, { stream: true });
      const blocks = buffer.split("\n\n");
      buffer = blocks.pop() ?? "";
      for (const block of blocks) {
        const received = parseBlock(block);
        if (received !== undefined) yield received;
      }
    }
  } catch {
    return;
  } finally {
    cut.abort();
    await reader.cancel().catch(() => {});
  }
}

const withTimeout = async <T>(work: Promise<T>, cut: AbortController): Promise<T> => {
  const timer = setTimeout(() => cut.abort(), silenceMs);
  try {
    return await work;
  } finally {
    clearTimeout(timer);
  }
};

/** undefined: the block is a comment, or has only a `retry:` field. */
const parseBlock = (block: string): Received | undefined => {
  const data: string[] = [];
  let id: number | undefined;
  for (const line of block.split("\n"))
    if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
    else if (line.startsWith("id:")) id = Number(line.slice(3));
  return data.length === 0 ? undefined : { id, frame: JSON.parse(data.join("\n")) as StreamFrame };
};
