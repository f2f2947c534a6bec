import { spawn, spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { createServiceClient } from "../../src/client/client.ts";
import { night } from "../harness/night.ts";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { git, until } from "../harness/project.ts";
import { change, place, send, serve } from "./stage.ts";

/**
 * Three nodes behind `deploy/nginx.conf`: all are restarted one after the other while others work through the proxy.
 */

const hasNginx = spawnSync("nginx", ["-v"]).status === 0;
if (!hasNginx) console.warn("SKIPPED: nodes behind nginx, which is not here (Debian: apt-get install nginx-light).");

const freePort = (): Promise<number> =>
  new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0));
    });
  });

/** nginx by the file that is deployed, with these addresses in place of the containers'. */
const startProxy = async (folder: string, nodes: Record<string, number>) => {
  const port = await freePort();
  const deployed = readFileSync(new URL("../../deploy/nginx.conf", import.meta.url), "utf8");
  const text = Object.entries(nodes)
    .reduce((conf, [name, at]) => conf.replace(`node-${name}:7878`, `127.0.0.1:${at}`), deployed)
    .replace("listen 8080;", `listen 127.0.0.1:${port};`)
    .replaceAll("/tmp/", `${folder}/`);
  expect(text).not.toContain("node-");
  const file = join(folder, "nginx.conf");
  writeFileSync(file, text);
  const child = spawn("nginx", ["-c", file, "-p", folder, "-g", "daemon off;"], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  let errors = "";
  child.stderr.on("data", (chunk: Buffer) => (errors += String(chunk)));
  const gone = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const url = `http://127.0.0.1:${port}`;
  const listens = () =>
    fetch(`${url}/health`).then(
      ({ ok }) => ok,
      () => false,
    );
  if (!(await until(listens, (ok) => ok || child.exitCode !== null))) throw new Error(`nginx did not start: ${errors}`);
  return {
    url,
    async [Symbol.asyncDispose]() {
      child.kill("SIGTERM");
      await gone;
    },
  };
};

describe.skipIf(postgresURL === undefined || !hasNginx)("behind a proxy", () => {
  test("a rolling restart of all nodes refuses no reading, loses no Task and no event, and lands each Task once", {
    timeout: night ? 900_000 : 240_000,
  }, async () => {
    await using here = await place();
    const { count, streams, rounds } = night
      ? { count: 100, streams: 20, rounds: 2 }
      : { count: 9, streams: 2, rounds: 1 };
    const names = ["a", "b", "c"] as const;
    const ports = { a: await freePort(), b: await freePort(), c: await freePort() };
    const begin = (name: keyof typeof ports) =>
      serve({
        ...here.env(name),
        SERVICE_DATA_DIR: join(here.path, name),
        SERVICE_PORT: String(ports[name]),
        HOME: here.path,
      });
    const nodes = { a: await begin("a"), b: await begin("b"), c: await begin("c") };
    try {
      await using proxy = await startProxy(here.path, ports);
      const over = new AbortController();

      // Readers: every answer has to be one.
      const wrong: string[] = [];
      let answers = 0;
      const read = async (path: string) => {
        while (!over.signal.aborted) {
          const { status, text } = await send(proxy, "GET", path).catch((error: unknown) => ({
            status: 0,
            text: String(error),
          }));
          if (status === 200) answers += 1;
          else wrong.push(`${path}: ${status} ${text}`);
          await pause(20);
        }
      };
      const readers = ["/health", "/nodes", "/overview"].map(read);

      const projects = Array.from({ length: count }, (_, index) => here.project(`p${index}`));
      const begun = projects.map((folder) => git(folder, "rev-parse", "HEAD").trim());

      // Followers of all events, from the first on, which resume where they were cut.
      const follow = async (): Promise<{ ids: number[]; settled: string[] }> => {
        const seen = { ids: [] as number[], settled: [] as string[] };
        while (seen.settled.length < count && !over.signal.aborted) {
          const response = await fetch(`${proxy.url}/events?after=${seen.ids.at(-1) ?? 0}`, {
            signal: over.signal,
          }).catch(() => undefined);
          let text = "";
          try {
            for await (const bytes of response?.body ?? []) {
              text += Buffer.from(bytes).toString("utf8");
              const frames = text.split("\n\n");
              text = frames.pop() ?? "";
              for (const [, id, data] of frames.flatMap((frame) => [/^id: (\d+)\ndata: (.*)$/m.exec(frame) ?? []])) {
                if (id === undefined || data === undefined) continue;
                const event = JSON.parse(data) as { type: string; taskID: string };
                seen.ids.push(Number(id));
                if (event.type === "task.settled") seen.settled.push(event.taskID);
              }
              if (seen.settled.length === count) return seen;
            }
          } catch {}
          await pause(50);
        }
        return seen;
      };
      const followers = Array.from({ length: streams }, follow);

      const tasks: string[] = [];
      const create = async () => {
        for (const directory of projects) {
          const { data } = await createServiceClient({ baseUrl: proxy.url, directory }).task.create({
            body: { request: change, productPillar: "code", checks: ["sleep 0.5; grep two a.txt"] as never },
            throwOnError: true,
          });
          tasks.push(data.taskID);
          await pause(night ? 100 : 300);
        }
      };
      const creating = create();
      creating.catch(() => over.abort());

      for (const name of Array.from({ length: rounds }, () => names).flat()) {
        await pause(1000);
        await nodes[name].stop("SIGTERM");
        nodes[name] = await begin(name);
      }
      await creating;
      for (const taskID of tasks)
        await until(
          () => send(proxy, "GET", `/task/${taskID}/status`),
          ({ body }) => body["lifecycleStatus"] === "completed",
          night ? 300_000 : 60_000,
        );
      const seen = await Promise.all(followers);
      over.abort();
      await Promise.all(readers);

      const log: number[] = [];
      for (let after: number | null = 0; after !== null; ) {
        const { body } = await send(nodes.a, "GET", `/events?format=json&limit=1000&after=${after}`);
        const page = body as { events: { id: number }[]; nextAfter: number | null };
        log.push(...page.events.map(({ id }) => id));
        after = page.events.length < 1000 ? null : page.nextAfter;
      }

      expect(wrong).toEqual([]);
      expect(answers).toBeGreaterThan(100);
      for (const { ids, settled } of seen) {
        expect(settled.toSorted()).toEqual(tasks.toSorted());
        // Each once, in order and without a gap.
        expect(ids).toEqual(log.slice(0, ids.length));
      }
      for (const [index, folder] of projects.entries())
        expect(git(folder, "log", "--format=%(trailers:key=Task,valueonly)", `${begun[index]}..HEAD`).trim()).toBe(
          tasks[index],
        );
    } finally {
      for (const name of names) await nodes[name][Symbol.asyncDispose]();
    }
  });
});
if (postgresURL === undefined) countSkipped(1);
