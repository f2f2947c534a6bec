import { execFileSync } from "node:child_process";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startProcess } from "../crash/process.ts";
import { canServe } from "../harness/double/git-host.ts";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { until } from "../harness/project.ts";
import { makeRemoteLab, type RemoteLab } from "../harness/remote-lab.ts";
import { startService, type TestService } from "../harness/service.ts";
import { ended, place, send, serve } from "./stage.ts";

/**
 * Three nodes, one of which is pushing while it is stopped, or told to stop; and what is left of a Task that a third
 * one deletes.
 */

type Place = Awaited<ReturnType<typeof place>>;

describe.skipIf(postgresURL === undefined || !canServe)("a push that is on its way", () => {
  let lab: RemoteLab;
  let here: Place;
  let b: TestService;
  let c: TestService;
  const of = (node: string) => {
    const { folder, env } = lab.prepare(node);
    return { folder, env: { ...here.env(node), ...env } };
  };
  beforeAll(async () => {
    here = await place();
    lab = await makeRemoteLab("sortie-push-");
    [b, c] = [await startService(of("b").folder, of("b").env), await startService(of("c").folder, of("c").env)];
  }, 60_000);
  afterAll(async () => {
    await b.close();
    await c.close();
    await lab[Symbol.asyncDispose]();
    await here[Symbol.asyncDispose]();
  });

  const create = async (service: { url: string }, name: string) => {
    lab.host.make(name, { "a.txt": "one\n" });
    const repository = { url: lab.host.url(name), ref: "main" };
    const body = { request: "add it", productPillar: "code", landing: "commit", repository };
    const made = await send(service, "POST", "/task", { body });
    expect([made.status, made.text]).toEqual([202, made.text]);
    return String(made.body["taskID"]);
  };
  const eventsOf = async (service: { url: string }, taskID: string) => {
    const { body } = await send(service, "GET", `/task/${taskID}/events?format=json&limit=1000`);
    return body["events"] as { type: string; data: Record<string, unknown> }[];
  };
  const landed = (name: string): string[] =>
    lab.host
      .git(name, "log", "--format=%(trailers:key=Task,valueonly)", "main")
      .split("\n")
      .filter((line) => line !== "");
  /** Holds the first push that comes, until it is let go. */
  const holdPush = () => {
    const came = Promise.withResolvers<void>();
    const go = Promise.withResolvers<void>();
    let done = false;
    lab.host.before = async (incoming) => {
      if (done || incoming.method !== "POST" || incoming.url?.includes("git-receive-pack") !== true) return false;
      done = true;
      came.resolve();
      await go.promise;
      return false;
    };
    return { came: came.promise, go: go.resolve };
  };

  /** A Task that the first node pushes; whoever hears of one first takes it up. */
  const pushing = async (node: { url: string }) => {
    for (let tries = 1; ; tries += 1) {
      const name = `r${(count += 1)}`;
      const push = holdPush();
      const taskID = await create(node, name);
      await push.came;
      const [placed] = (await here.sql(`select node from placements where stream = '${taskID}'`)) as { node: string }[];
      if (placed?.node === "a") return { name, push, taskID };
      push.go();
      await ended(b, taskID);
      expect(tries).toBeLessThan(10);
    }
  };
  let count = 0;
  /** As if a node had been away for longer than its leases. */
  const age = (node: string) =>
    here.sql(`update nodes set seen = seen - 60000 where name = '${node}';
              update streams set lease_until = 0 where holder is not null and exists (
                select 1 from placements where placements.stream = streams.stream and node = '${node}')`);
  const once = async (service: { url: string }, taskID: string): Promise<Record<string, number>> => {
    const types = (await eventsOf(service, taskID)).map(({ type }) => type);
    const count = (type: string) => types.filter((each) => each === type).length;
    return { started: count("landing.started"), finished: count("landing.finished"), settled: count("task.settled") };
  };
  /** What the data folders and the mirrors in them have of a Task. */
  const files = (taskID: string): string[] =>
    ["a", "b", "c"].flatMap((node) =>
      execFileSync("find", [of(node).folder, "-name", `*${taskID}*`], { encoding: "utf8" })
        .split("\n")
        .filter((path) => path !== ""),
    );
  const rows = async (taskID: string): Promise<string[]> => {
    const columns = (await here.sql(
      `select table_name as "table", column_name as name from information_schema.columns
        where table_schema = current_schema() and data_type in ('text', 'character varying')`,
    )) as { table: string; name: string }[];
    const found: string[] = [];
    for (const { table, name } of columns)
      if ((await here.sql(`select 1 from ${table} where position('${taskID}' in ${name}) > 0 limit 1`)).length > 0)
        found.push(`${table}.${name}`);
    return found;
  };

  test("its node is stopped past its lease: another one lands the same commit once, the late push changes nothing, and deleted at a third nothing is left; control: before, something is", {
    timeout: 120_000,
  }, async () => {
    await using a = await startProcess(of("a").env);
    const { name, push, taskID } = await pushing(a);
    a.child.kill("SIGSTOP");
    try {
      await age("a");
      expect((await ended(b, taskID)).body).toMatchObject({ lifecycleStatus: "completed" });
      const commit = (await eventsOf(b, taskID)).findLast(({ type }) => type === "tree.committed")?.data["commit"];
      expect(lab.host.git(name, "rev-parse", "main")).toBe(commit);
      // Somebody goes on from there before the first push arrives.
      const theirs = lab.host.commit(name, "main", { "b.txt": "theirs\n" });
      push.go();
      await new Promise((resolve) => setTimeout(resolve, 500));
      a.child.kill("SIGCONT");
      await until(
        () => send(a, "GET", "/nodes"),
        ({ body }) =>
          (body["nodes"] as { name: string; running: number; state: string }[]).some(
            (node) => node.name === "a" && node.running === 0 && node.state === "up",
          ),
        20_000,
      );
      expect(lab.host.git(name, "rev-parse", "main")).toBe(theirs);
      expect(landed(name)).toEqual([taskID]);
      expect(await once(c, taskID)).toEqual({ started: 1, finished: 1, settled: 1 });
      lab.host.git(name, "fsck", "--strict");
    } finally {
      a.child.kill("SIGCONT");
    }
    expect(files(taskID).length).toBeGreaterThan(0);
    expect((await rows(taskID)).length).toBeGreaterThan(3);
    const { directory } = (await send(c, "GET", `/task/${taskID}/status`)).body;
    const removed = await send(c, "DELETE", `/task/${taskID}`, { directory: String(directory) });
    expect([removed.status, removed.text]).toEqual([200, removed.text]);
    for (const node of [a, b, c]) expect((await send(node, "GET", `/task/${taskID}/status`)).status).toBe(404);
    await until(
      async () => [...files(taskID), ...(await rows(taskID))],
      (left) => left.length === 0,
      20_000,
      500,
    );
  });

  test("its node is told to stop: it waits for the push, lands once and ends, and nobody else goes on with it", {
    timeout: 90_000,
  }, async () => {
    await using a = await serve({ SERVICE_PORT: "0", ...of("a").env });
    const { name, push, taskID } = await pushing(a);
    const stopped = a.stop("SIGTERM");
    await until(
      () => send(c, "GET", "/nodes"),
      ({ body }) => (body["nodes"] as { name: string; state: string }[]).some((node) => node.state === "draining"),
    );
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(await once(b, taskID)).toEqual({ started: 1, finished: 0, settled: 0 });
    push.go();
    expect(await stopped).toBe(0);
    expect((await ended(b, taskID)).body).toMatchObject({ lifecycleStatus: "completed" });
    expect(landed(name)).toEqual([taskID]);
    expect(await once(b, taskID)).toEqual({ started: 1, finished: 1, settled: 1 });
  });
});
if (postgresURL === undefined) countSkipped(2);
