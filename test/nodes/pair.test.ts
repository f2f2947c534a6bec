import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { nodes } from "../../src/cli/node.ts";
import { startProcess } from "../crash/process.ts";
import { night } from "../harness/night.ts";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { git, until } from "../harness/project.ts";
import { change, create, ended, place, send } from "./stage.ts";

/** Several services of one database, each with a data folder of its own. */

describe.skipIf(postgresURL === undefined)("two nodes", () => {
  test("each answers for all: what the other's Tasks did, said and kept; what only its files tell names it", {
    timeout: 90_000,
  }, async () => {
    await using here = await place();
    await using a = await here.start("a");
    // A directory of a's means nothing to b.
    mkdirSync(join(here.path, "elsewhere"));
    await using b = await here.start("b", "b", { SERVICE_PROJECT_ROOTS: join(here.path, "elsewhere") });
    const directory = here.project("p");
    const taskID = await create(a, directory, change, { checks: ["cat a.txt"], landing: "branch" });
    expect((await ended(b, taskID)).body).toMatchObject({ lifecycleStatus: "completed" });

    for (const [service, self] of [
      [a, "a"],
      [b, "b"],
    ] as const)
      expect((await send(service, "GET", "/nodes")).body).toMatchObject({
        self,
        nodes: [
          { name: "a", state: "up", version: service.version },
          { name: "b", state: "up" },
        ],
      });
    for (const path of ["status", "board", "messages", "events?format=json"]) {
      const [own, other] = [
        await send(a, "GET", `/task/${taskID}/${path}`),
        await send(b, "GET", `/task/${taskID}/${path}`),
      ];
      expect([path, other.status]).toEqual([path, 200]);
      if (path !== "board") expect([path, other.body]).toEqual([path, own.body]);
    }
    const { body } = await send(a, "GET", `/task/${taskID}/status`);
    const [check] = body["checks"] as { id: string }[];
    expect((await send(b, "GET", `/task/${taskID}/checks/${check?.id}/log`)).text).toContain("two");

    expect((await send(a, "GET", `/task/${taskID}/diff`)).text).toContain("+two");
    const refused = await send(b, "GET", `/task/${taskID}/diff`);
    expect([refused.status, refused.text]).toEqual([503, expect.stringContaining('"node_away"') as string]);
    expect(refused.text).toContain('"node":"a"');

    // Steered from b by its path, it goes on at a.
    const message = { directory, body: { source: "test", text: "Replace `two` with `three` in a.txt" } };
    expect((await send(b, "POST", `/task/${taskID}/message`, message)).status).toBe(202);
    expect((await ended(b, taskID)).body).toMatchObject({ lifecycleStatus: "completed", attempt: 2 });
    expect(git(directory, "show", `sortie/${taskID}:a.txt`).trim()).toBe("three");
    const wrong = { ...message, directory: join(here.path, "other") };
    expect((await send(b, "POST", `/task/${taskID}/message`, wrong)).status).toBeGreaterThanOrEqual(400);

    // Deleted at b, nothing of it stays at a.
    const worktree = join(here.path, "a", "worktrees", taskID);
    expect(existsSync(worktree)).toBe(true);
    expect((await send(b, "DELETE", `/task/${taskID}`, { directory })).status).toBeLessThan(300);
    await until(
      async () => [existsSync(worktree), git(directory, "branch", "--list", "sortie/*").trim()],
      ([there, branches]) => there === false && branches === "",
    );
    expect((await send(a, "GET", `/task/${taskID}/status`)).status).toBe(404);
  });

  test("a running Task is cancelled from the other node; each runs its own", { timeout: 90_000 }, async () => {
    await using here = await place();
    await using a = await here.start("a");
    await using b = await here.start("b");
    const slow = here.project("slow", "sleep 60");
    const held = await create(a, slow, "run the tests and report");
    await until(
      () => send(b, "GET", `/task/${held}/events?format=json`),
      ({ text }) => text.includes('"tool.started"'),
    );
    const quick = await create(b, here.project("quick"), change);
    expect((await ended(a, quick)).body).toMatchObject({ lifecycleStatus: "completed" });
    const begun = performance.now();
    expect((await send(b, "POST", `/task/${held}/cancel`, { directory: slow, body: { mode: "stop" } })).status).toBe(
      202,
    );
    expect((await ended(b, held)).body).toMatchObject({ lifecycleStatus: "cancelled" });
    expect(performance.now() - begun).toBeLessThan(8_000);
  });

  test("a name that lives is refused, and a service alone beside others", {
    timeout: 90_000,
  }, async () => {
    await using here = await place();
    const alone = { SERVICE_ENGINE: "local" };
    const one = (code: number, text: RegExp) => ({ exitCode: code, message: expect.stringMatching(text) as string });
    {
      await using _a = await here.start("a");
      await expect(here.start("a", "other")).rejects.toMatchObject(one(75, /name a: process \d+ on .*SERVICE_NODE/));
      await expect(here.start(undefined, "sole", alone)).rejects.toMatchObject(
        one(75, /Other services share this database/),
      );
      await using _b = await here.start("b");
    }
    {
      await using _sole = await here.start(undefined, "sole", alone);
      await expect(here.start("a")).rejects.toMatchObject(one(75, /uses this database alone/));
    }
  });

  // By night: a node is lost after ten seconds.
  test.runIf(night)(
    "after kill -9 of one the other goes on and says whom its Tasks wait for; it comes back, and they go on",
    {
      timeout: 120_000,
    },
    async () => {
      await using here = await place();
      const env = (node: string) => ({
        ...here.env(node),
        SERVICE_DATA_DIR: join(here.path, node),
        HOME: here.path,
        SERVICE_PORT: "0",
      });
      await using b = await here.start("b");
      // The first time it takes longer than its node lives.
      const directory = here.project("p", "test -e .again || { touch .again; sleep 100; }");
      const first = await startProcess(env("a"));
      const taskID = await create(first, directory, "run the tests and report");
      await until(
        async () => existsSync(join(here.path, "a", "worktrees", taskID, ".again")),
        (begun) => begun,
      );
      const away = here.project("r", "touch .begun; sleep 100");
      const dropped = await create(first, away, "run the tests and report");
      const files = join(here.path, "a", "worktrees", dropped);
      await until(
        async () => existsSync(join(files, ".begun")),
        (begun) => begun,
      );
      await first.kill("SIGKILL");
      const drop = () => send(b, "POST", `/task/${dropped}/cancel`, { directory: away });
      // Control: it may come back yet.
      expect(await drop()).toMatchObject({ status: 202, body: { lifecycleStatus: "active" } });
      const { body } = await until(
        () => send(b, "GET", `/task/${taskID}/status`),
        ({ body: now }) => JSON.stringify(now["queue"]).includes("waits for the node a"),
      );
      expect(body).toMatchObject({ lifecycleStatus: "active", phase: "queued", now: { kind: "queue" } });
      expect((await send(b, "GET", "/nodes")).body).toMatchObject({
        nodes: [{ name: "a", state: "lost" }, { name: "b" }],
      });
      // Nobody else could end it: it is cancelled from here, and can be deleted.
      const { body: nodes } = await send(b, "GET", "/nodes");
      const [{ seenAt }] = nodes["nodes"] as [{ seenAt: string }];
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, Date.parse(seenAt) + 10_500 - Date.now())));
      expect(await drop()).toMatchObject({ status: 200, body: { lifecycleStatus: "cancelled" } });
      expect((await send(b, "DELETE", `/task/${dropped}`, { directory: away })).status).toBe(200);
      const other = await create(b, here.project("q"), change);
      expect((await ended(b, other)).body).toMatchObject({ lifecycleStatus: "completed" });
      await using _again = await startProcess(env("a"));
      expect((await ended(b, taskID)).body).toMatchObject({ lifecycleStatus: "completed" });
      await until(
        async () => existsSync(files) || existsSync(`${files}.json`),
        (there) => !there,
      );
      expect((await send(b, "GET", `/task/${dropped}/status`)).status).toBe(404);
    },
  );

  test.runIf(night)(
    "a node that is stopped past its lease and wakes does nothing twice; the other goes on meanwhile",
    { timeout: 120_000 },
    async () => {
      await using here = await place();
      await using b = await here.start("b");
      await using a = await startProcess({ ...here.env("a"), SERVICE_DATA_DIR: join(here.path, "a"), HOME: here.path });
      const directory = here.project("p");
      const begun = git(directory, "rev-parse", "HEAD").trim();
      const taskID = await create(a, directory, change, { checks: ["sleep 6", "grep two a.txt"] });
      await until(
        () => send(b, "GET", `/task/${taskID}/events?format=json`),
        ({ text }) => text.includes('"check.started"'),
      );
      a.child.kill("SIGSTOP");
      try {
        await until(
          () => send(b, "GET", `/task/${taskID}/status`),
          ({ text }) => text.includes("waits for the node a"),
          30_000,
        );
        const other = await create(b, here.project("q"), change);
        expect((await ended(b, other)).body).toMatchObject({ lifecycleStatus: "completed" });
      } finally {
        a.child.kill("SIGCONT");
      }
      expect((await ended(b, taskID)).body).toMatchObject({ lifecycleStatus: "completed" });
      const { body } = await send(b, "GET", `/task/${taskID}/events?format=json&limit=1000`);
      const types = (body["events"] as { type: string }[]).map(({ type }) => type);
      // Its claim was lost while it was stopped: another run ended the Task.
      expect(types.filter((type) => type === "run.started").length).toBeGreaterThan(1);
      for (const once of ["landing.started", "landing.finished", "task.settled"])
        expect([once, types.filter((type) => type === once).length]).toEqual([once, 1]);
      expect(git(directory, "log", "--format=%(trailers:key=Task,valueonly)", `${begun}..HEAD`).trim()).toBe(taskID);
      expect(git(directory, "rev-list", "--count", `${begun}..HEAD`).trim()).toBe("1");
      expect([git(directory, "status", "--porcelain"), git(directory, "fsck", "--strict").trim()]).toEqual(["", ""]);
    },
  );

  test("sortie nodes and the figures say how they are", { timeout: 90_000 }, async () => {
    await using here = await place();
    await using a = await here.start("a");
    await using _b = await here.start("b");
    const said: string[] = [];
    const screen = { say: (text: string) => void said.push(text) } as never;
    const target = {
      url: a.url,
      directory: here.path,
      repository: undefined,
      username: "service",
      password: undefined,
    };
    expect(await nodes({ target, screen, emit: undefined })).toBe(0);
    expect(said.join("\n")).toMatch(/^NODE +ROLE +STATE .*\na \* +all +up .*\nb +all +up /);
    const figures = await send(a, "GET", "/metrics");
    expect(figures.text).toContain('sortie_nodes{state="up"} 2');
    expect(figures.text).toContain('sortie_nodes{state="lost"} 0');
  });
});
if (postgresURL === undefined) countSkipped(6);
