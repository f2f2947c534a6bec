import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { wake as wakeByCommand } from "../../../src/cli/mission/action.ts";
import { createScreen } from "../../../src/cli/terminal/screen.ts";
import type { MissionStatus } from "../../../src/protocol/mission/status.ts";
import { addForge, type ForgeDouble } from "../../harness/double/forge/double.ts";
import { canServe, type GitHost, startGitHost, token } from "../../harness/double/git-host.ts";
import { send } from "../../harness/double/hostile-text.ts";
import {
  dispatch,
  finish,
  type MissionEvent,
  openStage,
  plan,
  type Say,
  type Stage,
  taskOf,
  turns,
} from "../../harness/double/missions.ts";
import { temporary, until } from "../../harness/project.ts";

/** Missions of a repository by its address: every phase on one branch of the Mission's own, proposed as a whole. */

describe.runIf(canServe)("a Mission of a repository by address", { timeout: 60_000 }, () => {
  const root = temporary("sortie-repo-mission-");
  let host: GitHost;
  let forge: ForgeDouble;
  let stage: Stage;
  beforeAll(async () => {
    host = await startGitHost(root.path);
    forge = addForge(host, "github");
    const acme = `http://127.0.0.1:${host.port}/acme/*`;
    const plain = `http://127.0.0.1:${host.port}/plain/*`;
    stage = await openStage(
      { HOST_TOKEN: token },
      {
        repositories: {
          allow: [acme, plain],
          // No caller may push onto a branch of others.
          landing: ["pull-request", "branch"],
          credentials: [
            { match: acme, token: "env:HOST_TOKEN", forge: "github" },
            { match: plain, token: "env:HOST_TOKEN" },
          ],
          fetchSeconds: 4,
        },
      },
    );
  });
  afterAll(async () => {
    await stage[Symbol.asyncDispose]();
    await host[Symbol.asyncDispose]();
    root[Symbol.dispose]();
  });

  /** Writes the file that its request names, and says what it sees of another. */
  const worker: Say = (turn, { first }) =>
    turn === 0
      ? { calls: [{ tool: "shell", input: { command: /Run: (.+?)\. \[/.exec(first)?.[1] ?? "false" } }] }
      : { text: "Did it." };
  const where = (url: string) => `repository=${encodeURIComponent(url)}`;
  const wake = async (body: object): Promise<{ missionID: string; sessionID: string }> => {
    const answer = await send(stage.service.url, "/mission/wake", { method: "POST", body });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    return answer.body as { missionID: string; sessionID: string };
  };
  const statusOf = async (url: string, missionID: string): Promise<MissionStatus> => {
    const { status, body } = await send(stage.service.url, `/mission/${missionID}/status?${where(url)}`);
    expect(status, JSON.stringify(body)).toBe(200);
    return body as unknown as MissionStatus;
  };
  const rest = (url: string, missionID: string): Promise<MissionStatus> =>
    until(
      () => statusOf(url, missionID),
      ({ status, agentStatus, finished, error }) =>
        status === "inactive" && agentStatus === "inactive" && (finished !== null || error !== undefined),
      40_000,
    );
  const eventsOf = async (url: string, missionID: string): Promise<MissionEvent[]> => {
    const path = `/mission/${missionID}/events?${where(url)}&format=json&limit=1000`;
    return (await send(stage.service.url, path)).body["events"] as MissionEvent[];
  };

  test("a later phase begins from what an earlier one left; the whole is one pull request, and others' branches stay", async () => {
    host.make("acme/two", { "a.txt": "one\n" });
    const url = host.url("acme/two");
    const main = host.git("acme/two", "rev-parse", "main");
    stage.play("two", {
      mission: turns(
        { calls: [plan("a", { id: "b", after: ["a"] })] },
        { calls: [dispatch("a", "Run: echo first > first.txt. [two]")] },
        { calls: [dispatch("b", "Run: cp first.txt second.txt. [two]")] },
        { calls: [finish("done", "Both are there. @everyone")] },
      ),
      task: worker,
    });
    const { missionID } = await wake({ text: "Make both. [two]", title: "Both", repository: { url } });
    const mission = await rest(url, missionID);
    const branch = `sortie/${missionID}`;
    expect(mission, mission.error).toMatchObject({
      repository: { url, ref: null },
      landingBranch: branch,
      pullRequest: { number: 1, state: "open" },
      plan: [{ state: "done" }, { state: "done" }],
    });
    expect(host.git("acme/two", "show", `${branch}:second.txt`)).toBe("first");
    expect(host.git("acme/two", "rev-list", "--count", `main..${branch}`)).toBe("2");
    expect(host.git("acme/two", "rev-parse", "main")).toBe(main);
    const branches = host.git("acme/two", "for-each-ref", "--format=%(refname:short)", "refs/heads").split("\n");
    expect(branches.toSorted()).toEqual(["main", branch]);
    expect(forge.pulls).toMatchObject([{ branch, base: "main", title: "Both", state: "open" }]);
    expect(forge.pulls[0]?.body).toContain("Both are there. @\u200beveryone");
    // Whoever judged the whole has no part in it.
    const work = mission.tasks.filter(({ taskID }) => taskID !== mission.verdict?.taskID);
    expect([work.length, mission.verdict?.verdict]).toEqual([2, "accepted"]);
    expect(forge.pulls[0]?.body).not.toContain(mission.verdict?.taskID);
    for (const { taskID } of work) {
      expect(forge.pulls[0]?.body).toContain(taskID);
      expect(await taskOf(stage.service.url, taskID)).toMatchObject({
        landing: "commit",
        landingBranch: branch,
        repository: { url, ref: branch },
      });
    }
    expect(forge.violations).toEqual([]);
    const types = (await eventsOf(url, missionID)).map(({ type }) => type);
    expect(types.filter((type) => type === "mission.proposed")).toHaveLength(1);

    // Lists by address; a control that another address has none.
    const listed = await send(stage.service.url, `/missions?${where(url)}`);
    expect(listed.body).toMatchObject([{ missionID, repository: { url, ref: null } }]);
    expect((await send(stage.service.url, `/missions?${where(host.url("acme/none"))}`)).body).toEqual([]);

    const archive = await fetch(`${stage.service.url}/mission/${missionID}/project-archive?${where(url)}`);
    expect(archive.status).toBe(200);
    expect(Buffer.from(await archive.arrayBuffer()).includes("second.txt")).toBe(true);
  });

  test("once it is merged, its branch goes, and what is asked for then is a pull request of its own", async () => {
    host.make("acme/again", { "a.txt": "one\n" });
    const url = host.url("acme/again");
    stage.play("again", {
      mission: turns(
        { calls: [plan("a")] },
        { calls: [dispatch("a", "Run: echo first > first.txt. [again]")] },
        { calls: [finish()] },
        { calls: [plan("a", "b")] },
        { calls: [dispatch("b", "Run: cp first.txt second.txt. [again]")] },
        { calls: [finish()] },
      ),
      task: worker,
    });
    const { missionID } = await wake({ text: "Make it. [again]", repository: { url, ref: "main" } });
    const first = (await rest(url, missionID)).pullRequest;
    expect(first).toMatchObject({ state: "open" });
    forge.merge(first?.number ?? 0);
    await wake({ missionID, text: "And the second.", repository: { url, ref: "main" } });
    const mission = await until(
      () => rest(url, missionID),
      ({ pullRequest, error }) => pullRequest?.number !== first?.number || error !== undefined,
    );
    expect(mission, mission.error).toMatchObject({ pullRequest: { state: "open" } });
    expect(mission.pullRequest?.number).toBeGreaterThan(first?.number ?? 0);
    expect(host.git("acme/again", "rev-list", "--count", `main..${mission.landingBranch}`)).toBe("1");
    expect(host.git("acme/again", "show", `${mission.landingBranch}:second.txt`)).toBe("first");

    // Its ref is the one it began with.
    const other = await send(stage.service.url, "/mission/wake", {
      method: "POST",
      body: { missionID, text: "x", repository: { url, ref: "next" } },
    });
    expect(other).toMatchObject({ status: 400, body: { code: "invalid_request" } });
  });

  test("without a forge its branch is the result, and why there is no pull request is said", async () => {
    host.make("plain/one", { "a.txt": "one\n" });
    const url = host.url("plain/one");
    stage.play("plain", {
      mission: turns(
        { calls: [plan("a")] },
        { calls: [dispatch("a", "Run: echo first > first.txt. [plain]")] },
        { calls: [finish()] },
      ),
      task: worker,
    });
    // Somebody else's branch of the name that it would take.
    host.git("plain/one", "branch", "sortie/plain-one", "main");
    const { missionID } = await wake({ text: "Make it. [plain]", missionID: "plain-one", repository: { url } });
    const mission = await rest(url, missionID);
    expect(mission).toMatchObject({
      pullRequest: null,
      finished: { outcome: "done" },
      landing: "branch",
      merge: null,
      landingBranch: "sortie/plain-one-2",
    });
    expect(host.git("plain/one", "rev-parse", "sortie/plain-one")).toBe(host.git("plain/one", "rev-parse", "main"));
    expect(host.git("plain/one", "show", `${mission.landingBranch}:first.txt`)).toBe("first");
    const said = (await eventsOf(url, missionID)).find(({ type }) => type === "mission.proposed");
    expect(said?.data["reason"]).toContain("which forge");
  });

  test("a squad that is made for it is a commit on its branch, and its phases are done by it", async () => {
    host.make("plain/crew", { "a.txt": "one\n" });
    const url = host.url("plain/crew");
    const roster = ["one", "two", "three"].map((name) => ({ name, duty: "A duty." }));
    const crew = { name: "Crew", summary: "A crew." };
    const agents = roster.map(({ name }) => ({ name, description: "A duty.", instructions: "You do it." }));
    stage.play("crew", {
      mission: turns(
        { calls: [plan({ id: "p", phase: "web/shop" })] },
        {
          calls: [
            { tool: "produce_squad", input: { phase: "p", squad: "shop-crew", roster, brief: "[crew]", ...crew } },
          ],
        },
        { calls: [dispatch("p", "Run: echo first > first.txt. [crew]", { checks: [] })] },
        { calls: [finish()] },
      ),
      task: (turn, request, newest) => {
        if (!request.first.startsWith("Make the squad")) return worker(turn, request, newest);
        const more = { notFor: "Anything else.", pillars: ["code"], orchestrator: "You lead.", agents };
        return turn === 0 ? { calls: [{ tool: "author_squad", input: { ...crew, ...more } }] } : { text: "Made." };
      },
    });
    const { missionID } = await wake({
      text: "Make it. [crew]",
      allowSquadProduction: true,
      checks: [],
      repository: { url },
    });
    const mission = await rest(url, missionID);
    expect(mission, JSON.stringify(mission.tasks.map(({ error }) => error))).toMatchObject({
      state: "done",
      tasks: [{ lifecycleStatus: "completed" }, { lifecycleStatus: "completed", squad: { id: "shop-crew" } }],
    });
    const branch = mission.landingBranch ?? "";
    expect(host.git("plain/crew", "log", "--format=%s", `main..${branch}~1`)).toBe("Add the squad shop-crew");
    expect(host.git("plain/crew", "show", `${branch}:.sortie/squads/shop-crew/squad.json`)).toContain("web/shop");
  });

  test("a remote that is away is waited for, then said; a wake tries again", async () => {
    host.make("acme/away", { "a.txt": "one\n" });
    const url = host.url("acme/away");
    stage.play("away", { mission: turns({ calls: [finish("blocked", "Seen.")] }) });
    const before = host.before;
    host.before = (incoming, outgoing) => {
      if (incoming.url?.startsWith("/acme/away.git") !== true) return before?.(incoming, outgoing) ?? false;
      outgoing.writeHead(503).end();
      return true;
    };
    const { missionID } = await wake({ text: "Look. [away]", repository: { url } });
    await until(
      () => statusOf(url, missionID),
      ({ now }) => now?.text.startsWith(`Waiting for ${url}`) ?? false,
    );
    expect(await rest(url, missionID)).toMatchObject({ errorInfo: { code: "repository_unavailable" } });
    host.before = before;
    await wake({ missionID, text: "Again. [away]", repository: { url } });
    const seen = await until(
      () => rest(url, missionID),
      ({ error }) => error === undefined,
    );
    expect(seen.finished).toMatchObject({ outcome: "blocked", summary: "Seen." });
  });

  test("a repository that the operator does not list begins no Mission; neither do two projects at once", async () => {
    const body = { text: "x", repository: { url: "https://elsewhere.example/x" } };
    expect(await send(stage.service.url, "/mission/wake", { method: "POST", body })).toMatchObject({
      status: 422,
      body: { code: "repository_not_allowed" },
    });
    const both = await send(stage.service.url, "/mission/wake?directory=/tmp", {
      method: "POST",
      body: { text: "x", repository: { url: host.url("acme/two") } },
    });
    expect(both).toMatchObject({ status: 400, body: { code: "directory_ambiguous" } });
  });

  test("the command line names it with --repo", async () => {
    host.make("acme/cli", { "a.txt": "one\n" });
    stage.play("cli", { mission: turns({ calls: [finish("blocked", "Seen.")] }) });
    const said: object[] = [];
    const code = await wakeByCommand(
      "Look. [cli]",
      { repo: host.url("acme/cli"), ref: "main" },
      {
        target: {
          url: stage.service.url,
          directory: root.path,
          repository: host.url("acme/cli"),
          username: "service",
          password: undefined,
        },
        screen: createScreen(process.stdout, true),
        emit: (value) => void said.push(value),
      },
    );
    expect([code, said]).toMatchObject([0, [{ created: true }]]);
    const { missionID } = said[0] as { missionID: string };
    expect(await rest(host.url("acme/cli"), missionID)).toMatchObject({ repository: { ref: "main" } });
    expect(execFileSync("git", ["-C", join(root.path, "host/acme/cli.git"), "branch"], { encoding: "utf8" })).toBe(
      "* main\n",
    );
  });
});
