import { Client } from "pg";
import { describe, expect, test } from "vitest";
import { peerHeader, sign } from "../../src/http/peer/signature.ts";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { until } from "../harness/project.ts";
import { change, create, ended, place, send } from "./stage.ts";

/** The listener of a node for the others: whose requests it takes, and what becomes of long bodies. */

describe.skipIf(postgresURL === undefined)("a node's listener for others", () => {
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
    // What was signed is the body, too.
    const wake = { missionID: "m", text: "say hello", checks: [] };
    const sent = JSON.stringify(wake);
    const woken = async (body: string) => {
      const to = `/mission/wake?directory=${encodeURIComponent(directory)}`;
      const signed = sign(
        Buffer.from(rows[0]?.key ?? "", "hex"),
        { method: "POST", target: to, from: "b", to: "a", body: Buffer.from(sent) },
        new Date(),
      );
      const headers = { "content-type": "application/json", [peerHeader]: signed };
      return (await fetch(new URL(to, peerURL), { method: "POST", headers, body })).status;
    };
    expect([await woken(JSON.stringify({ ...wake, text: "say halli" })), await woken(""), await woken(sent)]).toEqual([
      401, 401, 200,
    ]);
    const other = here.project("q");
    const second = await create(c, other, change);
    await ended(c, second);
    expect(await send(b, "GET", `/task/${second}/diff`)).toMatchObject({
      status: 503,
      body: { code: "node_away", details: { node: "c" } },
    });
  });

  test("a long body comes through as at the node itself; so does whose directory is meant, where two have it", {
    timeout: 60_000,
  }, async () => {
    await using here = await place();
    const directory = here.project("p");
    await using a = await here.start("a", "a", { SERVICE_NODE_URL: "http://127.0.0.1:0" });
    await using b = await here.start("b");
    await using c = await here.start("c", "c", { SERVICE_NODE_URL: "http://127.0.0.1:0" });
    await ended(a, await create(a, directory, change));
    // No pull request can be opened there, which only the node that has the directory can tell.
    const attachment = {
      filename: "x.txt",
      mediaType: "text/plain",
      data: Buffer.alloc(3_000_000, "x").toString("base64"),
    };
    const body = { request: "x", productPillar: "code", landing: "pull-request", attachments: [attachment] };
    const [own, other] = [
      await send(a, "POST", "/task", { directory, body }),
      await send(b, "POST", "/task", { directory, body }),
    ];
    expect([own.status, own.body["code"]]).toEqual([400, "invalid_request"]);
    expect([other.status, other.body["message"]]).toEqual([400, own.body["message"]]);

    const at = (service: { url: string }, node?: string) =>
      fetch(`${service.url}/project?directory=${encodeURIComponent(directory)}`, {
        headers: node === undefined ? {} : { "x-service-node": node },
      });
    const chosen = await fetch(`${c.url}/task?directory=${encodeURIComponent(directory)}`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-service-node": "c" },
      body: JSON.stringify({ request: "Say hello", productPillar: "code" }),
    });
    expect([chosen.status, (await at(b)).status]).toEqual([202, 400]);
    // A node's address comes with its next sign of life.
    for (const node of ["a", "c"])
      await until(
        async () => (await at(b, node)).status,
        (status) => status === 200,
        5_000,
      );
  });
});
if (postgresURL === undefined) countSkipped(2);
