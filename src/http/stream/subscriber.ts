import type { ServerResponse } from "node:http";
import type { Limits } from "../../protocol/limit.ts";
import type { RequestContext } from "../response/response.ts";

/**
 * One reader of an event stream. Durable frames are never dropped: a reader that falls too far behind is disconnected
 * and resumes after its last id. Live frames are dropped as soon as the reader is not up to date.
 */
export interface Channel {
  /** Aborts when the reader has gone or was disconnected. */
  readonly signal: AbortSignal;
  /** Writes a durable frame. */
  write(text: string): void;
  /** Writes a live frame, or drops it when the reader is behind. */
  offer(text: string): void;
  /** While replaying: resolves when the reader has taken most of what was written. */
  room(): Promise<void>;
  /** Once live: disconnects a reader that is too far behind. */
  keepUp(): Promise<void>;
  /** Writes a last frame and ends the stream. */
  end(last: string): void;
}

export type Timing = { heartbeatMs: number; stallMs: number };

export const openChannel = (
  outgoing: ServerResponse,
  entry: RequestContext,
  limits: Pick<Limits, "streamQueueBytes" | "streamQueueEvents">,
  timing: Timing,
  onBeat: () => void,
): Channel => {
  const gone = new AbortController();
  let waiting = 0;
  let movedAt = performance.now();

  const write = (text: string): void => {
    if (gone.signal.aborted || outgoing.writableEnded) return;
    if (waiting === 0) movedAt = performance.now();
    waiting += 1;
    outgoing.write(text, () => {
      waiting -= 1;
      movedAt = performance.now();
    });
  };
  const stalled = () => waiting > 0 && performance.now() - movedAt > timing.stallMs;
  const tooFar = () => waiting > limits.streamQueueEvents || outgoing.writableLength > limits.streamQueueBytes;

  const beat = setInterval(() => {
    if (stalled()) return void outgoing.destroy();
    if (waiting === 0) write(": heartbeat\n\n");
    onBeat();
  }, timing.heartbeatMs);
  beat.unref();
  // Looks for a stall more often than heartbeats come.
  const watch = setInterval(() => stalled() && outgoing.destroy(), Math.max(50, timing.stallMs / 6));
  watch.unref();

  outgoing.on("error", () => {});
  outgoing.once("close", () => {
    clearInterval(beat);
    clearInterval(watch);
    gone.abort();
  });
  outgoing.writeHead(200, {
    ...entry.headers,
    "content-type": "text/event-stream; charset=utf-8",
    "x-accel-buffering": "no",
  });
  outgoing.flushHeaders();

  return {
    signal: gone.signal,
    write,
    offer(text) {
      if (outgoing.writableLength < limits.streamQueueBytes / 16) write(text);
    },
    async room() {
      if (outgoing.writableLength < limits.streamQueueBytes / 2 || gone.signal.aborted) return;
      await new Promise<void>((resolve) => {
        const go = () => {
          outgoing.off("drain", go);
          outgoing.off("close", go);
          resolve();
        };
        outgoing.on("drain", go);
        outgoing.on("close", go);
      });
    },
    async keepUp() {
      if (!tooFar()) return;
      // What was written in this tick has not reached the socket yet.
      await new Promise((resolve) => setImmediate(resolve));
      if (tooFar()) outgoing.destroy();
    },
    end(last) {
      write(last);
      outgoing.end();
    },
  };
};
