import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { canServe } from "../harness/double/git-host.ts";
import { textsOf, writePackage } from "../harness/double/squads.ts";
import { logOf } from "../harness/double/hostile-text.ts";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { until } from "../harness/project.ts";
import { makeRemoteLab } from "../harness/remote-lab.ts";
import { startService } from "../harness/service.ts";
import { ended, place, send } from "./stage.ts";

/** What decides a Task goes with it: only a node that has the same takes it up. */

describe.skipIf(postgresURL === undefined || !canServe)("terms of a Task", () => {
  test("another configuration: nobody takes it, and it says why; control: a node that has the same does", {
    timeout: 120_000,
  }, async () => {
    await using lab = await makeRemoteLab("sortie-nodes-terms-");
    await using here = await place();
    const start = (node: string, role: string, config: object) => {
      const { folder, env } = lab.prepare(node);
      const settings = JSON.parse(readFileSync(env.SERVICE_CONFIG, "utf8")) as object;
      writeFileSync(env.SERVICE_CONFIG, JSON.stringify({ ...settings, ...config }));
      return startService(folder, {
        ...here.env(node),
        ...env,
        SERVICE_ROLE: role,
        SERVICE_NODE_URL: "http://127.0.0.1:0",
      });
    };
    const same = { limits: { steps: 500 }, permissions: { deny: ["shell(rm *)"] } };
    await using front = await start("front", "api", same);
    lab.host.make("app", { "a.txt": "one\n" });
    const repository = { url: lab.host.url("app"), ref: "main" };
    const ask = async (more: object = {}) => {
      const body = { request: "add a file", productPillar: "code", repository, landing: "branch", ...more };
      return String((await send(front, "POST", "/task", { body })).body["taskID"]);
    };
    const taskID = await ask();
    const reason = (want: RegExp, id = taskID) =>
      until(
        async () =>
          (await send(front, "GET", `/task/${id}/status`)).body as { queue: { reason: string }; now: { text: string } },
        ({ queue, now }) => want.test(queue.reason) && now.text.endsWith(queue.reason.replace(/^waits/, "")),
      );
    const listed = async () =>
      (await send(front, "GET", "/nodes")).body as {
        nodes: { name: string; differs: string[] }[];
        untaken: { taskID: string; reason: string }[];
      };

    {
      await using _b = await start("b", "worker", { limits: { steps: 400 } });
      await reason(/^waits for a node like the one that accepted it: b has other permissions, other limits$/);
      const { nodes, untaken } = await until(listed, (found) => found.untaken.length > 0);
      expect(nodes.find(({ name }) => name === "b")?.differs).toEqual(["permissions", "limits"]);
      expect(nodes.find(({ name }) => name === "front")?.differs).toEqual([]);
      expect(untaken).toEqual([
        { taskID, reason: expect.stringContaining("other permissions, other limits") as string },
      ]);
      // Nobody is needed to end one that nobody takes.
      const unwanted = await ask();
      await send(front, "POST", `/task/${unwanted}/cancel`, { body: { mode: "stop" } });
      expect((await ended(front, unwanted)).body).toMatchObject({ lifecycleStatus: "cancelled" });
    }

    // What only says how a node's machine is decides nothing.
    await using _same = await start("same", "worker", { ...same, limits: { ...same.limits, streams: 32 } });
    expect((await ended(front, taskID)).body).toMatchObject({ lifecycleStatus: "completed" });
    expect((await listed()).untaken).toEqual([]);

    // Taking back what a Task landed is a Task on terms like any other.
    const landed = await ask({ landing: "commit" });
    await ended(front, landed);
    const revert = await send(front, "POST", `/task/${landed}/revert`, { body: {} });
    const back = String(revert.body["taskID"]);
    expect((await ended(front, back)).body, revert.text).toMatchObject({ lifecycleStatus: "completed" });
    const termsOf = async (id: string) =>
      (await logOf(front.url, id)).flatMap(({ type, data }) => (type === "task.created" ? [data.terms] : []));
    expect(await termsOf(back)).toEqual(await termsOf(landed));
    expect(await termsOf(back)).toMatchObject([{ tier: 1 }]);
  });

  test("other squads for every project: it is not taken, until they are the same; control: where they are the same it is", {
    timeout: 120_000,
  }, async () => {
    await using lab = await makeRemoteLab("sortie-nodes-squads-");
    await using here = await place();
    const start = (node: string, role: string, config: object = {}) => {
      const { folder, env } = lab.prepare(node);
      const settings = JSON.parse(readFileSync(env.SERVICE_CONFIG, "utf8")) as object;
      writeFileSync(env.SERVICE_CONFIG, JSON.stringify({ ...settings, ...config }));
      return startService(folder, { ...here.env(node), ...env, SERVICE_ROLE: role });
    };
    const folderOf = (node: string) => join(lab.prepare(node).folder, "squads/ours");
    const readme = (node: string) => join(folderOf(node), "README.md");
    lab.host.make("app", { "a.txt": "one\n" });
    const repository = { url: lab.host.url("app"), ref: "main" };
    const ask = async (service: { url: string }) => {
      const body = { request: "add a file", productPillar: "code", repository, landing: "branch" };
      return String((await send(service, "POST", "/task", { body })).body["taskID"]);
    };
    const waits = (service: { url: string }, taskID: string) =>
      until(
        async () => (await send(service, "GET", `/task/${taskID}/status`)).body as { queue: { reason: string } },
        ({ queue }) => queue.reason === "waits for a node like the one that accepted it: b has other squads",
      );
    const differs = async (service: { url: string }) =>
      ((await send(service, "GET", "/nodes")).body as { nodes: { differs: string[] }[] }).nodes.map((one) =>
        one.differs.join(),
      );

    writePackage(folderOf("front"), textsOf({ "README.md": "one" }, { id: "ours" }));
    await using front = await start("front", "api");
    {
      // An agent of its own, by its configuration.
      await using _b = await start("b", "worker", { agents: { mine: { command: "true" } } });
      const taskID = await ask(front);
      await waits(front, taskID);
      expect((await differs(front)).toSorted()).toEqual(["", "squads"]);
      await send(front, "POST", `/task/${taskID}/cancel`, { body: { mode: "stop" } });
    }
    {
      await using _b = await start("b", "worker", { agents: {} });
      expect((await ended(front, await ask(front))).body).toMatchObject({ lifecycleStatus: "completed" });
    }
    // Changed here and there while they did not see each other.
    await front.close();
    for (const node of ["front", "b"]) writeFileSync(readme(node), `of ${node}`);
    await using again = await start("front", "api");
    await until(
      () => differs(again),
      (found) => found.includes(""),
    );
    await using _b = await start("b", "worker", { agents: {} });
    const taskID = await ask(again);
    await waits(again, taskID);
    // The remedy that the log names.
    rmSync(folderOf("b"), { recursive: true });
    expect((await ended(again, taskID)).body).toMatchObject({ lifecycleStatus: "completed" });
    await until(
      () => differs(again),
      (found) => found.join() === ",",
    );
  });
});
if (postgresURL === undefined) countSkipped(2);
