import { openSync, readSync } from "node:fs";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { boundHeap } from "../../../src/cli/heap.ts";
import { defaultLimits } from "../../../src/protocol/limit.ts";
import { fetch } from "../../../src/tool/web/fetch.ts";
import type { ToolContext } from "../../../src/tool/tool.ts";
import { callContext } from "../../harness/project.ts";
import { startService } from "../../harness/service.ts";

/**
 * A service in a process of its own, as `sortie serve` has it, which tells its parent how long its event loop stood
 * still: what clients, providers and tests do is done elsewhere and does not count.
 */

export type Order =
  | { what: "reset" | "worst" | "stop" }
  /** Does nothing else for so long, in time of the processor; the control. */
  | { what: "block"; ms: number }
  /** No address that a test can answer at is public, so this one call comes without a Task. */
  | { what: "fetch"; url: string };

export type Word = { url: string } | { done: true } | { delay: number; own: number; work: number };

const [, , dataDir = "", config = ""] = process.argv;
const service = await startService(dataDir, { SERVICE_CONFIG: config });
boundHeap();
const delay = monitorEventLoopDelay({ resolution: 1 });
delay.enable();

/** Nanoseconds that this thread was ready to run and had no processor, as Linux counts them; 0 elsewhere. */
const createQueued = (): (() => number) => {
  try {
    const fd = openSync(`/proc/${process.pid}/schedstat`, "r");
    const bytes = Buffer.alloc(64);
    return () => Number(bytes.toString("latin1", 0, readSync(fd, bytes, 0, bytes.length, 0)).split(" ")[1]);
  } catch {
    return () => 0;
  }
};

const spent = (): number => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};

/**
 * The longest time between two turns of the loop in which this process itself kept it, in milliseconds: what others
 * took is not in it. `work` is what of it was work of this thread; the rest it waited, for a disk or for a child to
 * begin.
 */
let own = 0;
let work = 0;
const queued = createQueued();
let before = { at: performance.now(), queued: queued(), spent: spent() };
setInterval(() => {
  const now = { at: performance.now(), queued: queued(), spent: spent() };
  own = Math.max(own, now.at - before.at - (now.queued - before.queued) / 1e6);
  work = Math.max(work, now.spent - before.spent);
  before = now;
}, 1);

const done = { done: true } as const;

const obey = async (order: Order): Promise<Word> => {
  switch (order.what) {
    case "reset":
      delay.reset();
      // The first interval after a reset is not counted.
      await pause(10);
      own = 0;
      work = 0;
      return done;
    case "worst":
      // A loop that stood still has to come round before it is counted.
      await pause(20);
      return { delay: delay.max / 1e6, own, work };
    case "block": {
      const begun = spent();
      while (spent() - begun < order.ms);
      return done;
    }
    case "fetch": {
      await fetch.run({ url: order.url }, {
        ...callContext,
        limits: defaultLimits,
        signal: new AbortController().signal,
        web: { http: true, vouched: () => true, allowed: () => true },
        onOutput: () => undefined,
      } as unknown as ToolContext);
      return done;
    }
    case "stop":
      await service.close();
      setImmediate(() => process.exit());
      return done;
  }
};

process.on("message", (order: Order) => void obey(order).then((word) => process.send?.(word)));
process.on("disconnect", () => process.exit());
process.send?.({ url: service.url } satisfies Word);
