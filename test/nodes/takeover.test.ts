import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startProcess } from "../crash/process.ts";
import { canServe } from "../harness/double/git-host.ts";
import { shell } from "../harness/double/hostile-text.ts";
import { type MockRequest, type MockTurn, textOf } from "../harness/double/mock-provider.ts";
import { night } from "../harness/night.ts";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { until } from "../harness/project.ts";
import { makeRemoteLab, type RemoteLab } from "../harness/remote-lab.ts";
import { startService } from "../harness/service.ts";
import { ended, place, send } from "./stage.ts";

/** A repository's Task whose node is gone: another one goes on with it, and nothing reaches the remote twice. */

type Place = Awaited<ReturnType<typeof place>>;

const gone = "The machine on which you worked is gone";
const isTold = ({ body }: MockRequest) => body.messages.some(({ content }) => textOf(content).includes(gone));

describe.skipIf(postgresURL === undefined || !canServe)("a node that is gone", () => {
  let lab: RemoteLab;
  let here: Place;
  /** What the agent is asked, and whether it has to wait for an answer to its second question. */
  const asked: MockRequest[] = [];
  let answer: (request: MockRequest) => MockTurn | Promise<MockTurn> = () => ({ text: "Done." });
  beforeAll(async () => {
    here = await place();
    lab = await makeRemoteLab("sortie-takeover-", (request) => {
      asked.push(request);
      return answer(request) as MockTurn;
    });
  });
  afterAll(async () => {
    await lab[Symbol.asyncDispose]();
    await here[Symbol.asyncDispose]();
  });

  const sql = (text: string) => here.sql(text);
  /** As if a node had been away for longer than its leases. */
  const age = (node: string) =>
    sql(`update nodes set seen = seen - 60000 where name = '${node}';
         update streams set lease_until = 0 where holder is not null and exists (
           select 1 from placements where placements.stream = streams.stream and node = '${node}')`);
  let count = 0;
  /** A repository of its own, and two nodes for it. */
  const begin = async () => {
    count += 1;
    const name = `r${count}`;
    const [first, second] = [`a${count}`, `b${count}`];
    lab.host.make(name, { "a.txt": "one\n" });
    asked.length = 0;
    // checkpoint.test.ts has what is kept between commits.
    const of = (node: string) => {
      const { folder, env } = lab.prepare(node, undefined, {}, { checkpointSeconds: 0 });
      return { folder, env: { ...here.env(node), ...env } };
    };
    const create = async (service: { url: string }, more: object) => {
      const { status, body, text } = await send(service, "POST", "/task", {
        body: {
          request: "add it",
          productPillar: "code",
          landing: "commit",
          repository: { url: lab.host.url(name), ref: "main" },
          ...more,
        },
      });
      expect([status, text]).toEqual([202, text]);
      return String(body["taskID"]);
    };
    return { name, first, second, of, create };
  };
  const eventsOf = async (service: { url: string }, taskID: string) => {
    const { body } = await send(service, "GET", `/task/${taskID}/events?format=json&limit=1000`);
    return body["events"] as { type: string; data: Record<string, unknown> }[];
  };
  const landed = (name: string): string[] =>
    lab.host
      .git(name, "log", "--format=%(trailers:key=Task,valueonly)", "main")
      .split("\n")
      .filter((line) => line !== "");

  test("what was not kept is done again, as its agent is told; what the first node had of it goes when it is back", {
    timeout: 60_000,
  }, async () => {
    const { name, first, second, of, create } = await begin();
    const held = Promise.withResolvers<MockTurn>();
    answer = (request) => {
      if (isTold(request)) {
        const last = request.body.messages.at(-1);
        return last?.role === "user" ? shell("echo new > new.txt") : { text: "Done.\n\nCommit: Add new.txt" };
      }
      return request.turn === 0 ? shell("echo new > new.txt") : held.promise;
    };
    const { folder, env } = of(first);
    const a = await startService(folder, env);
    const taskID = await create(a, { checks: ["grep new new.txt"] });
    await until(
      () => Promise.resolve(asked.length),
      (requests) => requests === 2,
    );
    await using b = await startService(of(second).folder, of(second).env);
    await a.close();
    held.resolve({ text: "Done." });
    await age(first);
    expect((await ended(b, taskID)).body).toMatchObject({ lifecycleStatus: "completed" });
    expect(lab.host.git(name, "show", "main:new.txt")).toBe("new");
    expect(landed(name)).toEqual([taskID]);
    const events = await eventsOf(b, taskID);
    expect(events.find(({ type }) => type === "workspace.moved")?.data).toEqual({
      from: first,
      to: second,
      commit: null,
      lost: 1,
    });
    const told =
      asked
        .find(isTold)
        ?.body.messages.map(({ content }) => textOf(content))
        .join("\n") ?? "";
    expect(told).toContain("shell {");
    expect(told).toContain("echo new > new.txt");
    // Its follow-up is the second node's, and the first one's files of it are of no use to anybody.
    const left = () => readdirSync(join(folder, "worktrees")).filter((file) => file.startsWith(taskID));
    expect(left()).toContain(taskID);
    await using _again = await startService(folder, env);
    await until(
      () => Promise.resolve(left()),
      (files) => files.length === 0,
      15_000,
    );
    expect(existsSync(join(of(second).folder, "worktrees", `${taskID}.json`))).toBe(true);
  });

  test("a node takes its own Task again, whose files it had removed for another one that died before it began", {
    timeout: 90_000,
  }, async () => {
    const { name, first, second, of, create } = await begin();
    const held = Promise.withResolvers<MockTurn>();
    answer = (request) => {
      if (isTold(request)) {
        const last = request.body.messages.at(-1);
        return last?.role === "user" ? shell("echo new > new.txt") : { text: "Done.\n\nCommit: Add new.txt" };
      }
      return request.turn === 0 ? shell("echo new > new.txt") : held.promise;
    };
    const { folder, env } = of(first);
    const a = await startService(folder, env);
    const taskID = await create(a, { checks: ["grep new new.txt"] });
    await until(
      () => Promise.resolve(asked.length),
      (requests) => requests === 2,
    );
    const b = await startService(of(second).folder, of(second).env);
    await send(b, "POST", `/node/${second}/drain`);
    await until(
      () => send(b, "GET", "/nodes"),
      ({ text }) => text.includes('"draining"'),
    );
    await a.close();
    held.resolve({ text: "Done." });
    // What the claim of the second one writes; it gets no further.
    await sql(`insert into leftovers (stream, node) values ('${taskID}', '${first}');
               update placements set node = '${second}' where stream = '${taskID}'`);
    await using again = await startService(folder, env);
    const left = () => readdirSync(join(folder, "worktrees")).filter((file) => file.startsWith(taskID));
    await until(
      () => Promise.resolve(left()),
      (files) => files.length === 0,
      15_000,
    );
    await b.close();
    await age(second);
    expect((await ended(again, taskID)).body).toMatchObject({ lifecycleStatus: "completed" });
    expect(landed(name)).toEqual([taskID]);
    const events = await eventsOf(again, taskID);
    expect(events.find(({ type }) => type === "workspace.moved")?.data).toEqual({
      from: first,
      to: first,
      commit: null,
      lost: 1,
    });
  });

  test.each([
    ["before it is sent", "landing.started"],
    ["when it has come through", "landing.finished"],
  ])(
    "a push that was begun is ended with the same commit: the node died %s",
    { timeout: 60_000 },
    async (_when, at) => {
      const { name, first, second, of, create } = await begin();
      answer = (request) =>
        request.turn === 0 ? shell("echo new > new.txt") : { text: "Done.\n\nCommit: Add new.txt" };
      const base = lab.host.git(name, "rev-parse", "main");
      let taskID = "";
      {
        await using a = await startProcess({ ...of(first).env, TEST_KILL_ON: at });
        taskID = await create(a, {});
        await a.gone;
      }
      const before = lab.host.git(name, "rev-parse", "main");
      // Control: it died where it was to die.
      expect(before === base).toBe(at === "landing.started");
      const requests = asked.length;
      await using b = await startService(of(second).folder, of(second).env);
      await age(first);
      expect((await ended(b, taskID)).body).toMatchObject({ lifecycleStatus: "completed" });
      const events = await eventsOf(b, taskID);
      const commit = events.find(({ type }) => type === "tree.committed")?.data["commit"];
      expect(lab.host.git(name, "rev-parse", "main")).toBe(commit);
      expect(lab.host.git(name, "rev-parse", "main^")).toBe(base);
      for (const once of ["tree.committed", "landing.started", "landing.finished"])
        expect([once, events.filter(({ type }) => type === once).length]).toEqual([once, 1]);
      // All of its work was kept: nothing is asked again.
      expect(asked.length).toBe(requests);
    },
  );

  test("a commit whose base the remote no longer has is not gone on from, and the agent is told where it is", {
    timeout: 60_000,
  }, async () => {
    const { name, first, second, of, create } = await begin();
    answer = (request) => {
      const last = request.body.messages.at(-1);
      return request.turn === 0 || (last?.role === "user" && textOf(last.content).includes(gone))
        ? shell("echo new > new.txt")
        : { text: "Done.\n\nCommit: Add new.txt" };
    };
    let taskID = "";
    {
      await using a = await startProcess({ ...of(first).env, TEST_KILL_ON: "check.started" });
      taskID = await create(a, { checks: ["grep new new.txt"] });
      await a.gone;
    }
    const person = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"];
    const anew = lab.host.git(name, ...person, "commit-tree", "main^{tree}", "-m", "Begun anew");
    lab.host.git(name, "update-ref", "refs/heads/main", anew);
    await using b = await startService(of(second).folder, of(second).env);
    await age(first);
    expect((await ended(b, taskID)).body).toMatchObject({ lifecycleStatus: "completed" });
    const events = await eventsOf(b, taskID);
    // Control: there was one.
    expect(events.filter(({ type }) => type === "checkpoint.kept").length).toBeGreaterThan(0);
    expect(events.find(({ type }) => type === "workspace.moved")?.data).toMatchObject({ commit: null, lost: 1 });
    const told =
      asked
        .find(isTold)
        ?.body.messages.map(({ content }) => textOf(content))
        .join("\n") ?? "";
    expect(told).toContain(`as the repository has them now (${anew.slice(0, 12)})`);
    expect(lab.host.git(name, "rev-parse", "main^")).toBe(anew);
    expect(lab.host.git(name, "show", "main:new.txt")).toBe("new");
  });

  test("one that drains hands its Task over while it is up, with all its files, which it then removes", {
    timeout: 60_000,
  }, async () => {
    const { name, first, second, of, create } = await begin();
    const held = Promise.withResolvers<MockTurn>();
    // Nothing is lost, so its agent is told nothing.
    answer = ({ turn }) =>
      turn === 0 ? shell("echo new > new.txt") : turn === 1 ? held.promise : { text: "Done.\n\nCommit: Add new.txt" };
    const { folder, env } = of(first);
    await using a = await startService(folder, env);
    const taskID = await create(a, {});
    await until(
      () => Promise.resolve(asked.length),
      (requests) => requests === 2,
    );
    await using b = await startService(of(second).folder, of(second).env);
    expect((await send(b, "POST", `/node/${first}/drain`)).status).toBe(202);
    await until(
      () => send(b, "GET", "/nodes"),
      ({ text }) => text.includes('"draining"'),
    );
    // Control: what the node still holds nobody takes.
    expect((await eventsOf(b, taskID)).filter(({ type }) => type === "run.started")).toHaveLength(1);
    held.resolve(shell("echo later > later.txt"));
    expect((await ended(b, taskID)).body).toMatchObject({ lifecycleStatus: "completed" });
    const moved = (await eventsOf(b, taskID)).find(({ type }) => type === "workspace.moved")?.data;
    expect(moved).toMatchObject({ from: first, to: second, lost: 0 });
    expect(lab.host.git(name, "show", "main:later.txt")).toBe("later");
    const left = () => readdirSync(join(folder, "worktrees")).filter((file) => file.startsWith(taskID));
    await until(
      () => Promise.resolve(left()),
      (files) => files.length === 0,
      15_000,
    );
  });

  test("a Task of a directory waits for its node all the same", { timeout: 60_000 }, async () => {
    const { first, second, of } = await begin();
    answer = () => ({ text: "Done.", latencyMs: 60_000 });
    const { folder, env } = of(first);
    const a = await startService(folder, env);
    const { body } = await send(a, "POST", "/task", {
      directory: here.project(`p${count}`),
      body: { request: "add it", productPillar: "code" },
    });
    const taskID = String(body["taskID"]);
    await until(
      () => Promise.resolve(asked.length),
      (requests) => requests === 1,
    );
    await using b = await startService(of(second).folder, of(second).env);
    await a.close();
    await age(first);
    const { body: status } = await until(
      () => send(b, "GET", `/task/${taskID}/status`),
      ({ text }) => text.includes(`waits for the node ${first}`),
    );
    expect(status).toMatchObject({ phase: "queued", queue: { reason: expect.stringContaining("start it again") } });
    // A whole look at what is due lies behind it.
    answer = () => ({ text: "Done." });
    const other = await send(b, "POST", "/task", {
      directory: here.project(`q${count}`),
      body: { request: "add it", productPillar: "code" },
    });
    await ended(b, String(other.body["taskID"]));
    expect((await eventsOf(b, taskID)).filter(({ type }) => type === "run.started")).toHaveLength(1);
  });

  /**
   * Stops a node while it waits for the model, until another one has asked, and lets the first one's answer come in.
   */
  const stopped = async (signal: "SIGKILL" | "SIGSTOP", wait: (node: string) => Promise<unknown>) => {
    const { name, first, second, of, create } = await begin();
    const held = Promise.withResolvers<MockTurn>();
    const end = Promise.withResolvers<MockTurn>();
    answer = (request) => {
      if (request.turn > 0) return { text: "Done." };
      return asked.length === 1 ? held.promise : end.promise;
    };
    const scope = new AsyncDisposableStack();
    const a = scope.use(await startProcess(of(first).env));
    const taskID = await create(a, { landing: "branch" });
    await until(
      () => Promise.resolve(asked.length),
      (requests) => requests === 1,
    );
    const b = scope.use(await startService(of(second).folder, of(second).env));
    scope.defer(() => void a.child.kill("SIGCONT"));
    const since = performance.now();
    a.child.kill(signal);
    await wait(first);
    await until(
      () => Promise.resolve(asked.length),
      (requests) => requests === 2,
      25_000,
    );
    const took = performance.now() - since;
    held.resolve({ text: "Of the first." });
    const repliesOfFirst = async () =>
      (await eventsOf(b, taskID)).filter(
        ({ type, data }) => type === "reply.finished" && JSON.stringify(data).includes("Of the first."),
      ).length;
    return {
      a,
      b,
      taskID,
      took,
      repliesOfFirst,
      /** Its run has ended, as it says itself. */
      rests: () =>
        until(
          () => send(a, "GET", "/nodes"),
          ({ body }) =>
            (body["nodes"] as { name: string; running: number; state: string }[]).some(
              (node) => node.name === first && node.running === 0 && node.state === "up",
            ),
          15_000,
        ),
      finish: async () => {
        end.resolve(shell("echo new > new.txt"));
        expect((await ended(b, taskID)).body).toMatchObject({ lifecycleStatus: "completed" });
      },
      commits: () => lab.host.git(name, "rev-list", "--count", `main..sortie/${taskID}`),
      [Symbol.asyncDispose]: () => scope.disposeAsync(),
    };
  };

  test("one that is stopped, and wakes with an answer when its claim is another one's, writes nothing", {
    timeout: 60_000,
  }, async () => {
    await using stop = await stopped("SIGSTOP", age);
    stop.a.child.kill("SIGCONT");
    await stop.rests();
    await stop.finish();
    expect([await stop.repliesOfFirst(), stop.commits()]).toEqual([0, "1"]);
  });

  test("control: without the fence it does", { timeout: 60_000 }, async () => {
    await using stop = await stopped("SIGSTOP", age);
    // The newest epoch is that of the second claim; between them was the end of the first one's lease.
    await sql(`update streams set epoch = epoch - 2 where stream = '${stop.taskID}'`);
    stop.a.child.kill("SIGCONT");
    expect(await until(stop.repliesOfFirst, (replies) => replies > 0)).toBe(1);
  });

  // By night: a lease is ten seconds.
  test.runIf(night).each(["SIGKILL", "SIGSTOP"] as const)(
    "%s: within fifteen seconds another one asks the model, and nothing is done twice",
    { timeout: 120_000 },
    async (signal) => {
      await using stop = await stopped(signal, () => Promise.resolve());
      console.log(`${signal}: ${Math.round(stop.took)} ms until the next request to the model`);
      expect(stop.took).toBeLessThan(15_000);
      if (signal === "SIGSTOP") {
        stop.a.child.kill("SIGCONT");
        await stop.rests();
      }
      await stop.finish();
      expect([await stop.repliesOfFirst(), stop.commits()]).toEqual([0, "1"]);
    },
  );
});
if (postgresURL === undefined) countSkipped(9);
