import { describe, expect, test } from "vitest";
import { canServe } from "../harness/double/git-host.ts";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { until } from "../harness/project.ts";
import { makeRemoteLab } from "../harness/remote-lab.ts";
import { startService } from "../harness/service.ts";
import { ended, place, send } from "./stage.ts";

/** `SERVICE_ROLE`: one node answers, another works, and neither does what is the other's. */

describe.skipIf(postgresURL === undefined || !canServe)("roles of nodes", () => {
  test("what is asked of an api node a worker carries out; a Task that no node takes says so", {
    timeout: 90_000,
  }, async () => {
    await using lab = await makeRemoteLab("sortie-nodes-role-");
    await using here = await place();
    const start = (node: string, role: string) => {
      const { folder, env } = lab.prepare(node);
      return startService(folder, { ...here.env(node), ...env, SERVICE_ROLE: role });
    };
    await using front = await start("front", "api");
    lab.host.make("app", { "a.txt": "one\n" });
    const repository = { url: lab.host.url("app"), ref: "main" };
    const body = { request: "add a file", productPillar: "code", repository, landing: "branch" };

    const made = await send(front, "POST", "/task", { body });
    expect(made).toMatchObject({ status: 202 });
    const taskID = String(made.body["taskID"]);
    const waits = await send(front, "GET", `/task/${taskID}/status`);
    expect(waits.body).toMatchObject({
      phase: "queued",
      startedAt: null,
      queue: { reason: "waits for a node that runs Tasks, and none is up: start one" },
    });
    // A directory of its own would wait for ever.
    const directory = here.project("p");
    const refused = await send(front, "POST", "/task", { directory, body: { request: "x", productPillar: "code" } });
    expect(refused).toMatchObject({ status: 400, body: { code: "directory_invalid" } });
    expect(refused.text).toContain("SERVICE_ROLE=api");
    const mission = await send(front, "POST", "/mission/wake", { directory, body: { text: "x" } });
    expect(mission).toMatchObject({ status: 400, body: { code: "directory_invalid" } });
    expect((await send(front, "GET", "/tasks", { directory })).body).toEqual([]);

    await using worker = await start("worker", "worker");
    expect((await ended(front, taskID)).body).toMatchObject({ lifecycleStatus: "completed" });
    expect(lab.host.git("app", "show", `sortie/${taskID}:new.txt`)).toBe("new");
    const nodes = await until(
      () => send(worker, "GET", "/nodes"),
      ({ body }) =>
        (body["nodes"] as { name: string; room: number }[]).some(({ name, room }) => name === "worker" && room > 0),
    );
    expect(nodes.body["nodes"]).toMatchObject([
      { name: "front", role: "api", room: 0, state: "up" },
      { name: "worker", role: "worker", state: "up" },
    ]);
    for (const path of ["/health", "/metrics"]) expect((await send(worker, "GET", path)).status).toBe(200);
    for (const path of [`/task/${taskID}/status`, "/overview", "/", "/openapi.json"])
      expect([path, await send(worker, "GET", path)]).toMatchObject([
        path,
        { status: 503, body: { code: "node_away" } },
      ]);
    const other = await send(worker, "POST", "/task", { body });
    expect(other).toMatchObject({ status: 503, body: { code: "node_away" } });
  });
});
if (postgresURL === undefined) countSkipped(1);
