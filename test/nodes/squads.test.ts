import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { textsOf, writePackage, zipOf } from "../harness/double/squads.ts";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { until } from "../harness/project.ts";
import { change, create, ended, place, send } from "./stage.ts";

/** The packages for every project are the same on all nodes, however they came there. */

describe.skipIf(postgresURL === undefined)("squads of nodes", () => {
  test("what is installed, upgraded or removed on one node is so on all; of two upgrades at once one is refused", {
    timeout: 120_000,
  }, async () => {
    await using here = await place();
    const directory = here.project("p");
    const install = async (node: { url: string }, version: string, expectedDigest?: string) => {
      const zip = (await zipOf(textsOf({}, { id: "ours", version }))).toString("base64");
      return send(node, "POST", "/squad/install", {
        body: { zip, scope: "user", ...(expectedDigest === undefined ? {} : { expectedDigest }) },
      });
    };
    const digestOf = ({ body }: { body: Record<string, unknown> }) => (body["squad"] as { digest: string }).digest;
    const seen = async (node: { url: string }) =>
      ((await send(node, "GET", "/squads")).body["squads"] as { id: string; version: string; scope: string }[])
        .filter(({ scope }) => scope === "user")
        .map(({ id, version }) => `${id} ${version}`);
    const file = (node: string) => join(here.path, node, "squads/ours/squad.json");

    await using a = await here.start("a");
    let first: string;
    {
      await using b = await here.start("b");
      expect(await seen(b)).toEqual([]);
      const installed = await install(a, "1.0.0");
      expect(installed.status, installed.text).toBe(200);
      first = digestOf(installed);
      // At once, for who is sent to another node by a proxy.
      const taskID = await create(b, directory, change, { promptProfile: "ours" });
      expect((await ended(b, taskID)).body).toMatchObject({ squad: { id: "ours", version: "1.0.0", scope: "user" } });
      expect(await seen(b)).toEqual(["ours 1.0.0"]);
      expect(existsSync(file("b"))).toBe(true);
      expect((await send(b, "GET", "/squad/ours")).status).toBe(200);

      const both = await Promise.all([install(a, "2.0.0", first), install(b, "2.1.0", first)]);
      expect(both.map(({ status }) => status).toSorted((one, next) => one - next)).toEqual([200, 409]);
      expect(both.find(({ status }) => status === 409)?.body).toMatchObject({ code: "squad_changed" });
      const won = both[0]?.status === 200 ? "ours 2.0.0" : "ours 2.1.0";
      expect([await seen(a), await seen(b)]).toEqual([[won], [won]]);
      // Without being asked, too.
      await until(
        () => Promise.resolve([file("a"), file("b")].map((path) => readFileSync(path, "utf8"))),
        ([one, other]) => one === other,
      );
      // The nodes do not differ, and what was accepted before is taken all the same.
      const { nodes } = (await send(a, "GET", "/nodes")).body as { nodes: { differs: string[] }[] };
      expect(nodes.map(({ differs }) => differs)).toEqual([[], []]);

      expect((await send(b, "DELETE", "/squad/ours")).status).toBe(200);
      expect([await seen(a), await seen(b)]).toEqual([[], []]);
      expect([file("a"), file("b")].map((path) => existsSync(path))).toEqual([false, false]);
      expect((await send(a, "DELETE", "/squad/ours")).status).toBe(404);
    }
    // Who was away meanwhile, and who comes new.
    expect((await install(a, "3.0.0")).status).toBe(200);
    await using b = await here.start("b");
    await using c = await here.start("c");
    expect([file("b"), file("c")].map((path) => existsSync(path))).toEqual([true, true]);
    expect([await seen(b), await seen(c)]).toEqual([["ours 3.0.0"], ["ours 3.0.0"]]);
  });

  test("what somebody copied into a folder is shared; what was changed on two nodes is left as it is and named", {
    timeout: 120_000,
  }, async () => {
    await using here = await place();
    const folderOf = (node: string) => join(here.path, node, "squads/ours");
    const readme = (node: string) => join(folderOf(node), "README.md");
    const read = (node: string) => (existsSync(readme(node)) ? readFileSync(readme(node), "utf8") : undefined);
    const reads = (node: string, text: string | undefined) =>
      until(
        () => Promise.resolve(read(node)),
        (found) => found === text,
      );
    writePackage(folderOf("a"), textsOf({ "README.md": "one" }, { id: "ours" }));
    {
      await using _a = await here.start("a");
      await using _b = await here.start("b");
      await reads("b", "one");
      writeFileSync(readme("b"), "two");
      await reads("a", "two");
      // Removed by hand it comes back; only the service removes it from all.
      rmSync(folderOf("a"), { recursive: true });
      await reads("a", "two");
      // A broken one is nobody's, and mended it is everybody's.
      writeFileSync(join(folderOf("a"), "squad.json"), "{");
      writeFileSync(readme("b"), "three");
      await new Promise((resolve) => setTimeout(resolve, 2_500));
      expect(read("a")).toBe("two");
      writePackage(folderOf("a"), textsOf({ "README.md": "two" }, { id: "ours" }));
      await reads("a", "three");
    }
    writeFileSync(readme("a"), "of a");
    writeFileSync(readme("b"), "of b");
    await using a = await here.start("a");
    await using b = await here.start("b");
    const differs = async (node: { url: string }) =>
      ((await send(node, "GET", "/nodes")).body as { nodes: { name: string; differs: string[] }[] }).nodes.map(
        (one) => `${one.name} ${one.differs.join()}`,
      );
    await until(
      () => differs(a),
      (found) => found.join("; ") === "a ; b squads",
    );
    expect([read("a"), read("b")]).toEqual(["of a", "of b"]);
    // The remedy that the log names.
    rmSync(folderOf("b"), { recursive: true });
    await reads("b", "of a");
    await until(
      () => differs(b),
      (found) => found.join("; ") === "a ; b ",
    );
  });
});
if (postgresURL === undefined) countSkipped(2);
