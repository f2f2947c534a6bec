import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { createCaller } from "./client.ts";
import { type Figure, inTurns } from "./figure.ts";
import { startHello } from "./service.ts";
import { rowOf } from "./table.ts";

const autocannon = fileURLToPath(import.meta.resolve("autocannon"));

/** Requests per second that ten kept connections of another process get out of an address. */
const load = async (url: string, seconds: number): Promise<number> => {
  const args = [autocannon, "--json", "--connections", "10", "--duration", String(seconds), url];
  const { stdout } = await promisify(execFile)(process.execPath, args, { maxBuffer: 1 << 24 });
  const result = JSON.parse(stdout) as { requests: { average: number }; non2xx: number; errors: number };
  if (result.non2xx > 0) throw new Error(`${url}: ${result.non2xx} answers were not 2xx`);
  return result.requests.average;
};

/** How often a second the status of a Task can be read. */
export const reads: Figure = async (bench) => {
  await using hello = await startHello(bench.root);
  await using service = await bench.service("reads");
  using caller = await createCaller(service.url);
  const directory = bench.project("reads", "plain");
  const task = await caller.create(directory, `bench read 5 ${bench.id("reads")}`, { isolation: "directory" });
  await caller.settled(task);
  const seconds = bench.quick ? 1 : 2;
  const bare = () => load(hello.url, seconds);
  const own = () => load(`${service.url}/task/${task}/status`, seconds);
  // Both are compiled by their use; the first round of either would tell of that.
  if (!bench.quick) await Promise.all([bare(), own()]);
  const rounds = await inTurns(bench.quick ? 1 : 5, bare, own);
  return [
    rowOf("status reads", "1/s", rounds, {
      goal: { kind: "timesFloorAtLeast", value: 0.5 },
      note: "floor: node:http, hello",
    }),
  ];
};
