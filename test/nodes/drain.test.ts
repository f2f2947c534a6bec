import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { drain } from "../../src/cli/node.ts";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { until } from "../harness/project.ts";
import { change, create, ended, place, send, serve } from "./stage.ts";

/** A node that is to take up nothing more: what it has begun comes to the end of its step, and is not repeated. */

const typesOf = async (service: { url: string }, taskID: string): Promise<string[]> => {
  const { body } = await send(service, "GET", `/task/${taskID}/events?format=json&limit=1000`);
  return (body["events"] as { type: string }[]).map(({ type }) => type);
};
const countOf = async (service: { url: string }, taskID: string, type: string): Promise<number> =>
  (await typesOf(service, taskID)).filter((each) => each === type).length;

const inCheck = (service: { url: string }, taskID: string) =>
  until(
    () => typesOf(service, taskID),
    (types) => types.includes("check.started"),
  );

describe.skipIf(postgresURL === undefined)("draining", () => {
  test.each([
    { seconds: 30, checks: 1, ends: "at the end of its step" },
    { seconds: 0, checks: 2, ends: "where it is: the check runs again" },
  ])("asked by another node, with $seconds s: a run ends $ends", { timeout: 90_000 }, async ({ seconds, checks }) => {
    await using here = await place();
    mkdirSync(join(here.path, "a"), { recursive: true });
    const config = join(here.path, "a", "config.jsonc");
    writeFileSync(config, JSON.stringify({ limits: { drainSeconds: seconds } }));
    const begin = () => here.start("a", "a", { SERVICE_CONFIG: config });
    const a = await begin();
    await using b = await here.start("b");
    const taskID = await create(a, here.project("p"), change, { checks: ["sleep 4; grep two a.txt"] });
    await inCheck(a, taskID);

    expect(await send(b, "POST", "/node/a/drain")).toMatchObject({
      status: 202,
      body: { name: "a", state: "draining" },
    });
    const waits = async () => {
      const { body } = await send(b, "GET", "/nodes");
      return (body["nodes"] as { name: string; state: string; running: number; room: number }[])[0];
    };
    expect(await until(waits, (node) => node?.state === "draining" && node.running === 0, 20_000)).toMatchObject({
      name: "a",
      room: 0,
    });
    const [finished, other] = [await countOf(b, taskID, "check.finished"), await create(a, here.project("q"), change)];
    expect(finished > 0).toBe(seconds > 0);
    expect((await send(a, "GET", `/task/${other}/status`)).body).toMatchObject({ phase: "queued" });
    expect(await countOf(b, taskID, "landing.started")).toBe(0);
    await a.close();

    await using again = await begin();
    for (const id of [taskID, other])
      expect((await ended(again, id)).body).toMatchObject({ lifecycleStatus: "completed" });
    expect([await countOf(b, taskID, "run.started"), await countOf(b, taskID, "landing.finished")]).toEqual([2, 1]);
    expect(await countOf(b, taskID, "check.started")).toBe(checks);
  });

  test("SIGTERM drains, and the check is not repeated; control: SIGINT does not wait", {
    timeout: 90_000,
  }, async () => {
    for (const [signal, started] of [
      ["SIGTERM", 1],
      ["SIGINT", 2],
    ] as const) {
      await using here = await place();
      const env = { ...here.env("a"), SERVICE_DATA_DIR: join(here.path, "a"), HOME: here.path };
      await using b = await here.start("b");
      const first = await serve(env);
      const taskID = await create(first, here.project("p"), change, { checks: ["sleep 3"] });
      await inCheck(b, taskID);
      expect([signal, await first.stop(signal)]).toEqual([signal, 0]);
      expect((await send(b, "GET", "/nodes")).body).toMatchObject({ nodes: [{ name: "a", state: "stopped" }, {}] });
      await using _again = await serve(env);
      expect((await ended(b, taskID)).body).toMatchObject({ lifecycleStatus: "completed" });
      expect([signal, await countOf(b, taskID, "check.started")]).toEqual([signal, started]);
    }
  });

  test("sortie drain waits until it is done; a name that nobody has, and a node that is away, are refused", {
    timeout: 60_000,
  }, async () => {
    await using here = await place();
    const b = await here.start("b");
    await using a = await here.start("a");
    const said: string[] = [];
    const screen = { say: (text: string) => void said.push(text) } as never;
    const target = {
      url: a.url,
      directory: here.path,
      repository: undefined,
      username: "service",
      password: undefined,
    };
    expect(await drain("b", { target, screen, emit: undefined })).toBe(0);
    expect(said.at(-1)).toMatch(/^b is drained/);
    expect(await send(a, "POST", "/node/c/drain")).toMatchObject({ status: 404, body: { code: "node_not_found" } });
    await b.close();
    expect(await send(a, "POST", "/node/b/drain")).toMatchObject({
      status: 503,
      body: { code: "node_away", details: { node: "b" } },
    });
  });
});
if (postgresURL === undefined) countSkipped(4);
