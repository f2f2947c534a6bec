import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { Client } from "pg";
import { describe, expect, test } from "vitest";
import { startPostgresProxy } from "../harness/double/postgres-proxy.ts";
import { countSkipped, freshDatabase, postgresURL } from "../harness/postgres.ts";
import { makeProject, temporary, until } from "../harness/project.ts";
import { startService } from "../harness/service.ts";
import { change, create, ended, send } from "./stage.ts";

/** The engine of nodes as an operator meets it. */

describe.skipIf(postgresURL === undefined)("nodes and their engine", () => {
  const scene = async () => {
    const scope = new AsyncDisposableStack();
    const folder = scope.use(temporary("sortie-engine-"));
    const database = scope.use(await freshDatabase(postgresURL ?? "", {}));
    const client = new Client({ connectionString: database.url });
    await client.connect();
    scope.defer(() => client.end());
    const start = (name: string, more: Record<string, string> = {}) =>
      startService(join(folder.path, name), { SERVICE_DATABASE_URL: database.url, SERVICE_NODE: name, ...more });
    return { folder: folder.path, url: database.url, client, start, [Symbol.asyncDispose]: () => scope.disposeAsync() };
  };

  test("idle nodes cost few transactions; what runs is listed with its node, and what is over is told apart", {
    timeout: 60_000,
  }, async () => {
    await using here = await scene();
    await using a = await here.start("a");
    await using b = await here.start("b");
    const directory = makeProject(join(here.folder, "p"), { "a.txt": "one\n", "package.json": "{}" });
    const taskID = await create(a, directory, change, { landing: "branch" });
    expect((await ended(b, taskID)).body).toMatchObject({ lifecycleStatus: "completed" });
    const { rows } = await here.client.query<{ executor_id: string; inputs: string }>(
      "select executor_id, workflow_input.inputs from dbos.workflow_status join dbos.workflow_input using (workflow_uuid)",
    );
    const own = rows.filter(({ inputs }) => inputs.includes(taskID));
    expect(own.length).toBeGreaterThan(0);
    expect(own.every(({ executor_id }) => executor_id.startsWith("a "))).toBe(true);

    const count = async (): Promise<number> => {
      const { rows: found } = await here.client.query<{ count: string }>(
        "select xact_commit + xact_rollback as count from pg_stat_database where datname = current_database()",
      );
      return Number(found[0]?.count);
    };
    // The server counts late, so that what came before may be among the first of them.
    const seconds = 3;
    let each = Number.POSITIVE_INFINITY;
    for (let round = 0; round < 5 && each / seconds / 2 >= 15; round += 1) {
      const before = await count();
      await pause(seconds * 1000);
      each = Math.min(each, (await count()) - before);
    }
    const connections = await here.client.query(
      "select 1 from pg_stat_activity where datname = current_database() and application_name like 'sortie%'",
    );
    console.log(
      `idle: ${(each / seconds / 2).toFixed(1)} transactions a second and ${(connections.rows.length / 2).toFixed(1)} connections a node`,
    );
    expect(each / seconds / 2).toBeLessThan(20);
  });

  test("a database that is away for a while costs no Task, and what comes afterwards begins as before", {
    timeout: 90_000,
  }, async () => {
    await using here = await scene();
    await using proxy = await startPostgresProxy(here.url);
    await using a = await here.start("a", { SERVICE_DATABASE_URL: proxy.url });
    await using _b = await here.start("b", { SERVICE_DATABASE_URL: proxy.url });
    const directory = makeProject(join(here.folder, "p"), { "a.txt": "one\n", "package.json": "{}" });
    const during = await create(a, directory, change, { landing: "branch", checks: ["sleep 2", "grep two a.txt"] });
    await until(
      () => send(a, "GET", `/task/${during}/events?format=json`),
      ({ text }) => text.includes('"run.started"'),
    );
    proxy.down();
    await pause(3_000);
    proxy.open();
    expect((await ended(a, during)).body).toMatchObject({ lifecycleStatus: "completed" });
    const after = await create(a, directory, change, { landing: "branch" });
    expect((await ended(a, after)).body).toMatchObject({ lifecycleStatus: "completed" });
  });

  test("the local engine has the database alone, whatever the service is called", { timeout: 60_000 }, async () => {
    await using here = await scene();
    {
      await using _a = await here.start("a", { SERVICE_ENGINE: "local" });
      await expect(here.start("b")).rejects.toMatchObject({
        exitCode: 75,
        message: expect.stringMatching(/uses this database alone: it has SERVICE_ENGINE=local/) as string,
      });
    }
    await using _b = await here.start("b");
    await expect(here.start("a", { SERVICE_ENGINE: "local" })).rejects.toMatchObject({
      exitCode: 75,
      message: expect.stringMatching(/SERVICE_ENGINE=local is for the only service/) as string,
    });
  });
});
if (postgresURL === undefined) countSkipped(3);
