import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import type { Recorded } from "../../../src/domain/event.ts";
import { evolveMission } from "../../../src/domain/mission/evolve.ts";
import type { MissionState } from "../../../src/domain/state/mission.ts";
import type { Frame } from "../../../src/protocol/event/frame.ts";
import type { MissionStatus } from "../../../src/protocol/mission/status.ts";
import { at, logOf, post, send } from "../../harness/double/hostile-text.ts";
import { eventsOf, missionOf } from "../../harness/double/missions.ts";
import { git, makeProject, readText, until } from "../../harness/project.ts";
import type { Received, Receiver } from "../../harness/receiver.ts";
import { ended, type Follower, judge, recorded, untilStill } from "./place.ts";
import type { Scenario } from "./sweep.ts";

/**
 * A Mission by the embedded rules: a squad is produced and used, Tasks are dispatched one after the other, and a
 * webhook tells the end of each.
 */

const list = `1. Write a (squad: crew)

   \`\`\`txt file=a1.txt
   a
   \`\`\`

2. Write b (after 1)

   \`\`\`txt file=b1.txt
   b
   \`\`\`

Squad crew:
- one: The first.
- two: The second.
- three: The third.
`;

/** The logs, a stream each. */
export type MissionSeen = { mission: Recorded[]; tasks: Recorded[][] };

export const missionScenario = (receiver: Receiver): Scenario<MissionSeen> => ({
  name: "mission",
  open(root) {
    const dataDir = join(root, "data");
    const project = makeProject(join(root, "project"), { "a.txt": "one\n" });
    const config = join(root, "config.jsonc");
    writeFileSync(config, JSON.stringify({ model: "builtin/rules-1", webhooks: { allow: ["127.0.0.1"] } }));
    const wake = (url: string) =>
      post(url, "/mission/wake", project, { missionID: "m", text: list, allowSquadProduction: true });
    /** What came before the kill, for all that follow it, and what came since the start that is looked at. */
    let before: Received[] | undefined;
    let from = receiver.received.length;
    return {
      env: { SERVICE_DATA_DIR: dataDir, SERVICE_CONFIG: config, HOME: root },
      restart() {
        before ??= receiver.received.slice(from);
        from = receiver.received.length;
      },
      async play({ url }) {
        const events = ["task.completed", "task.failed", "task.cancelled"];
        expect((await send(url, "/webhook", { method: "POST", body: { url: receiver.url, events } })).status).toBe(200);
        expect((await wake(url)).status).toBe(200);
        await atRest(url, project);
      },
      async finish(service, follower) {
        const { url } = service;
        const { body } = await send(url, at("/missions", project));
        // The first event is the wake's, and its answer may have been lost.
        if ((body as unknown as unknown[]).length === 0) await wake(url);
        await follow(url, project, follower);
        const deleted = follower === "delete";
        if (deleted) {
          expect((await send(url, at("/mission/m/status", project))).status).toBe(404);
          // Its Tasks stay, and go on.
          const listed = (await send(url, at("/tasks", project))).body as unknown as { taskID: string }[];
          const ids = listed.map(({ taskID }) => taskID);
          for (const taskID of ids) await ended(url, project, taskID);
          await judge(service, { dataDir, project }, ids, { status: statusOf(project) });
          return { mission: [], tasks: [] };
        }
        const mission = await atRest(url, project);
        const own = (await eventsOf(url, project, "m")).filter(({ taskID }) => taskID === undefined);
        const events = recorded(own as unknown as Frame[], mission.sessionID);
        let state: MissionState | undefined;
        for (const event of events) state = evolveMission(state, event);
        expect(state?.open).toEqual([]);
        // Another wake with the same list, or a word to one of its Tasks, is more work, and may end otherwise.
        if (follower === "nothing" || follower === "PostgreSQL") expectDone(project, mission);
        else if (follower !== "cancel") expect(mission.finished, JSON.stringify(mission)).not.toBeNull();
        const told = () =>
          mission.tasks.map(({ taskID }) => [
            taskID,
            new Set(
              [...(before ?? []), ...receiver.received.slice(from)].flatMap(({ message, headers }) =>
                "taskID" in message.data && message.data.taskID === taskID ? [headers["webhook-id"]] : [],
              ),
            ).size,
          ]);
        const attempts = mission.tasks.map(({ taskID, attempt }) => [taskID, attempt]);
        await until(
          () => Promise.resolve(told()),
          (now) => JSON.stringify(now) === JSON.stringify(attempts),
          30_000,
        );
        const ids = mission.tasks.map(({ taskID }) => taskID);
        await judge(service, { dataDir, project }, ids, { status: statusOf(project) });
        const tasks = await Promise.all(ids.map(async (taskID) => recorded(await logOf(url, taskID), taskID)));
        return { mission: events, tasks };
      },
    };
  },
});

const atRest = (url: string, project: string): Promise<MissionStatus> =>
  untilStill(
    () => missionOf(url, project, "m"),
    ({ status, agentStatus, finished, error, aborted }) =>
      status === "inactive" && agentStatus === "inactive" && (finished !== null || error !== undefined || aborted),
    ({ usage, tasks }) => JSON.stringify([usage, tasks.map(({ lastEventID }) => lastEventID)]),
  );

/** The produced squad is a commit of its own, or is not there. */
const statusOf = (project: string): string => {
  const commits = git(project, "log", "--format=%s").split("\n");
  const made = commits.filter((subject) => subject === "Add the squad crew").length;
  expect(made, "commits of the squad").toBeLessThanOrEqual(1);
  expect(existsSync(join(project, ".sortie/squads/crew/squad.json"))).toBe(made === 1);
  return "";
};

const expectDone = (project: string, mission: MissionStatus): void => {
  expect(mission).toMatchObject({ finished: { outcome: "done" }, taskCounts: { total: 3 } });
  expect(mission.tasks.map(({ lifecycleStatus }) => lifecycleStatus)).toEqual(Array(3).fill("completed"));
  expect(mission.tasks.filter(({ production }) => production !== undefined)).toHaveLength(1);
  expect(mission.tasks.filter(({ squad }) => squad.id === "crew")).toHaveLength(1);
  for (const name of ["a", "b"]) expect(readText(project, `${name}1.txt`)).toBe(`${name}\n`);
  expect(git(project, "rev-list", "--count", "HEAD")).toBe("4");
};

/** A message wakes the Mission; one that interrupts goes to the Task that runs, if one does. */
const follow = async (url: string, project: string, follower: Follower): Promise<void> => {
  const abort = async () => {
    const answer = await post(url, "/mission/m/abort", project, { surface: "sweep", reason: "sweep", cascade: true });
    expect([200, 202], JSON.stringify(answer.body)).toContain(answer.status);
  };
  if (follower === "queue")
    expect((await post(url, "/mission/wake", project, { missionID: "m", text: list })).status).toBe(200);
  if (follower === "interrupt") {
    const { tasks } = await missionOf(url, project, "m");
    const running = tasks.find(({ lifecycleStatus }) => lifecycleStatus === "active");
    const body = { source: "sweep", text: "Go on.", onBusy: "interrupt" };
    if (running !== undefined)
      expect((await post(url, `/task/${running.taskID}/message`, project, body)).status).toBe(202);
  }
  if (follower === "cancel") await abort();
  if (follower === "delete") {
    const path = at("/mission/m?surface=sweep&reason=sweep", project);
    const first = await send(url, path, { method: "DELETE" });
    expect([200, 409], JSON.stringify(first.body)).toContain(first.status);
    if (first.status === 200) return;
    await abort();
    await atRest(url, project);
    expect((await send(url, path, { method: "DELETE" })).status).toBe(200);
  }
};
