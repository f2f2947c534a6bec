import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { MissionStatus } from "../../src/protocol/mission/status.ts";
import { git, makeProject, readText, temporary, until } from "../harness/project.ts";
import { at, post, send } from "../harness/double/hostile-text.ts";
import { eventsOf, type MissionEvent, missionOf } from "../harness/double/missions.ts";
import { nothingLeft, startProcess } from "./process.ts";
import { night, sampleByDay } from "../harness/night.ts";

/**
 * A Mission of three Tasks and one production, by the embedded rules. The service is killed (SIGKILL) and started
 * again: the same end from every point, every ended Task heard of once, no second production, no second session.
 */

/** By day only after what leaves the next start most to decide; at night after every event. */
const delicate = ["task.dispatched:2", "squad.installing:1", "task.ended:2", "squad.reconciled:1"];

const list = `1. Write a

   \`\`\`txt file=a1.txt
   a
   \`\`\`

2. Write b (squad: crew)

   \`\`\`txt file=b1.txt
   b
   \`\`\`

3. Write c (after 1, 2)

   \`\`\`txt file=c1.txt
   c
   \`\`\`

Squad crew:
- one: The first.
- two: The second.
- three: The third.
`;

const wakeUp = (url: string, project: string) =>
  post(url, "/mission/wake", project, { missionID: "m", text: list, allowSquadProduction: true });

const verify = async (
  url: string,
  project: string,
  dataDir: string,
  lose?: (project: string) => void,
): Promise<MissionEvent[]> => {
  const mission: MissionStatus = await until(
    () => missionOf(url, project, "m"),
    ({ status, agentStatus, finished, error }) =>
      status === "inactive" && agentStatus === "inactive" && (finished !== null || error !== undefined),
    60_000,
  );
  expect(mission).toMatchObject({ finished: { outcome: "done" }, taskCounts: { total: 4 } });
  lose?.(project);
  for (const name of ["a", "b", "c"]) expect(readText(project, `${name}1.txt`)).toBe(`${name}\n`);
  expect(git(project, "rev-list", "--count", "HEAD")).toBe("5");
  expect(mission.tasks.map(({ lifecycleStatus }) => lifecycleStatus)).toEqual(Array(4).fill("completed"));
  expect(mission.tasks.filter(({ production }) => production !== undefined)).toHaveLength(1);
  expect(mission.tasks.filter(({ squad }) => squad.id === "crew")).toHaveLength(1);
  expect(existsSync(join(project, ".sortie/squads/crew/squad.json"))).toBe(true);
  expect(git(project, "status", "--porcelain", "--ignored")).toBe("");
  const events = await eventsOf(url, project, "m");
  const own = events.filter(({ taskID }) => taskID === undefined);
  const of = (type: string) => own.filter((event) => event.type === type).map(({ data }) => data);
  expect(of("mission.created")).toHaveLength(1);
  expect(of("task.dispatched")).toHaveLength(4);
  expect(
    of("task.ended")
      .map(({ taskID, attempt }) => `${String(taskID)} ${String(attempt)}`)
      .toSorted(),
  ).toEqual(mission.tasks.map(({ taskID, attempt }) => `${taskID} ${attempt}`).toSorted());
  expect(of("squad.reconciled")).toHaveLength(1);
  const calls = (type: string) => of(type).map(({ callID }) => String(callID));
  expect(calls("tool.finished").toSorted()).toEqual(calls("tool.started").toSorted());
  const missions = await send(url, at("/missions", project));
  expect(missions.body).toHaveLength(1);
  await nothingLeft(dataDir);
  return events;
};

/** "": not killed. */
const killedOn = async (point: string, lose?: (project: string) => void): Promise<MissionEvent[]> => {
  using root = temporary("sortie-mission-");
  const dataDir = join(root.path, "data");
  const project = makeProject(join(root.path, "project"), { "a.txt": "one\n" });
  const env = { SERVICE_DATA_DIR: dataDir, SERVICE_MODEL: "builtin/rules-1", HOME: root.path };
  {
    await using service = await startProcess({ ...env, TEST_KILL_ON: point });
    const woken = wakeUp(service.url, project);
    if (point === "") {
      expect((await woken).status).toBe(200);
      return await verify(service.url, project, dataDir, lose);
    }
    // The kill may fall before the answer; the same wake again is then another.
    await woken.catch(() => undefined);
    await Promise.race([service.gone, new Promise((resolve) => setTimeout(resolve, 20_000).unref())]);
  }
  await using again = await startProcess(env);
  const { body } = await send(again.url, at("/missions", project));
  if ((body as unknown as unknown[]).length === 0) await wakeUp(again.url, project);
  return await verify(again.url, project, dataDir);
};

describe("a Mission, killed after its events in turn", () => {
  test("comes to the same end from every point", { timeout: 3_600_000 }, async () => {
    const points = sampleByDay("mission sweep", delicate, 1);
    if (night) {
      const frames = await killedOn("");
      points.push(...frames.map(({ id }) => String(id)));
    }
    console.log(`mission sweep: killed at ${points.length} points`);
    const worker = async () => {
      for (let point = points.shift(); point !== undefined; point = points.shift()) {
        const now = point;
        await killedOn(now).catch((error: unknown) => {
          throw new Error(`killed at ${now}: ${String(error)}`, { cause: error });
        });
      }
    };
    await Promise.all([worker(), worker()]);
  });

  test("deaths in a row, all with the same call under way, do not give it up", { timeout: 60_000 }, async () => {
    using root = temporary("sortie-mission-deaths-");
    const project = makeProject(join(root.path, "project"), { "a.txt": "one\n" });
    const dataDir = join(root.path, "data");
    const env = { SERVICE_DATA_DIR: dataDir, SERVICE_MODEL: "builtin/rules-1", HOME: root.path };
    {
      await using service = await startProcess({ ...env, TEST_KILL_ON: "tool.started:1" });
      await wakeUp(service.url, project).catch(() => undefined);
      await service.gone;
    }
    for (let death = 0; death < 3; death += 1) {
      await using service = await startProcess({ ...env, TEST_KILL_ON: "run.started:1" });
      await service.gone;
    }
    await using again = await startProcess(env);
    const events = await verify(again.url, project, dataDir);
    expect(events.filter(({ type, taskID }) => type === "run.started" && taskID === undefined).length).toBeGreaterThan(
      3,
    );
    expect(events.filter(({ data }) => String(data["output"]).includes("The service died while it ran"))).toEqual([]);
  });

  test("six deaths, each with the same call under way, give up that call and no more: the Mission comes to rest", {
    timeout: 180_000,
  }, async () => {
    using root = temporary("sortie-mission-deaths-");
    const project = makeProject(join(root.path, "project"), { "a.txt": "one\n" });
    const env = { SERVICE_DATA_DIR: join(root.path, "data"), SERVICE_MODEL: "builtin/rules-1", HOME: root.path };
    {
      await using service = await startProcess({ ...env, TEST_KILL_ON: "tool.started:1" });
      await wakeUp(service.url, project).catch(() => undefined);
      await service.gone;
    }
    // Each holds back for twice as long as the one before; what dies while it holds back does not count.
    for (let death = 0; death < 5; death += 1) {
      await using service = await startProcess({ ...env, TEST_KILL_ON: "run.started:1" });
      await service.gone;
    }
    const givenUp = async (url: string) =>
      (await eventsOf(url, project, "m")).filter(
        ({ type, data }) =>
          type === "tool.finished" && String(data["output"]).includes("The service died while it ran"),
      );
    await using again = await startProcess(env);
    const given = await until(
      () => givenUp(again.url),
      (events) => events.length > 0,
      60_000,
    );
    expect(given).toHaveLength(1);
    const { status } = await until(
      () => missionOf(again.url, project, "m"),
      ({ agentStatus, finished, error }) => agentStatus === "inactive" && (finished !== null || error !== undefined),
      60_000,
    );
    expect(status).toBe("inactive");
    expect(await givenUp(again.url)).toEqual(given);
  });

  test("fifty wakes at once and a kill among them: one Mission, one session, before and after", {
    timeout: 60_000,
  }, async () => {
    using root = temporary("sortie-mission-wakes-");
    const project = makeProject(join(root.path, "project"), { "a.txt": "one\n" });
    const env = { SERVICE_DATA_DIR: join(root.path, "data"), SERVICE_MODEL: "builtin/rules-1", HOME: root.path };
    const all = (url: string) =>
      Promise.all(Array.from({ length: 50 }, () => wakeUp(url, project).catch(() => undefined)));
    const sessions = new Set<unknown>();
    const made: unknown[] = [];
    const note = (answers: Awaited<ReturnType<typeof all>>) => {
      for (const answer of answers) {
        if (answer === undefined) continue;
        expect(answer.status).toBe(200);
        sessions.add(answer.body["sessionID"]);
        if (answer.body["created"] === true) made.push(answer.body);
      }
    };
    {
      await using service = await startProcess({ ...env, TEST_KILL_ON: "run.started:1" });
      note(await all(service.url));
      await service.gone;
    }
    await using again = await startProcess(env);
    note(await all(again.url));
    expect(sessions.size).toBe(1);
    // The answer of the one that made it may have been lost with the process.
    expect(made.length).toBeLessThanOrEqual(1);
    const { body } = await send(again.url, at("/missions", project));
    expect(body).toMatchObject([{ missionID: "m", sessionID: [...sessions][0] }]);
    const own = (await eventsOf(again.url, project, "m")).filter(({ type }) => type === "mission.created");
    expect(own).toHaveLength(1);
  });

  test("control: work that was lost is found out", { timeout: 60_000 }, async () => {
    await expect(killedOn("", (project) => rmSync(join(project, "c1.txt")))).rejects.toThrow("c1.txt");
  });
});
