import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createServiceClient } from "../../src/client/client.ts";
import { startProcess } from "../crash/process.ts";
import { makeProject, temporary } from "../harness/project.ts";
import { startMockProvider, textOf } from "../harness/double/mock-provider.ts";

/** A Task of 2,000 turns: its last steps cost what its first did, in time and in memory, and its log has all of it. */

const turns = 2_000;

const secondsOf = (pid: number | undefined): number => {
  const fields =
    readFileSync(`/proc/${pid ?? "self"}/stat`, "utf8")
      .split(") ")[1]
      ?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) / 100;
};

test("a Task of 2,000 turns stays flat in time per step and memory", { timeout: 600_000 }, async () => {
  using root = temporary("sortie-long-");
  const times: number[] = [];
  const bytes: number[] = [];
  /** Seconds of processor that the service had used at each request: what else this machine does is not in them. */
  const used: number[] = [];
  let pid: number | undefined;
  let summaries = 0;
  const provider = await startMockProvider(
    ({ body }) => {
      const usage = { input: Math.ceil(JSON.stringify(body).length / 4), output: 20 };
      if (textOf(body.messages.at(-1)?.content).includes("this conversation is about to")) {
        summaries += 1;
        return { text: "Everything up to here was read and understood; go on with the next part.", usage };
      }
      times.push(performance.now());
      used.push(secondsOf(pid));
      bytes.push(JSON.stringify(body).length);
      return times.length <= turns
        ? { calls: [{ tool: "read", input: { path: "a.txt", offset: times.length, limit: 40 } }], usage }
        : { text: "Done.", usage };
    },
    { keep: 1 },
  );
  const config = join(root.path, "config.jsonc");
  const mock = { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" };
  writeFileSync(config, JSON.stringify({ providers: { mock } }));
  const lines = Array.from({ length: turns + 50 }, (_, index) => `line ${index} of a long file that is read in parts`);
  const directory = makeProject(join(root.path, "project"), { "a.txt": `${lines.join("\n")}\n` });
  await using service = await startProcess({
    SERVICE_DATA_DIR: join(root.path, "data"),
    SERVICE_CONFIG: config,
    HOME: root.path,
  });
  pid = service.child.pid;
  const memory = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;
  const client = createServiceClient({ baseUrl: service.url, directory });
  const { data } = await client.task.create({
    body: {
      request: "Read it all",
      productPillar: "work",
      model: "mock/large",
      budget: { maxSteps: 2 * turns, maxTokens: 1e9 },
    },
  });
  const taskID = data?.taskID ?? "";
  while (times.length < 300) await new Promise((resolve) => setTimeout(resolve, 50));
  const [early, earlyHeap] = [memory(), await service.heapMB()];
  const { data: status } = await client.task.wait({ path: { taskID }, timeoutMs: 580_000 });
  const [late, lateHeap] = [memory(), await service.heapMB()];
  await provider.close();

  expect(status).toMatchObject({
    lifecycleStatus: "completed",
    usage: { toolCalls: turns, modelCalls: turns + 1 + summaries },
  });
  expect(summaries).toBeGreaterThan(10);
  const over = (values: readonly number[], from: number) => (values[from + 300] ?? 0) - (values[from] ?? 0);
  const [first, last] = [400, turns - 320];
  const figures = {
    early: over(used, first),
    late: over(used, last),
    earlyMs: over(times, first) / 300,
    lateMs: over(times, last) / 300,
    earlyMB: early,
    lateMB: late,
    earlyHeap,
    lateHeap,
    summaries,
    longest: Math.max(...bytes),
  };
  console.log(`2,000 turns: ${JSON.stringify(figures)}`);
  // The requests of both stretches, 300 each, lie anywhere between two summaries.
  expect(figures.early).toBeGreaterThan(0.1);
  expect(figures.late).toBeLessThan(figures.early * 2);
  // What is in use, to the megabyte: 5 kB kept of each turn would be found. The rest of the memory is the collector's,
  // which takes what it likes at first.
  expect(lateHeap - earlyHeap).toBeLessThan(6);
  expect(late - early).toBeLessThan(150);
  expect(figures.longest / 4).toBeLessThan(32_768);
  const { data: board } = await client.task.board({ path: { taskID } });
  expect(board?.conversation.total).toBe(turns + 2);
});
