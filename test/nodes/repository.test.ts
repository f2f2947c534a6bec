import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { canServe } from "../harness/double/git-host.ts";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { until } from "../harness/project.ts";
import { makeRemoteLab } from "../harness/remote-lab.ts";
import { startService } from "../harness/service.ts";
import { ended, place, send } from "./stage.ts";

/** Work of a repository by its address belongs to no node: whichever has room takes it up, and each knows it. */

describe.skipIf(postgresURL === undefined || !canServe)("a repository between nodes", () => {
  test("its Tasks and Missions are carried out by another node than the one that was asked; a directory's wait for theirs", {
    timeout: 90_000,
  }, async () => {
    await using lab = await makeRemoteLab("sortie-nodes-remote-", ({ body }) =>
      body.tools?.some(({ function: { name } }) => name === "finish") === true ? { text: "Nothing to do." } : undefined,
    );
    await using here = await place();
    const start = (node: string) => {
      const { folder, env } = lab.prepare(node);
      return startService(folder, { ...here.env(node), ...env });
    };
    await using a = await start("a");
    await using b = await start("b");
    // From now on it begins nothing.
    await send(a, "POST", "/node/a/drain");
    await until(
      () => send(a, "GET", "/nodes"),
      ({ text }) => text.includes('"draining"'),
    );

    lab.host.make("app", { "a.txt": "one\n" });
    const url = lab.host.url("app");
    const key = { "idempotency-key": "k1" };
    const ask = async (service: { url: string }, path: string, body: object, headers: Record<string, string> = {}) => {
      const response = await fetch(`${service.url}${path}`, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: JSON.stringify(body),
      });
      const text = await response.text();
      expect([response.status, text]).toEqual([expect.toSatisfy((status: number) => status < 300), text]);
      return { headers: response.headers, body: JSON.parse(text) as Record<string, string> };
    };
    const task = { request: "add a file", productPillar: "code", repository: { url, ref: "main" }, landing: "branch" };
    const made = await ask(a, "/task", task, key);
    // Sent again to another node, however it spells the address, it is the same request.
    const again = await ask(b, "/task", task, key);
    expect([again.headers.get("idempotent-replayed"), again.body["taskID"]]).toEqual(["true", made.body["taskID"]]);
    const taskID = made.body["taskID"] ?? "";
    const waits = await ask(
      a,
      "/task",
      { request: "add it", productPillar: "code" },
      {
        "x-service-directory": here.project("p"),
      },
    );
    const woken = await ask(a, "/mission/wake", { text: "look", missionID: "m1", repository: { url } });

    expect((await ended(a, taskID)).body).toMatchObject({ lifecycleStatus: "completed", repository: { url } });
    expect(lab.host.git("app", "show", `sortie/${taskID}:new.txt`)).toBe("new");
    const worktree = (node: string) => existsSync(join(lab.root, node, "worktrees", `${taskID}.json`));
    expect([worktree("a"), worktree("b")]).toEqual([false, true]);
    await until(
      () => send(a, "GET", `/mission/m1/status?repository=${encodeURIComponent(url)}`),
      ({ text }) => text.includes('"inactive"') && !text.includes('"updatedAt":null'),
    );
    await until(
      () => send(a, "GET", `/mission/m1/events?format=json`),
      ({ text }) => text.includes('"reply.finished"'),
    );
    expect(woken.body["missionID"]).toBe("m1");
    // Control: what needs a's files is not begun elsewhere.
    const queued = await send(b, "GET", `/task/${waits.body["taskID"]}/status`);
    expect(queued.body).toMatchObject({ phase: "queued", startedAt: null });

    // One project, whichever node is asked and however the address is spelt.
    const lists = async (service: { url: string }, address: string) => [
      (await send(service, "GET", `/tasks?repository=${encodeURIComponent(address)}`)).text,
      (await send(service, "GET", `/missions?repository=${encodeURIComponent(address)}`)).text,
      (await send(service, "GET", `/events?format=json&repository=${encodeURIComponent(address)}`)).text,
    ];
    const known = await lists(a, url);
    expect(known.every((text) => text.length > 10)).toBe(true);
    expect(known[0]).toContain(taskID);
    expect(await lists(b, url)).toEqual(known);
    expect(await lists(b, url.replace(/\.git$/, ""))).toEqual(known);
    for (const service of [a, b]) {
      const { body } = await send(service, "GET", "/projects");
      expect(body).toContainEqual(expect.objectContaining({ repository: { url, ref: "main" }, tasks: 1 }));
    }
  });
});
if (postgresURL === undefined) countSkipped(1);
