import { setTimeout as pause } from "node:timers/promises";
import { join } from "node:path";
import { Client } from "pg";
import { describe, expect, test } from "vitest";
import { countSkipped, freshDatabase, postgresURL } from "../harness/postgres.ts";
import { temporary, until, writeFiles } from "../harness/project.ts";
import { startService } from "../harness/service.ts";
import { create, send } from "./stage.ts";

/** How many connections of PostgreSQL a node has, as the server counts them. */

const most = 12;

describe.skipIf(postgresURL === undefined)("connections of a node", () => {
  const scene = async () => {
    const scope = new AsyncDisposableStack();
    const folder = scope.use(temporary("sortie-connections-"));
    const database = scope.use(await freshDatabase(postgresURL ?? "", {}));
    const client = new Client({ connectionString: database.url });
    await client.connect();
    scope.defer(() => client.end());
    /** By name; without the one that asks. */
    const open = async (): Promise<Record<string, number>> => {
      const { rows } = await client.query<{ name: string; count: number }>(
        `select application_name as name, count(*)::int as count from pg_stat_activity
          where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend' group by 1`,
      );
      return Object.fromEntries(rows.map(({ name, count }) => [name, count]));
    };
    return { folder: folder.path, url: database.url, open, [Symbol.asyncDispose]: () => scope.disposeAsync() };
  };

  test("never more than twelve: 300 Tasks due, readers who go away, cancels; /metrics counts the same", {
    timeout: 180_000,
  }, async () => {
    await using here = await scene();
    await using node = await startService(join(here.folder, "a"), {
      SERVICE_DATABASE_URL: here.url,
      SERVICE_NODE: "a",
      SERVICE_MAX_RUNNING: "64",
    });
    const seen: Record<string, number> = {};
    let peak = 0;
    const over = new AbortController();
    const counting = (async () => {
      while (!over.signal.aborted) {
        const now = await here.open();
        peak = Math.max(
          peak,
          Object.values(now).reduce((sum, count) => sum + count, 0),
        );
        for (const [name, count] of Object.entries(now)) seen[name] = Math.max(seen[name] ?? 0, count);
        await pause(10);
      }
    })();
    const directories = Array.from({ length: 8 }, (_, index) => join(here.folder, `p${index}`));
    for (const directory of directories) writeFiles(directory, { "a.txt": "one\n", "package.json": "{}" });

    const made: [directory: string, taskID: string][] = [];
    const reading = Array.from({ length: 8 }, async (_, index) => {
      for (const path of ["/tasks?search=nothing%20like%20it", "/overview", "/projects", "/tasks", "/events"])
        for (let times = 0; times < 5 && !over.signal.aborted; times += 1) {
          const gone = AbortSignal.timeout(5 + 5 * index);
          await fetch(`${node.url}${path}`, {
            signal: gone,
            headers: { "x-service-directory": directories[index] ?? "" },
          })
            .then((response) => response.arrayBuffer())
            .catch(() => {});
        }
    });
    const callers = Array.from({ length: 20 }, async (_, caller) => {
      for (let count = 0; count < 15; count += 1) {
        const directory = directories[(caller + count) % directories.length] ?? "";
        made.push([directory, await create(node, directory, "say hello", { isolation: "directory" })]);
      }
    });
    await Promise.all(callers);
    await Promise.all(
      Array.from({ length: 40 }, async () => {
        for (let next = made.pop(); next !== undefined; next = made.pop()) {
          const [directory, taskID] = next;
          await send(node, "POST", `/task/${taskID}/cancel`, { directory, body: { mode: "stop" } });
        }
      }),
    );
    over.abort();
    await Promise.all(reading);
    await counting;
    expect(peak).toBeLessThanOrEqual(most);
    expect(peak).toBe(Object.values(seen).reduce((sum, count) => sum + count, 0));
    // Control: it was under load. Each kind is known by its name, and none is without one.
    expect(seen).toEqual({
      "sortie commits": 1,
      "sortie reads": 3,
      "sortie slow reads": 2,
      "sortie lease": 1,
      "sortie lock": 1,
      "sortie hints": 1,
      "sortie engine": 3,
    });

    const told = async (): Promise<Record<string, number>> => {
      const { text } = await send(node, "GET", "/metrics");
      const lines = [...text.matchAll(/^sortie_database_connections\{purpose="(.*)"\} (\d+)$/gm)];
      return Object.fromEntries(
        lines.flatMap(([, name, count]) => (count === "0" ? [] : [[`sortie ${name}`, Number(count)]])),
      );
    };
    await until(
      async () => [await told(), await here.open()],
      ([metrics, server]) => JSON.stringify(sorted(metrics)) === JSON.stringify(sorted(server)),
    );
  });
});

const sorted = (counts: Record<string, number> = {}) => Object.entries(counts).toSorted(([a], [b]) => (a < b ? -1 : 1));

if (postgresURL === undefined) countSkipped(1);
