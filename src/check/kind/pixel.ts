import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import pixelmatch from "pixelmatch";
import { PNG } from "pngjs";
import { messageOf } from "../../error.ts";

/** Compares two PNG images pixel by pixel. This runs in a thread, so that it does not block the service. */

export type PixelComparison =
  | { kind: "same size"; different: number; total: number /** A PNG that shows the difference. */; diff: Uint8Array }
  | { kind: "other size"; got: string; expected: string }
  | { kind: "unreadable"; why: string };

type Images = { shot: Uint8Array; baseline: Uint8Array };

const longestMs = 30_000;

export const compare = (shot: Uint8Array, baseline: Uint8Array): Promise<PixelComparison> =>
  new Promise((resolve) => {
    const data: { compare: Images } = { compare: { shot, baseline } };
    const worker = new Worker(new URL(import.meta.url), { workerData: data, env: {} });
    const end = (compared: PixelComparison) => {
      clearTimeout(timer);
      resolve(compared);
      void worker.terminate();
    };
    const unreadable = (why: string) => end({ kind: "unreadable", why });
    const timer = setTimeout(unreadable, longestMs, `not compared within ${longestMs / 1000} s`);
    worker.once("message", end);
    worker.once("error", (error) => unreadable(messageOf(error)));
  });

const compared = ({ shot, baseline }: Images): PixelComparison => {
  let images: PNG[];
  try {
    images = [shot, baseline].map((bytes) => PNG.sync.read(Buffer.from(bytes)));
  } catch (error) {
    return { kind: "unreadable", why: messageOf(error) };
  }
  const [got, expected] = images as [PNG, PNG];
  const { width, height } = got;
  if (width !== expected.width || height !== expected.height)
    return { kind: "other size", got: `${width}×${height}`, expected: `${expected.width}×${expected.height}` };
  const diff = new PNG({ width, height });
  const different = pixelmatch(got.data, expected.data, diff.data, width, height, { threshold: 0.1 });
  return { kind: "same size", different, total: width * height, diff: PNG.sync.write(diff) };
};

const isTask = (data: unknown): data is { compare: Images } =>
  typeof data === "object" && data !== null && "compare" in data;
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- the port of a thread has no origin
if (!isMainThread && isTask(workerData)) parentPort?.postMessage(compared(workerData.compare));
