import { describe, test } from "vitest";
import { at, send } from "../harness/double/hostile-text.ts";
import { textOf } from "../harness/double/mock-provider.ts";
import { dispatch, eventsOf, finish, missionOf, newestOf, plan, taskIn, wake } from "../harness/double/missions.ts";
import { sampleByDay } from "../harness/night.ts";
import { git } from "../harness/project.ts";
import { type Here, type Scene, sameFromEach } from "./scene.ts";

/**
 * Missions that meet what the sweep's own runs do not, killed right after each of it: the same end from every point.
 */

const missionID = "m";
const isMission = (system: string) => system.includes("You lead one Mission");
const typesOf = async ({ url, directory }: Here) => (await eventsOf(url, directory, missionID)).map(({ type }) => type);
/**
 * An hour by the clock of this process; another one where nothing came of it. The one before may have been hours ahead.
 */
const anHour = ({ memo, service }: Here, why: string) => {
  const key = `${why} ${service.child.pid}`;
  if (Date.now() - Number(memo[key] ?? 0) < 5_000) return;
  memo[key] = String(Date.now());
  service.child.kill("SIGALRM");
};
const pictureOf = async ({ url, directory }: Here) => {
  const { state, outcome, tasks, plan: phases } = await missionOf(url, directory, missionID);
  return {
    state,
    outcome,
    tasks: tasks.map(({ lifecycleStatus, attempt, budget }) => ({ lifecycleStatus, attempt, budget })),
    phases: phases.map(({ id, state: stands }) => `${id} ${stands}`),
    commits: git(directory, "rev-list", "--count", "HEAD"),
  };
};

const phase = (input: object) => ({ tool: "phase", input });
const begin = async ({ url, directory }: Here, body: object) => {
  const { status } = await send(url, at(`/mission/${missionID}/status`, directory));
  if (status === 404) await wake(url, directory, { missionID, text: "Do it.", ...body });
};
const patch = ({ url, directory }: Here, path: string, body: object) =>
  send(url, at(path, directory), { method: "PATCH", body });

/** Its agent sets a time, changes the plan, and sends a Task back; its user gives more and renames it. */
const steered: Scene = {
  points: [
    "task.watched",
    "task.overdue",
    "phase.dropped",
    "plan.ordered",
    "task.reopened",
    "task.reserved",
    "task.messaged",
    "mission.updated",
    "mission.waiting",
  ],
  again: ["task.watched"],
  async say(request, memo) {
    const newest = newestOf(request);
    if (!isMission(textOf(request.body.messages[0]?.content))) {
      for (let waited = 0; memo["free"] === undefined && waited < 600; waited += 1)
        await new Promise((resolve) => setTimeout(resolve, 50));
      return { text: "Done." };
    }
    const all = JSON.stringify(request.body.messages);
    const did = (words: string) => all.includes(words);
    if (!did("lookInMinutes"))
      return { calls: [plan("a", "b", "c"), dispatch("a", "Long.", { lookInMinutes: 30, budget: { maxSteps: 10 } })] };
    const task = taskIn(newest);
    const ended = newest.includes("ended completed");
    if (ended && !did("Once more, please."))
      return {
        calls: [
          phase({ id: "c", drop: true }),
          phase({ id: "b", before: "a" }),
          { tool: "task_message", input: { task, text: "Once more, please." } },
        ],
      };
    if (newest.includes("has not ended by the time"))
      return { calls: [{ tool: "task_status", input: { tasks: [task], lookInMinutes: 600 } }] };
    if (newest.includes("The time that you set is over.")) return { calls: [finish("blocked", "Enough.")] };
    if (ended) return { calls: [finish("waiting", "Later.", { wakeInMinutes: 40 })] };
    return { text: "It runs." };
  },
  begin: (here) => begin(here, { budget: { maxSteps: 80 } }),
  async over(here) {
    const { directory, url, memo } = here;
    const mission = await missionOf(url, directory, missionID);
    const types = await typesOf(here);
    if (!types.includes("mission.updated")) await patch(here, `/mission/${missionID}/title`, { title: "Steered" });
    const [task] = mission.tasks;
    if (task !== undefined && !types.includes("task.reserved"))
      await patch(here, `/task/${task.taskID}`, { budget: { maxSteps: 12 } });
    if (task !== undefined && !types.includes("task.messaged"))
      await send(url, at(`/task/${task.taskID}/message`, directory), {
        method: "POST",
        body: { source: "api", text: "With tabs." },
      });
    if (types.includes("task.dispatched") && !types.includes("task.overdue")) anHour(here, "overdue");
    if (["task.watched", "task.reserved", "task.messaged"].every((type) => types.includes(type))) memo["free"] = "yes";
    if (mission.state === "waiting" && mission.outcome === "waiting") anHour(here, "waiting");
    return mission.state === "blocked";
  },
  picture: pictureOf,
  typesOf,
};

/** Its agent says nothing of how the Mission ends; its budget is used up; its user goes on each time. */
const still: Scene = {
  points: ["mission.reminded", "mission.stalled", "mission.paused"],
  say(request) {
    const newest = newestOf(request);
    const all = JSON.stringify(request.body.messages);
    if (!all.includes('"phases')) return { calls: [plan("a")] };
    if (newest.includes("Go on.")) return { calls: [{ tool: "task_status", input: {} }] };
    if (all.includes("Enough now.")) return { calls: [finish("blocked", "All of it.")] };
    return { text: "Hm." };
  },
  begin: (here) => begin(here, {}),
  async over(here) {
    const { directory, url } = here;
    const { state } = await missionOf(url, directory, missionID);
    const types = await typesOf(here);
    const say = (text: string, more: object) => wake(url, directory, { missionID, text, ...more });
    if (state === "stalled" && !types.includes("mission.paused")) await say("Go on.", { budget: { maxSteps: 4 } });
    if (state === "paused") await say("Enough now.", { budget: { maxSteps: 40 } });
    return state === "blocked";
  },
  picture: pictureOf,
  typesOf,
};

const scenes: Record<string, Scene> = { steered, still };

describe.each(Object.entries(scenes))("a Mission that is %s", (name, scene) => {
  test("killed right after each: the same end; control: without a kill it meets all of it", {
    timeout: 600_000,
  }, async () => {
    await sameFromEach(scene, sampleByDay(`what a Mission that is ${name} meets`, scene.points, 1));
  });
});
