import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { canServe } from "../harness/double/git-host.ts";
import { shell } from "../harness/double/hostile-text.ts";
import { dispatch, finish, isMission, plan } from "../harness/double/missions.ts";
import type { MockRequest, MockTurn } from "../harness/double/mock-provider.ts";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { until } from "../harness/project.ts";
import { makeRemoteLab, type RemoteLab } from "../harness/remote-lab.ts";
import { startService } from "../harness/service.ts";
import { manifestOf, unpack, verified } from "../harness/zip-reader.ts";
import { ended, place, send } from "./stage.ts";

/**
 * What a node answers of a repository's Tasks that another one carried out: from the branch, or from the checkpoint.
 */

type Place = Awaited<ReturnType<typeof place>>;

describe.skipIf(postgresURL === undefined || !canServe)("a repository's Task of another node", () => {
  let lab: RemoteLab;
  let here: Place;
  let hold: Promise<MockTurn> | undefined;
  const reply = async (request: MockRequest): Promise<MockTurn> => {
    const large = request.first.includes("large");
    if (isMission(request)) {
      const said: MockTurn[] = [
        { calls: [plan("a")] },
        { calls: [dispatch("a", large ? "add it, large" : "add it", large ? { checks: ["false"] } : {})] },
        { calls: [finish()] },
        { text: "Nothing more." },
      ];
      return said[request.turn] ?? { text: "Nothing more." };
    }
    const told = request.turn > 0 && request.body.messages.at(-1)?.role === "user";
    if (told) return shell("echo new >> new.txt");
    // More than is kept of a commit for other nodes.
    if (request.turn === 0 && large) return shell("head -c 30000000 /dev/urandom > new.txt");
    if (request.turn === 0) return shell("echo new > new.txt; echo kept > shot.txt");
    if (request.turn === 1) return { calls: [{ tool: "artifact", input: { path: "shot.txt", title: "Shot" } }] };
    if (request.turn === 2) return shell("rm shot.txt");
    return hold ?? { text: "Done.\n\nCommit: Add new.txt" };
  };
  beforeAll(async () => {
    here = await place();
    lab = await makeRemoteLab("sortie-elsewhere-", (request) => reply(request) as unknown as MockTurn);
  });
  afterAll(async () => {
    await lab[Symbol.asyncDispose]();
    await here[Symbol.asyncDispose]();
  });

  const sql = (text: string) => here.sql(text);
  const start = (node: string) => {
    const { folder, env } = lab.prepare(node);
    return startService(folder, { ...here.env(node), ...env });
  };
  const create = async (service: { url: string }, repository: string, more: object = {}) => {
    const { status, body, text } = await send(service, "POST", "/task", {
      body: {
        request: "add it",
        productPillar: "code",
        landing: "branch",
        repository: { url: lab.host.url(repository), ref: "main" },
        checks: ["grep new new.txt"],
        ...more,
      },
    });
    expect([status, text]).toEqual([202, text]);
    return String(body["taskID"]);
  };
  /** The files of an archive that verifies. */
  const archiveOf = async (service: { url: string }, path: string) => {
    const response = await fetch(`${service.url}${path}`);
    const bytes = Buffer.from(await response.arrayBuffer());
    expect([response.status, response.headers.get("content-type")], String(bytes.subarray(0, 400))).toEqual([
      200,
      "application/zip",
    ]);
    const file = join(lab.root, "archive.zip");
    writeFileSync(file, bytes);
    expect((await verified(file)).code).toBe(0);
    return unpack(bytes);
  };
  const away = (node: string) => ({ status: 503, body: { code: "node_away", details: { node } } });

  test("is answered for while its node is gone: from the branch, and without the remote from the checkpoint", {
    timeout: 90_000,
  }, async () => {
    lab.host.make("one", { "a.txt": "one\n" });
    const a = await start("a1");
    const taskID = await create(a, "one");
    expect((await ended(a, taskID)).body).toMatchObject({ lifecycleStatus: "completed" });
    const directory =
      "directory=" + encodeURIComponent(String((await send(a, "GET", `/task/${taskID}`)).body["directory"]));
    const own = {
      diff: (await send(a, "GET", `/task/${taskID}/diff`)).text,
      archive: await archiveOf(a, `/task/${taskID}/project-archive?${directory}`),
    };
    expect(own.diff).toContain("+new");
    const texts = async (service: { url: string }) =>
      Promise.all(
        ["status", "messages", "events?format=json"].map(
          async (path) => (await send(service, "GET", `/task/${taskID}/${path}`)).text,
        ),
      );
    const [said, artifacts] = [await texts(a), (await send(a, "GET", `/task/${taskID}/board`)).body["artifacts"]];
    const [artifact] = artifacts as { artifactID: string }[];
    await a.close();

    await using b = await start("b1");
    expect(await texts(b)).toEqual(said);
    expect((await send(b, "GET", `/task/${taskID}/board`)).body["artifacts"]).toEqual(artifacts);
    expect((await send(b, "GET", `/task/${taskID}/artifacts/${artifact?.artifactID}`)).text).toBe("kept\n");
    // Whatever it asks of the remote, it may: the branch has the commit.
    expect((await send(b, "GET", `/task/${taskID}/diff`)).text).toBe(own.diff);
    const archive = await archiveOf(b, `/task/${taskID}/project-archive?${directory}`);
    expect(archive.get("project/new.txt")?.toString()).toBe("new\n");
    const { commit, source, ledger } = manifestOf(archive);
    expect({ commit, ledger }).toEqual({
      commit: manifestOf(own.archive).commit,
      ledger: manifestOf(own.archive).ledger,
    });
    expect(source).toBe("commit");
    // What only files tell, and nothing was kept of.
    expect(await send(b, "GET", `/task/${taskID}/preview?${directory}`)).toMatchObject(away("a1"));

    // The branch is gone, and then the remote: the checkpoint and what b has of the base are left.
    const c = await start("c1");
    const second = await create(c, "one");
    expect((await ended(c, second)).body).toMatchObject({ lifecycleStatus: "completed" });
    await sql(`update placements set node = 'c1' where stream = '${second}'`);
    const shown = (await send(c, "GET", `/task/${second}/diff`)).text;
    await c.close();
    lab.host.before = (_, outgoing) => (outgoing.writeHead(503).end(), true);
    expect((await send(b, "GET", `/task/${second}/diff`)).text).toBe(shown);
    // Control: without the checkpoint it is not there.
    lab.host.make("two", { "a.txt": "one\n" });
    lab.host.before = undefined;
    const d = await start("d1");
    await send(b, "POST", "/node/b1/drain");
    await until(
      () => send(b, "GET", "/nodes"),
      ({ text }) => text.includes('"draining"'),
    );
    const third = await create(d, "two");
    expect((await ended(d, third)).body).toMatchObject({ lifecycleStatus: "completed" });
    await d.close();
    lab.host.before = (_, outgoing) => (outgoing.writeHead(503).end(), true);
    expect(await send(b, "GET", `/task/${third}/diff`)).toMatchObject(away("d1"));
    expect(
      await send(
        b,
        "GET",
        `/task/${third}/project-archive?directory=${encodeURIComponent(String((await send(b, "GET", `/task/${third}`)).body["directory"]))}`,
      ),
    ).toMatchObject(away("d1"));
    lab.host.before = undefined;
    expect((await send(b, "GET", `/task/${third}/diff`)).text).toContain("+new");
  });

  test("before anything is committed its node alone can show the change", { timeout: 60_000 }, async () => {
    lab.host.make("three", { "a.txt": "one\n" });
    const held = Promise.withResolvers<MockTurn>();
    hold = held.promise;
    const a = await start("a2");
    const taskID = await create(a, "three");
    await until(
      () => send(a, "GET", `/task/${taskID}/diff`),
      ({ text }) => text.includes("+new"),
    );
    await a.close();
    await using b = await start("b2");
    expect(await send(b, "GET", `/task/${taskID}/diff`)).toMatchObject(away("a2"));
    hold = undefined;
    held.resolve({ text: "Done." });
    await sql("update nodes set seen = seen - 60000 where name = 'a2'");
    expect((await ended(b, taskID)).body).toMatchObject({ lifecycleStatus: "completed" });
    expect((await send(b, "GET", `/task/${taskID}/diff`)).text).toContain("+new");
  });

  test("a Task that is ended before its run has the files here is shown as it was kept", {
    timeout: 60_000,
  }, async () => {
    lab.host.make("taken", { "a.txt": "one\n" });
    const held = Promise.withResolvers<MockTurn>();
    hold = held.promise;
    const a = await start("a6");
    const taskID = await create(a, "taken");
    await until(
      () => send(a, "GET", `/task/${taskID}/diff`),
      ({ text }) => text.includes("+new"),
    );
    await a.close();
    await using b = await start("b6");
    await sql("update nodes set seen = seen - 60000 where name = 'a6'");
    const asked = { surface: "test", reason: "enough" };
    await until(
      () => send(b, "POST", `/task/${taskID}/cancel`, { body: asked }),
      ({ status }) => status < 300,
    );
    hold = undefined;
    held.resolve({ text: "Done." });
    expect((await ended(b, taskID)).body).toMatchObject({ lifecycleStatus: "cancelled" });
    // Nothing was kept of it.
    expect(await send(b, "GET", `/task/${taskID}/diff`)).toMatchObject({ status: 200, text: "" });
    const { directory } = (await send(b, "GET", `/task/${taskID}`)).body;
    const path = `/task/${taskID}/project-archive?directory=${encodeURIComponent(String(directory))}`;
    expect((await archiveOf(b, path)).get("project/a.txt")?.toString()).toBe("one\n");
  });

  /** A Mission whose one Task is another node's, and waits for the agent's last words. */
  const missionOf = async (repository: string, [first, second]: readonly [string, string], text: string) => {
    lab.host.make(repository, { "a.txt": "one\n" });
    const url = lab.host.url(repository);
    const held = Promise.withResolvers<MockTurn>();
    const isFirst = text === "Lead it.";
    hold = isFirst ? held.promise : undefined;
    const a = await start(first);
    const woken = await send(a, "POST", "/mission/wake", {
      body: { missionID: repository, text, checks: [], repository: { url } },
    });
    const at = `repository=${encodeURIComponent(url)}`;
    const { body } = await until(
      () => send(a, "GET", `/mission/${repository}/status?${at}`),
      ({ body: now }) => (now["tasks"] as object[]).length === 1 && now["agentStatus"] === "inactive",
    );
    const [task] = body["tasks"] as { taskID: string }[];
    // The Mission is the second node's from here on, the Task stays the first one's.
    const b = await start(second);
    await sql(`update placements set node = '${second}' where stream = '${String(woken.body["sessionID"])}'`);
    return {
      a,
      b,
      held,
      at,
      taskID: task?.taskID ?? "",
      finished: () =>
        until(
          () => send(b, "GET", `/mission/${repository}/status?${at}`),
          ({ body: now }) => now["finished"] !== null,
        ),
    };
  };

  test("a Mission goes on from Tasks that another node carried out, and its archive is there", {
    timeout: 60_000,
  }, async () => {
    const { a, b, held, at, taskID, finished } = await missionOf("m1", ["a3", "b3"], "Lead it.");
    await using _b = b;
    hold = undefined;
    held.resolve({ text: "Done.\n\nCommit: Add new.txt" });
    expect((await finished()).body).toMatchObject({ outcome: "done", plan: [{ state: "done", taskID }] });
    const { text } = await send(b, "GET", "/mission/m1/events?format=json&limit=1000");
    expect(text).toContain('"path":"new.txt"');
    await a.close();
    const archive = await archiveOf(b, `/mission/m1/project-archive?${at}`);
    expect(archive.get("project/new.txt")?.toString()).toBe("new\n");
  });

  test("a Mission goes on from a Task whose change its node alone has", { timeout: 60_000 }, async () => {
    const { a, b, taskID } = await missionOf("m2", ["a4", "b4"], "Lead it, it is large.");
    await using _a = a;
    await using _b = b;
    const { body } = await send(b, "GET", `/task/${taskID}`);
    const events = async () => (await send(b, "GET", `/task/${taskID}/events?format=json&limit=1000`)).text;
    // Committed, and neither kept nor pushed.
    await until(events, (text) => text.includes('"check.finished"'));
    const directory = String(body["directory"]);
    await send(b, "POST", `/task/${taskID}/cancel`, { directory, body: { mode: "stop" } });
    const { text } = await until(
      () => send(b, "GET", "/mission/m2/events?format=json&limit=1000"),
      ({ text: log }) => log.includes('"task.ended"'),
    );
    expect(text).toContain('"lifecycleStatus":"cancelled"');
    // Control: the diff that it looks for is not to be had here.
    expect(await send(b, "GET", `/task/${taskID}/diff`)).toMatchObject(away("a4"));
  });
});
if (postgresURL === undefined) countSkipped(4);
