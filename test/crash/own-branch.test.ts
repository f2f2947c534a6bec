import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { expectWhole, logOf, post } from "../harness/double/hostile-text.ts";
import { startMockProvider, textOf } from "../harness/double/mock-provider.ts";
import { dispatch, eventsOf, finish, missionOf, plan, wake } from "../harness/double/missions.ts";
import { git, makeProject, readText, temporary, until } from "../harness/project.ts";
import { nothingLeft, startProcess } from "./process.ts";

/**
 * The service is killed around what a Mission does with a branch of its own: that is made once, merged once, asked for
 * once; and what the user has not committed, and commits meanwhile, is as they left it.
 */

const said = [
  { calls: [plan("a"), dispatch("a", "Write it.", { checks: [] })] },
  { text: "Runs." },
  { calls: [finish()] },
];
/** Approves what a Task asks. */
const allow = async (url: string, project: string): Promise<void> => {
  const { tasks } = await until(
    () => missionOf(url, project, "m"),
    (mission) => mission.tasks.some(({ pending }) => pending.length > 0),
    20_000,
  );
  const task = tasks.find(({ pending }) => pending.length > 0);
  await post(url, `/task/${task?.taskID}/pending/${task?.pending[0]?.id}`, project, { decision: "allow" });
};
const work = [{ calls: [{ tool: "write", input: { path: "x.txt", content: "x\n" } }] }];

/** A branch that somebody else has made stands there from the beginning. */
const branch = "sortie/m-2";

describe.concurrent("killed", { timeout: 90_000 }, () => {
  test.each([
    "mission.branched:1",
    "task.dispatched:1",
    "mission.finished:1",
    "task.dispatched:2",
    "tree.committed:2",
    "ask.opened:1",
    "answered",
    "landing.started:2",
    "landing.finished:2",
    "task.ended:2",
  ])("at %j", async (point) => {
    using root = temporary("sortie-own-branch-");
    const provider = await startMockProvider(({ body, turn }) => {
      const mission = textOf(body.messages[0]?.content).includes("You lead one Mission");
      return (mission ? said : work)[turn] ?? { text: "Done." };
    });
    try {
      const dataDir = join(root.path, "data");
      const config = join(root.path, "config.jsonc");
      const project = makeProject(join(root.path, "project"), { "a.txt": "one\n", "mine.txt": "mine\n" });
      git(project, "branch", "sortie/m");
      writeFileSync(join(project, "mine.txt"), "not committed\n");
      const providers = { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } };
      writeFileSync(config, JSON.stringify({ model: "mock/large", providers }));
      const env = { SERVICE_DATA_DIR: dataDir, SERVICE_CONFIG: config, HOME: root.path };
      const begin = (url: string) =>
        wake(url, project, { missionID: "m", text: "Do it.", landing: "branch", merge: "auto", approve: ["landing"] });
      let moved = false;
      /** Approves the merge, once the user's branch has moved on meanwhile. */
      const approve = async (url: string): Promise<void> => {
        const mission = await until(
          () => missionOf(url, project, "m"),
          ({ tasks, merged }) => merged?.state === "merged" || tasks.some(({ pending }) => pending.length > 0),
          20_000,
        );
        const task = mission.tasks.find(({ pending }) => pending.length > 0);
        if (task === undefined) return;
        if (!moved) git(project, "commit", "-q", "--allow-empty", "-m", "the user's");
        moved = true;
        const body = { decision: "allow", source: "test" };
        await post(url, `/task/${task.taskID}/pending/${task.pending[0]?.id}`, project, body);
      };
      {
        await using service = await startProcess(point === "answered" ? env : { ...env, TEST_KILL_ON: point });
        await begin(service.url).catch(() => undefined);
        await approve(service.url).catch(() => undefined);
        if (point === "answered") await service.kill("SIGKILL");
        await service.gone;
      }
      await using service = await startProcess(env);
      await approve(service.url);
      const mission = await until(
        () => missionOf(service.url, project, "m"),
        ({ state, merged, agentStatus }) =>
          state === "done" && merged?.state === "merged" && agentStatus === "inactive",
        20_000,
      );
      expect(mission).toMatchObject({ landingBranch: branch, tasks: [{ attempt: 1 }, { attempt: 1 }] });
      const events = await eventsOf(service.url, project, "m");
      const times = (type: string) => events.filter((event) => event.type === type).length;
      expect([times("mission.branched"), times("task.dispatched"), times("task.ended")]).toEqual([1, 2, 2]);
      expect([times("mission.finished"), times("ask.opened"), times("ask.answered")]).toEqual([1, 1, 1]);
      expect([times("landing.finished"), times("mission.unmerged")]).toEqual([2, 0]);
      expect(git(project, "log", "--first-parent", "--format=%s", "main").split("\n")).toEqual([
        "Merge sortie/m-2",
        "the user's",
        "first",
      ]);
      expect(git(project, "rev-parse", "main^2")).toBe(git(project, "rev-parse", branch));
      expect(git(project, "rev-list", "--count", `sortie/m..${branch}`)).toBe("1");
      expect(git(project, "log", "--format=%s", "sortie/m")).toBe("first");
      expect([readText(project, "x.txt"), readText(project, "mine.txt")]).toEqual(["x\n", "not committed\n"]);
      expectWhole(project, " M mine.txt");
      await service.kill("SIGTERM");
      await nothingLeft(dataDir);
    } finally {
      await provider.close();
    }
  });

  test.each(["mission.finished:1", "mission.unmerged:1"])(
    "at %j, of one whose branch came from one that is gone: why it is not merged is said once",
    async (point) => {
      using root = temporary("sortie-own-branch-");
      const project = makeProject(join(root.path, "project"), { "a.txt": "one\n" });
      git(project, "checkout", "-q", "-b", "topic");
      const provider = await startMockProvider(({ body, turn }) => {
        const mission = textOf(body.messages[0]?.content).includes("You lead one Mission");
        // The user has no more use for it.
        if (mission && turn === 2 && git(project, "branch", "--list", "topic") !== "") {
          git(project, "checkout", "-q", "main");
          git(project, "branch", "-q", "-D", "topic");
        }
        return (mission ? said : work)[turn] ?? { text: "Done." };
      });
      try {
        const dataDir = join(root.path, "data");
        const config = join(root.path, "config.jsonc");
        const providers = { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } };
        writeFileSync(config, JSON.stringify({ model: "mock/large", providers }));
        const env = { SERVICE_DATA_DIR: dataDir, SERVICE_CONFIG: config, HOME: root.path };
        {
          await using service = await startProcess({ ...env, TEST_KILL_ON: point });
          await wake(service.url, project, { missionID: "m", text: "Do it.", landing: "branch", merge: "auto" }).catch(
            () => undefined,
          );
          await service.gone;
        }
        await using service = await startProcess(env);
        const mission = await until(
          () => missionOf(service.url, project, "m"),
          ({ state, outcome, agentStatus }) => state === "blocked" && outcome === "done" && agentStatus === "inactive",
          20_000,
        );
        expect(mission.stateReason).toContain("its branch was not merged: the branch topic");
        const told = (await eventsOf(service.url, project, "m")).filter(({ type }) => type === "mission.unmerged");
        expect(told).toMatchObject([{ data: { reason: expect.stringContaining("topic") as string } }]);
        expect(git(project, "log", "--format=%s", "main")).toBe("first");
        expectWhole(project);
        await service.kill("SIGTERM");
        await nothingLeft(dataDir);
      } finally {
        await provider.close();
      }
    },
  );

  const effects = ["squad.installing:1", "tree.committed:1", "landing.started:1", "landing.finished:1"];
  test.each([
    ...effects.map((point) => ["branch", point] as const),
    ...["answered", ...effects].map((point) => ["commit", point] as const),
  ])(
    "while a made squad lands there (%s), at %j: it is approved once, one commit, and found again",
    async (landing, point) => {
      using root = temporary("sortie-own-branch-");
      const roster = ["one", "two", "three"].map((name) => ({ name, duty: "A duty." }));
      const crew = { name: "Crew", summary: "A crew." };
      const agents = roster.map(({ name }) => ({ name, description: "A duty.", instructions: "You do it." }));
      const written = { ...crew, notFor: "Anything else.", pillars: ["code"], orchestrator: "You lead.", agents };
      const lead = [
        { calls: [plan({ id: "p", phase: "web/shop" })] },
        { calls: [{ tool: "produce_squad", input: { phase: "p", squad: "shop-crew", roster, ...crew } }] },
        { calls: [dispatch("p", "Write it.", { checks: [] })] },
        { calls: [finish()] },
      ];
      const provider = await startMockProvider(({ body, turn, first }) => {
        if (textOf(body.messages[0]?.content).includes("You lead one Mission")) return lead[turn] ?? { text: "Done." };
        const makes = first.startsWith("Make the squad");
        return (makes ? [{ calls: [{ tool: "author_squad", input: written }] }] : work)[turn] ?? { text: "Done." };
      });
      try {
        const config = join(root.path, "config.jsonc");
        const project = makeProject(join(root.path, "project"), { "a.txt": "one\n" });
        const providers = { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } };
        writeFileSync(config, JSON.stringify({ model: "mock/large", providers }));
        const env = { SERVICE_DATA_DIR: join(root.path, "data"), SERVICE_CONFIG: config, HOME: root.path };
        {
          await using service = await startProcess(point === "answered" ? env : { ...env, TEST_KILL_ON: point });
          const approve = landing === "commit" ? ["squad"] : [];
          await wake(service.url, project, {
            missionID: "m",
            text: "Do it.",
            landing,
            approve,
            allowSquadProduction: true,
          });
          if (landing === "commit") await allow(service.url, project).catch(() => undefined);
          if (point === "answered") await service.kill("SIGKILL");
          await service.gone;
        }
        await using service = await startProcess(env);
        const mission = await until(
          () => missionOf(service.url, project, "m"),
          ({ state }) => state === "done" || state === "stalled" || state === "blocked",
          30_000,
        );
        expect(mission, JSON.stringify(mission.tasks.map(({ error }) => error))).toMatchObject({
          state: "done",
          tasks: [{ attempt: 1 }, { squad: { id: "shop-crew" }, lifecycleStatus: "completed" }],
        });
        const range = landing === "commit" ? "main" : "main..sortie/m";
        const subjects = git(project, "log", "--format=%s", range).split("\n");
        expect(subjects.slice(1)).toEqual(["Add the squad shop-crew", ...(landing === "commit" ? ["first"] : [])]);
        const told = (await logOf(service.url, mission.tasks[0]?.taskID ?? "")).map(({ type }) => type);
        const times = (type: string) => told.filter((one) => one === type).length;
        const asked = landing === "commit" ? 1 : 0;
        expect(["ask.opened", "ask.answered", "landing.finished", "squad.installed"].map(times)).toEqual([
          asked,
          asked,
          1,
          1,
        ]);
        expectWhole(project);
      } finally {
        await provider.close();
      }
    },
  );

  test("under the lock of a phase's landing: it is taken over, and the branch is moved once", async () => {
    using root = temporary("sortie-own-branch-");
    const provider = await startMockProvider(({ body, turn }) => {
      const mission = textOf(body.messages[0]?.content).includes("You lead one Mission");
      return (mission ? said : work)[turn] ?? { text: "Done." };
    });
    try {
      const config = join(root.path, "config.jsonc");
      const project = makeProject(join(root.path, "project"), { "a.txt": "one\n" });
      const providers = { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } };
      writeFileSync(config, JSON.stringify({ model: "mock/large", providers }));
      const env = { SERVICE_DATA_DIR: join(root.path, "data"), SERVICE_CONFIG: config, HOME: root.path };
      {
        await using service = await startProcess({ ...env, TEST_KILL_ON: "landing.started" });
        await wake(service.url, project, { missionID: "m", text: "Do it.", landing: "branch" });
        await service.gone;
      }
      const own = git(project, "for-each-ref", "--format=%(refname:lstrip=3)", "refs/heads/sortie/task_*");
      expect(own).toMatch(/^task_\w+$/);
      writeFileSync(join(project, ".git", "index.lock"), `sortie ${own}\n`);
      await using service = await startProcess(env);
      const mission = await until(
        () => missionOf(service.url, project, "m"),
        ({ state }) => state === "done",
        30_000,
      );
      expect(mission.tasks).toMatchObject([{ lifecycleStatus: "completed" }]);
      expect(git(project, "rev-list", "--count", "main..sortie/m")).toBe("1");
      expect(git(project, "status", "--porcelain")).toBe("");
      expectWhole(project);
    } finally {
      await provider.close();
    }
  });
});
