import { readFileSync } from "node:fs";
import { Client } from "pg";
import { describe, expect, test } from "vitest";
import { peerHeader, sign } from "../../src/http/peer/signature.ts";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { git, until } from "../harness/project.ts";
import { change, create, ended, place, send } from "./stage.ts";

/**
 * What one node is asked about a Task whose files another one has: it is answered as by that node, over the address that it
 * has for the others, or refused with its name. Every route of the document that reads of a Task or a Mission is in the
 * table here.
 */

type Ids = { taskID: string; missionID: string; callID: string; checkID: string; artifactID: string };

/** How a route is asked for, or why it is not. `files`: only who has the files can answer. */
const reads: Record<string, { files: boolean; more?: string } | string> = {
  "/task/{taskID}": { files: false },
  "/task/{taskID}/status": { files: false },
  "/task/{taskID}/board": { files: false },
  "/task/{taskID}/messages": { files: false },
  "/task/{taskID}/diff": { files: true },
  "/task/{taskID}/call/{callID}/output": { files: false },
  "/task/{taskID}/checks/{checkID}/log": { files: false },
  "/task/{taskID}/artifacts/{artifactID}": "the Task keeps no artifact; a blob, as the log of a check",
  "/task/{taskID}/preview": { files: true },
  "/task/{taskID}/events": { files: false, more: "format=json&after=0" },
  "/task/{taskID}/project-archive": { files: true },
  "/mission/{missionID}/status": { files: false },
  "/mission/{missionID}/events": { files: false, more: "format=json&after=0" },
  "/mission/{missionID}/messages": { files: false },
  "/mission/{missionID}/project-archive": { files: true },
};
/** The same of a project. */
const ofProject = ["/project", "/project/grants", "/project/requests"];

const documented = Object.entries(
  (JSON.parse(readFileSync(new URL("../../docs/openapi.json", import.meta.url), "utf8")) as { paths: object }).paths,
);

/** Without what is of the moment. */
const settled = (text: string): string =>
  text.replaceAll(/"(?:generatedAt|requestID)":"[^"]*"/g, "").replaceAll(/"(?:ageMs|now)":\d+/g, "");

const bytesOf = async (url: string): Promise<{ status: number; type: string | null; body: Buffer }> => {
  const response = await fetch(url);
  return {
    status: response.status,
    type: response.headers.get("content-type"),
    body: Buffer.from(await response.arrayBuffer()),
  };
};

test("every route that reads of a Task or a Mission is in the table", () => {
  const found = documented.flatMap(([path, methods]) =>
    /\{(?:taskID|missionID)\}/.test(path) && "get" in (methods as object) ? [path] : [],
  );
  expect(found.toSorted()).toEqual(Object.keys(reads).toSorted());
});

describe.skipIf(postgresURL === undefined)("a Task of another node", () => {
  test("is answered for by every node while its own is up; then with 503 and its name", {
    timeout: 120_000,
  }, async () => {
    await using here = await place();
    const directory = here.project("p");
    const a = await here.start("a", "a", { SERVICE_NODE_URL: "http://127.0.0.1:0" });
    await using b = await here.start("b");
    const taskID = await create(a, directory, change, { checks: ["grep -q two a.txt"] });
    expect((await ended(a, taskID)).body).toMatchObject({ lifecycleStatus: "completed" });
    await send(a, "POST", "/mission/wake", { directory, body: { missionID: "m", text: "say hello" } });
    await until(
      () => send(a, "GET", "/mission/m/status", { directory }),
      ({ body }) => body["status"] === "inactive" && body["agentStatus"] === "inactive",
    );
    const { events } = (await send(a, "GET", `/task/${taskID}/events?format=json&after=0`)).body as {
      events?: { type: string; data: { callID: string } }[];
    };
    const { body: status } = await send(a, "GET", `/task/${taskID}/status`);
    const ids: Ids = {
      taskID,
      missionID: "m",
      callID: events?.find(({ type }) => type === "tool.finished")?.data.callID ?? "",
      checkID: (status["checks"] as { id: string }[])[0]?.id ?? "",
      artifactID: "",
    };
    const urlOf = (path: string, more?: string): string => {
      const filled = path.replaceAll(/\{(\w+)\}/g, (_whole, name: keyof Ids) => ids[name]);
      const query = [`directory=${encodeURIComponent(directory)}`, ...(more === undefined ? [] : [more])].join("&");
      return `${filled}?${query}`;
    };
    const paths = [
      ...Object.entries(reads).flatMap(([path, how]) =>
        typeof how === "string" ? [] : [{ url: urlOf(path, how.more), files: how.files }],
      ),
      ...ofProject.map((path) => ({ url: urlOf(path), files: true })),
    ];
    for (const { url } of paths) {
      const [own, other] = [await bytesOf(a.url + url), await bytesOf(b.url + url)];
      expect([url, other.status, other.type]).toEqual([url, own.status, own.type]);
      if (own.type === "application/zip") expect([url, other.body.length]).toEqual([url, own.body.length]);
      else expect([url, settled(other.body.toString())]).toEqual([url, settled(own.body.toString())]);
      expect([url, own.status < 300 || url.includes("preview")]).toEqual([url, true]);
    }
    // With a body, and what it begins is there once.
    const reverted = await send(b, "POST", `/task/${taskID}/revert`, { directory, body: {} });
    expect(reverted).toMatchObject({ status: 202, body: { revertOf: taskID } });
    expect((await ended(b, String(reverted.body["taskID"]))).body).toMatchObject({ lifecycleStatus: "completed" });
    expect(git(directory, "show", "HEAD:a.txt").trim()).toBe("one");

    await a[Symbol.asyncDispose]();
    for (const { url, files } of paths) {
      const { status: code, body } = await bytesOf(b.url + url);
      if (files)
        expect([url, code, JSON.parse(body.toString())]).toMatchObject([
          url,
          503,
          { code: "node_away", details: { node: "a" } },
        ]);
      else expect([url, code]).toEqual([url, 200]);
    }
  });

  test("its listener takes no request that no node has signed, nor one twice; a node that has none is away", {
    timeout: 60_000,
  }, async () => {
    await using here = await place();
    const directory = here.project("p");
    await using a = await here.start("a", "a", { SERVICE_NODE_URL: "http://127.0.0.1:0" });
    await using b = await here.start("b");
    await using c = await here.start("c");
    const taskID = await create(a, directory, change);
    await ended(a, taskID);
    const { peerURL } = a;
    if (peerURL === undefined) throw new Error("Expected an address for other nodes.");
    for (const path of ["/health", `/task/${taskID}/diff`, "/nodes"])
      expect((await fetch(new URL(path, peerURL))).status).toBe(401);
    expect((await fetch(`${b.url}/task/${taskID}/diff`)).status).toBe(200);
    const client = new Client({ connectionString: here.env("a").SERVICE_DATABASE_URL });
    await client.connect();
    const { rows } = await client.query<{ key: string }>("select key from node_keys");
    await client.end();
    expect(rows).toHaveLength(1);
    const target = `/task/${taskID}/diff`;
    const about = { method: "GET", target, from: "b", to: "a", body: Buffer.alloc(0) };
    const header = sign(Buffer.from(rows[0]?.key ?? "", "hex"), about, new Date());
    const asNode = async () => (await fetch(new URL(target, peerURL), { headers: { [peerHeader]: header } })).status;
    expect([await asNode(), await asNode()]).toEqual([200, 401]);
    const other = here.project("q");
    const second = await create(c, other, change);
    await ended(c, second);
    expect(await send(b, "GET", `/task/${second}/diff`)).toMatchObject({
      status: 503,
      body: { code: "node_away", details: { node: "c" } },
    });
  });
});
if (postgresURL === undefined) countSkipped(2);
