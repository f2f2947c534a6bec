import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { describe, expect, test, vi } from "vitest";
import { createProgram } from "../../src/cli/main.ts";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { git } from "../harness/project.ts";
import { change, create, ended, place, send } from "./stage.ts";

/** A directory is one node's, and every node knows whose. */

describe.skipIf(postgresURL === undefined)("a directory of another node", () => {
  test("is read and written from here; where two have one of its path, the caller says which is meant", {
    timeout: 90_000,
  }, async () => {
    await using here = await place();
    mkdirSync(join(here.path, "elsewhere"));
    await using a = await here.start("a");
    // To it the others' directories mean nothing.
    await using b = await here.start("b", "b", { SERVICE_PROJECT_ROOTS: join(here.path, "elsewhere") });
    await using c = await here.start("c");
    const directory = here.project("p");
    const at = (path: string) => `${path}${path.includes("?") ? "&" : "?"}directory=${encodeURIComponent(directory)}`;
    const request = async (
      service: { url: string },
      path: string,
      { node, body }: { node?: string; body?: object } = {},
    ) => {
      const response = await fetch(`${service.url}${at(path)}`, {
        method: body === undefined ? "GET" : "POST",
        headers: {
          ...(node === undefined ? {} : { "x-service-node": node }),
          ...(body === undefined ? {} : { "content-type": "application/json" }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      return { status: response.status, body: (await response.json()) as Record<string, unknown> };
    };
    // Control: nobody knows it yet, and b may not have it.
    expect(await request(b, "/tasks")).toMatchObject({ status: 403, body: { code: "directory_not_allowed" } });

    const first = await create(a, directory, change);
    expect((await ended(a, first)).body).toMatchObject({ lifecycleStatus: "completed" });
    for (const path of ["/tasks", "/missions", "/events?format=json", "/overview?since=2020-01-01T00:00:00.000Z"]) {
      const [own, other] = [await request(a, path), await request(b, path)];
      expect([path, other]).toEqual([path, own]);
      expect([path, own.status]).toEqual([path, 200]);
    }
    const task = { request: "Replace `two` with `three` in a.txt", productPillar: "code" };
    const made = await request(b, "/task", { body: task });
    expect(made).toMatchObject({ status: 202, body: { directory, isolation: "worktree", landing: "commit" } });
    const second = String(made.body["taskID"]);
    expect((await ended(b, second)).body).toMatchObject({ lifecycleStatus: "completed" });
    expect(git(directory, "show", "HEAD:a.txt").trim()).toBe("three");
    const worktree = (node: string) => existsSync(join(here.path, node, "worktrees", `${second}.json`));
    expect([worktree("a"), worktree("b")]).toEqual([true, false]);
    // What only its files tell is asked of its node.
    expect(await request(b, "/project")).toMatchObject({ status: 503, body: { code: "node_away" } });
    expect((await request(a, "/project")).status).toBe(200);

    // A third machine has one of this path, too.
    const third = await request(c, "/task", { node: "c", body: { ...task, request: "say hello" } });
    expect(third).toMatchObject({ status: 202 });
    const both = await request(b, "/tasks");
    expect(both).toMatchObject({
      status: 400,
      body: { code: "directory_ambiguous", details: { nodes: ["a", "c"] } },
    });
    expect(both.body["message"]).toContain("a, c");
    expect((await request(b, "/tasks", { node: "a" })).status).toBe(200);
    expect(await request(b, "/tasks", { node: "b" })).toMatchObject({ status: 403 });
    expect(await request(a, "/tasks", { node: "x" })).toMatchObject({
      status: 400,
      body: { code: "directory_invalid" },
    });
    // So does one whose caller is a model, or somebody at a terminal.
    const mcp = async (node?: string) => {
      const client = new Client({ name: "test", version: "1" });
      const headers = { "x-service-directory": directory, ...(node === undefined ? {} : { "x-service-node": node }) };
      await client.connect(new StreamableHTTPClientTransport(new URL(`${b.url}/mcp`), { requestInit: { headers } }));
      const given = { request: "say hello", productPillar: "code" };
      const { content, isError, structuredContent } = await client.callTool({ name: "task_create", arguments: given });
      await client.close();
      return {
        isError: isError === true,
        text: JSON.stringify(content),
        ...(structuredContent as { taskID?: string }),
      };
    };
    const unsaid = await mcp();
    expect(unsaid).toMatchObject({ isError: true });
    expect(unsaid.text).toContain("x-service-node");
    const fourth = await mcp("c");
    expect(fourth).toMatchObject({ isError: false });
    const whose = `select node from placements where stream = '${fourth.taskID}'`;
    expect(await here.sql(whose)).toEqual([{ node: "c" }]);
    await ended(c, fourth.taskID ?? "");
    const listed = async (...node: string[]) => {
      const lines: string[] = [];
      const write = vi.spyOn(process.stdout, "write").mockImplementation((text) => lines.push(String(text)) > 0);
      try {
        const words = ["node", "sortie", "task", "ls", "--json", "--url", b.url, "-C", directory, ...node];
        await createProgram(() => {}).parseAsync(words);
      } finally {
        write.mockRestore();
      }
      return lines.join("");
    };
    await expect(listed()).rejects.toThrow(/^Expected --node with/);
    expect(await listed("--node", "a")).toContain(first);

    // Who names a Mission by its id has said which.
    const wake = { missionID: "m-1", text: "Say hello." };
    expect((await request(a, "/mission/wake", { node: "a", body: wake })).status).toBeLessThan(300);
    const stream = await fetch(`${b.url}/mission/m-1/events`);
    expect(stream.status).toBe(200);
    await stream.body?.cancel();

    // A Task is known by its id: nobody has to choose.
    const message = { source: "test", text: "Replace `three` with `four` in a.txt" };
    expect((await request(b, `/task/${first}/message`, { body: message })).status).toBe(202);
    expect((await ended(b, first)).body).toMatchObject({ lifecycleStatus: "completed", attempt: 2 });
    await ended(c, String(third.body["taskID"]));
    expect((await send(c, "GET", `/task/${third.body["taskID"]}/status`)).body).toMatchObject({ directory });

    // Where a node has nothing of it left, it is the other's alone; of what is left at a node it is still known.
    const gone = async (id: unknown) => (await send(b, "DELETE", `/task/${id}`, { directory })).status;
    expect(await gone(third.body["taskID"])).toBe(200);
    expect(await request(b, "/tasks")).toMatchObject({ body: { code: "directory_ambiguous" } });
    expect(await gone(fourth.taskID)).toBe(200);
    expect((await request(b, "/tasks")).status).toBe(200);
    expect([await gone(first), await gone(second)]).toEqual([200, 200]);
    expect((await request(b, "/missions")).status).toBe(200);
    expect((await send(b, "DELETE", "/mission/m-1", { directory })).status).toBe(200);
    expect(await request(b, "/tasks")).toMatchObject({ status: 403, body: { code: "directory_not_allowed" } });
  });
});
if (postgresURL === undefined) countSkipped(1);
