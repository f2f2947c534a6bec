import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startProcess } from "../crash/process.ts";
import { canServe } from "../harness/double/git-host.ts";
import { shell } from "../harness/double/hostile-text.ts";
import { teamOf } from "../harness/double/squads.ts";
import { type MockRequest, type MockTurn, textOf } from "../harness/double/mock-provider.ts";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { until } from "../harness/project.ts";
import { makeRemoteLab, type RemoteLab } from "../harness/remote-lab.ts";
import { startService } from "../harness/service.ts";
import { ended, place, send } from "./stage.ts";

/** What another node has of a repository's Task whose node is killed while its agent works: the files, up to a call. */

const gone = "The machine on which you worked is gone";
const wordsOf = ({ body }: MockRequest): string => body.messages.map(({ content }) => textOf(content)).join("\n");

describe.skipIf(postgresURL === undefined || !canServe)("the files of a Task under way", () => {
  let lab: RemoteLab;
  let here: Awaited<ReturnType<typeof place>>;
  const asked: MockRequest[] = [];
  let answer: (request: MockRequest) => MockTurn | Promise<MockTurn> = () => ({ text: "Done." });
  beforeAll(async () => {
    here = await place();
    lab = await makeRemoteLab("sortie-kept-", (request) => {
      asked.push(request);
      return answer(request) as MockTurn;
    });
  });
  afterAll(async () => {
    await lab[Symbol.asyncDispose]();
    await here[Symbol.asyncDispose]();
  });

  const eventsOf = async (service: { url: string }, taskID: string) => {
    const { body } = await send(service, "GET", `/task/${taskID}/events?format=json&limit=1000`);
    return body["events"] as { type: string; version: number; data: Record<string, unknown> }[];
  };
  const keptIn = async (service: { url: string }, taskID: string) =>
    (await eventsOf(service, taskID)).filter(({ type }) => type === "checkpoint.kept");

  const begin = async (service: { url: string }, name: string, more: object): Promise<string> => {
    const repository = { url: lab.host.url(name), ref: "main" };
    const body = { productPillar: "code", repository, ...more };
    const answer = await send(service, "POST", "/task", { body });
    expect([answer.status, answer.text]).toEqual([202, answer.text]);
    return String(answer.body["taskID"]);
  };

  const isGone = (node: string) =>
    here.sql(`update nodes set seen = seen - 60000 where name = '${node}';
         update streams set lease_until = 0 where holder is not null and exists (
           select 1 from placements where placements.stream = streams.stream and node = '${node}')`);

  const changes = "echo new > new.txt; echo two > a.txt; mkdir -p out; echo built > out/built.txt";
  let count = 0;

  /**
   * A node whose agent changes files in two turns, the second when `hold` lets it; then it is killed, or has been told
   * to drain before the second, and another node goes on.
   */
  const left = async (
    limits: object,
    hold: (service: { url: string }, taskID: string) => Promise<unknown>,
    how: "killed" | "drained" = "killed",
    later: (service: { url: string }, taskID: string) => Promise<unknown> = () => Promise.resolve(),
  ) => {
    count += 1;
    const name = `r${count}`;
    const [first, second] = [`a${count}`, `b${count}`];
    lab.host.make(name, { "a.txt": "one\n", ".gitignore": "out/\n" });
    asked.length = 0;
    const may = Promise.withResolvers<void>();
    const never = Promise.withResolvers<MockTurn>();
    let dead = false;
    answer = async (request) => {
      if (!wordsOf(request).includes(gone)) {
        if (request.turn === 0) return shell(changes);
        if (request.turn === 1) return may.promise.then(() => shell("echo later > later.txt"));
        return how === "killed" && !dead ? never.promise : { text: "Done.\n\nCommit: Add files" };
      }
      return request.body.messages.at(-1)?.role === "user"
        ? shell("cat a.txt new.txt; ls out later.txt; git status --porcelain; echo after > after.txt")
        : { text: "Done.\n\nCommit: Add files" };
    };
    const of = (node: string) => ({ ...here.env(node), ...lab.prepare(node, undefined, {}, limits).env });
    let taskID = "";
    {
      await using a = await startProcess(of(first));
      taskID = await begin(a, name, { request: "add it", landing: "commit" });
      const requests = (wanted: number) =>
        until(
          () => Promise.resolve(asked.length),
          (now) => now === wanted,
        );
      await requests(2);
      await hold(a, taskID);
      if (how === "killed") {
        may.resolve();
        await requests(3);
        await later(a, taskID);
        await a.kill("SIGKILL");
      } else {
        await send(a, "POST", `/node/${first}/drain`);
        may.resolve();
        await until(
          () => send(a, "GET", "/nodes"),
          ({ body }) =>
            (body["nodes"] as { name: string; running: number; state: string }[]).some(
              (node) => node.name === first && node.state === "draining" && node.running === 0,
            ),
        );
        await a.kill("SIGKILL");
      }
    }
    dead = true;
    const { folder } = lab.prepare(second, undefined, {}, limits);
    await using b = await startService(folder, of(second));
    await isGone(first);
    expect((await ended(b, taskID)).body).toMatchObject({ lifecycleStatus: "completed" });
    never.resolve({ text: "" });
    const events = await eventsOf(b, taskID);
    const told = asked.find((request) => wordsOf(request).includes(gone));
    return {
      events,
      told: told === undefined ? "" : wordsOf(told).slice(wordsOf(told).indexOf(gone)),
      saw: wordsOf(asked.at(-1) as MockRequest),
      landed: lab.host.git(name, "ls-tree", "-r", "--name-only", "main").split("\n"),
      moved: events.find(({ type }) => type === "workspace.moved")?.data,
      git: (...args: string[]) => lab.host.git(name, ...args),
    };
  };

  test("outlive it up to the last that was kept; the agent is told of the calls after that alone", {
    timeout: 90_000,
  }, async () => {
    const { events, told, saw, landed, moved, git } = await left({}, (a, taskID) =>
      until(
        () => keptIn(a, taskID),
        (kept) => kept.length === 1,
      ),
    );
    const kept = events.find(({ type }) => type === "checkpoint.kept");
    expect(moved).toMatchObject({ commit: kept?.data["commit"], lost: 1 });
    expect(told).toContain("as they were kept while you worked");
    expect(told).toContain("echo later");
    expect(told).not.toContain("echo new");
    // Tracked and untracked ones, not ignored ones, and as changes that nobody has committed.
    expect(saw).toContain("two\nnew");
    expect(saw).toContain("cannot access 'out'");
    expect(saw).toContain("cannot access 'later.txt'");
    expect(saw).toContain("M  a.txt\nA  new.txt");
    expect(landed).toEqual([".gitignore", "a.txt", "after.txt", "new.txt"]);
    expect(git("rev-list", "--count", "main")).toBe("2");
  });

  test("outlive one that drains with all that its agent did until then", { timeout: 90_000 }, async () => {
    const hold = (a: { url: string }, taskID: string) =>
      until(
        () => keptIn(a, taskID),
        (kept) => kept.length === 1,
      );
    const { events, moved, landed } = await left({}, hold, "drained");
    const kept = events.filter(({ type }) => type === "checkpoint.kept");
    expect(moved).toMatchObject({ commit: kept[1]?.data["commit"], lost: 0 });
    expect(landed).toContain("later.txt");
  });

  test("outlive it where the branch was begun anew meanwhile: what it no longer has is kept, too", {
    timeout: 90_000,
  }, async () => {
    const kept = (count: number) => (a: { url: string }, taskID: string) =>
      until(
        () => keptIn(a, taskID),
        (events) => events.length === count,
      );
    const { events, moved, landed, git } = await left(
      { checkpointSeconds: 1 },
      async (a, taskID) => {
        await kept(1)(a, taskID);
        const name = `r${count}`;
        lab.host.git(name, "update-ref", "refs/heads/main", anewIn(name));
        // Another Task's node asks the remote what it has now.
        answer = (
          (before) => (request: MockRequest) =>
            wordsOf(request).includes("nothing to do") ? { text: "Done." } : before(request)
        )(answer);
        await ended(a, await begin(a, name, { request: "nothing to do" }));
        asked.splice(2);
      },
      "killed",
      kept(2),
    );
    const last = events.findLast(({ type, data }) => type === "checkpoint.kept" && "upTo" in data);
    expect(last?.data).toMatchObject({ whole: true });
    expect(moved).toMatchObject({ commit: last?.data["commit"], lost: 0 });
    expect(landed).toEqual([".gitignore", "a.txt", "later.txt", "new.txt", "other.txt"]);
    expect(git("rev-list", "--count", "main")).toBe("2");
  });

  /** A commit without a parent that has another file, and what was there. */
  const anewIn = (name: string): string => {
    const tree = lab.host.git(name, "ls-tree", "main");
    const blob = lab.host.git(name, "rev-parse", "main:a.txt");
    const file = join(lab.root, `${name}.tree`);
    writeFileSync(file, `${tree}\n100644 blob ${blob}\tother.txt\n`);
    const made = execFileSync("git", ["-C", join(lab.root, "host", `${name}.git`), "mktree"], {
      input: readFileSync(file),
    });
    return lab.host.git(name, "commit-tree", "-m", "Anew", made.toString().trim());
  };

  /**
   * A node whose agent has given work to others, the first of whom makes one more call than is kept; then it is killed.
   */
  const delegated = async (names: readonly string[], isKept: (data: Record<string, unknown>) => boolean) => {
    count += 1;
    const name = `r${count}`;
    const [first, second] = [`a${count}`, `b${count}`];
    const team = teamOf("team", {
      orchestrator: ["read, delegate", "delegates: [builder]"],
      builder: ["read, shell"],
    });
    lab.host.make(
      name,
      Object.fromEntries([
        ["a.txt", "one\n"],
        ...Object.entries(team).map(([at, text]) => [`.sortie/squads/${at}`, text]),
      ]),
    );
    const limits = { checkpointSeconds: 1 };
    const of = (node: string) => ({ ...here.env(node), ...lab.prepare(node, undefined, {}, limits).env });
    const may = Promise.withResolvers<void>();
    const never = Promise.withResolvers<MockTurn>();
    const later = Promise.withResolvers<void>();
    let killed = false;
    const told = new Map<string, string>();
    answer = (request) => {
      const text = wordsOf(request);
      const newest = textOf(request.body.messages.at(-1)?.content);
      if (!text.includes("You are the builder."))
        return request.turn === 0
          ? {
              calls: names.map((what) => ({
                tool: "delegate",
                input: { agent: "builder", brief: `Build ${what}` },
              })),
            }
          : { text: "Both are there.\n\nCommit: Add both" };
      const what = text.includes("Build one") ? "one" : "two";
      if (newest.includes(gone)) {
        told.set(what, newest);
        return shell(`ls; git status --porcelain; echo after > ${what}-after.txt`);
      }
      if (killed) return { text: `Built ${what}.` };
      if (request.turn === 0) return shell(`echo ${what} > ${what}.txt`);
      if (what === "one" && request.turn === 1) return may.promise.then(() => shell("echo late > late.txt"));
      if (what === "one") later.resolve();
      return never.promise;
    };
    let taskID = "";
    {
      await using a = await startProcess(of(first));
      taskID = await begin(a, name, { request: "build both", promptProfile: "team", landing: "commit" });
      // As they were after their first call.
      await until(
        () => keptIn(a, taskID),
        (kept) => isKept(kept.at(-1)?.data ?? {}),
      );
      // What comes now comes too late for the next one.
      may.resolve();
      await later.promise;
      await a.kill("SIGKILL");
    }
    killed = true;
    const { folder } = lab.prepare(second, undefined, {}, limits);
    await using b = await startService(folder, of(second));
    await isGone(first);
    expect((await ended(b, taskID)).body).toMatchObject({ lifecycleStatus: "completed" });
    never.resolve({ text: "" });
    const events = await eventsOf(b, taskID);
    expect(events.filter(({ type }) => type === "session.started")).toHaveLength(names.length);
    expect(events.flatMap(({ type, data }) => (type === "session.ended" ? [data["outcome"]] : []))).toEqual(
      names.map(() => "finished"),
    );
    return {
      moved: events.find(({ type }) => type === "workspace.moved")?.data,
      told,
      landed: lab.host.git(name, "ls-tree", "--name-only", "main").split("\n"),
    };
  };

  test("of agents that work in their own outlive it, too, and each is told of its own later calls", {
    timeout: 90_000,
  }, async () => {
    const isKept = (data: Record<string, unknown>) => (data["forks"] as object[] | undefined)?.length === 2;
    const { moved, told, landed } = await delegated(["one", "two"], isKept);
    expect(moved?.["forks"]).toHaveLength(2);
    expect([...told.keys()]).toEqual(["one"]);
    expect(told.get("one")).toContain("as they were kept while you worked");
    expect(told.get("one")).toContain("echo late");
    expect(told.get("one")).not.toContain("echo one");
    expect(landed).toEqual([".sortie", "a.txt", "one-after.txt", "one.txt", "two.txt"]);
  });

  test("whoever was given work in the Task's own files is told itself", { timeout: 90_000 }, async () => {
    const { moved, told, landed } = await delegated(["one"], ({ upTo }) => upTo !== undefined);
    expect(moved).toMatchObject({ lost: 1 });
    expect(moved).not.toHaveProperty("forks");
    expect(told.get("one")).toContain("echo late");
    expect(told.get("one")).not.toContain("echo one");
    expect(landed).toEqual([".sortie", "a.txt", "one-after.txt", "one.txt"]);
  });

  test("control: without what was kept all of them are gone, and all calls are named", {
    timeout: 90_000,
  }, async () => {
    const { events, told, saw, landed, moved } = await left({ checkpointSeconds: 0 }, () => Promise.resolve());
    expect(events.filter(({ type, data }) => type === "checkpoint.kept" && "upTo" in data)).toEqual([]);
    expect(moved).toMatchObject({ commit: null, lost: 2 });
    expect(told).toContain("echo later");
    expect(told).toContain("echo new");
    expect(saw).toContain("cannot access 'later.txt'");
    expect(landed).toEqual([".gitignore", "a.txt", "after.txt"]);
  });
});
if (postgresURL === undefined) countSkipped(6);
