import { expect, test } from "vitest";
import { post } from "../harness/double/hostile-text.ts";
import { startMockProvider, textOf } from "../harness/double/mock-provider.ts";
import { dispatch, eventsOf, finish, missionOf, plan, wake } from "../harness/double/missions.ts";
import { git, readText, temporary, until } from "../harness/project.ts";
import { nothingLeft, startProcess } from "./process.ts";
import { settingIn } from "./setting.ts";

/** The service is killed around the approval of a Mission's plan: it is asked for once, and carried out once. */

const said = [{ calls: [plan("a")] }, { text: "So?" }, { calls: [dispatch("a", "Write it.")] }, { calls: [finish()] }];
const work = [{ calls: [{ tool: "write", input: { path: "x.txt", content: "x\n" } }] }];

test.each([
  "",
  "phase.written:1",
  "ask.opened:1",
  "answered",
  "task.dispatched:1",
  "tool.finished:2",
  "ask.opened:2",
  "mission.finished:1",
])("killed at %j", { timeout: 60_000 }, async (point) => {
  using root = temporary("sortie-mission-approval-");
  const provider = await startMockProvider(({ body, turn }) => {
    const mission = textOf(body.messages[0]?.content).includes("You lead one Mission");
    return (mission ? said : work)[turn] ?? { text: "Done." };
  });
  try {
    const { dataDir, project, env } = settingIn(root.path, provider.baseURL);
    const begin = (url: string) => wake(url, project, { missionID: "m", text: "Do it.", approve: ["plan", "landing"] });
    /** Answers what is asked, so often; the service may die of any of it. */
    const approve = async (url: string, times: number): Promise<void> => {
      for (let asked = 0; asked < times; asked += 1) {
        const waits = await until(
          () => missionOf(url, project, "m"),
          ({ state }) => state === "asking" || state === "done",
          20_000,
        );
        const [own] = waits.pending;
        const task = waits.tasks.find(({ pending }) => pending.length > 0);
        const body = { decision: "allow", source: "test" };
        if (own !== undefined) await post(url, `/mission/m/pending/${own.id}`, project, body);
        else if (task !== undefined)
          await post(url, `/task/${task.taskID}/pending/${task.pending[0]?.id}`, project, body);
      }
    };
    if (point !== "") {
      await using service = await startProcess(point === "answered" ? env : { ...env, TEST_KILL_ON: point });
      await begin(service.url).catch(() => undefined);
      await approve(service.url, point === "answered" ? 1 : 2).catch(() => undefined);
      if (point === "answered") await service.kill("SIGKILL");
      await service.gone;
    }
    await using service = await startProcess(env);
    if (point === "") await begin(service.url);
    for (let left = 0; left < 4; left += 1) await approve(service.url, 1);
    const mission = await until(
      () => missionOf(service.url, project, "m"),
      ({ state }) => state === "done",
      20_000,
    );
    expect(mission.tasks).toMatchObject([{ lifecycleStatus: "completed", attempt: 1 }]);
    const events = await eventsOf(service.url, project, "m");
    const times = (type: string, own = false) =>
      events.filter((event) => event.type === type && (!own || event.taskID === undefined)).length;
    expect([times("ask.opened", true), times("ask.opened"), times("ask.answered")]).toEqual([1, 2, 2]);
    expect([times("task.dispatched"), times("landing.started"), times("mission.finished")]).toEqual([1, 1, 1]);
    expect(readText(project, "x.txt")).toBe("x\n");
    expect(git(project, "log", "--format=%s").split("\n")).toHaveLength(2);
    await nothingLeft(dataDir);
  } finally {
    await provider.close();
  }
});
