import { join } from "node:path";
import { describe, test } from "vitest";
import { at, send, statusOf } from "../harness/double/hostile-text.ts";
import { acceptance, textOf } from "../harness/double/mock-provider.ts";
import { dispatch, eventsOf, finish, missionOf, plan, wake } from "../harness/double/missions.ts";
import { teamOf, writePackage } from "../harness/double/squads.ts";
import { sampleByDay } from "../harness/night.ts";
import { readText } from "../harness/project.ts";
import { type Here, type Scene, sameFromEach } from "./scene.ts";
import { create, isOver, pictureOf, taskIn, typesOf } from "./task-scene.ts";

/** What stands in the way of Tasks and Missions, killed right after each event of it: the same end from every point. */

const call = (tool: string, input: object) => ({ calls: [{ tool, input }] });
const over = async (here: Here) => isOver(await statusOf(here.url, await taskIn(here)));

/** The project asks for a server that nobody granted; the tests of the change do not show what it mends. */
const unproven: Scene = {
  points: ["mcp.asked", "contrast.finished", "message.received"],
  files: {
    ".mcp.json": JSON.stringify({ mcpServers: { docs: { command: "/bin/true" } } }),
    "math.mjs": "export const add = (a, b) => a - b;\n",
  },
  say(request) {
    if (request.first.startsWith("# What was asked for")) return acceptance(request);
    if (request.turn > 0) return { text: "No test can." };
    const test = `import test from "node:test";\nimport { add } from "./math.mjs";\ntest("zero", () => add(0, 0));\n`;
    return {
      calls: [
        { tool: "write", input: { path: "math.mjs", content: "export const add = (a, b) => a + b;\n" } },
        { tool: "write", input: { path: "math.test.mjs", content: test } },
      ],
    };
  },
  begin: (here) => create(here, { checks: [{ kind: "command", run: "grep -q '+ b' math.mjs", baseline: true }] }),
  over,
  picture: async (here) => ({ ...(await pictureOf(here)), math: readText(here.directory, "math.mjs") }),
  typesOf,
};

/** An answer that cites what is not there. */
const unsourced: Scene = {
  points: ["message.received"],
  say: ({ body }) => ({
    text: JSON.stringify(body.messages).includes("These lines are not there") ? "It is a.txt:1." : "It is in a.txt:99.",
  }),
  begin: (here) => create(here, { checks: [] }),
  over,
  picture: async (here) => ({
    ...(await pictureOf(here)),
    said: (await statusOf(here.url, await taskIn(here))).summary,
  }),
  typesOf,
};

/** Its command changes the Git directory of the user, which tier 3 cannot forbid. */
const tampered: Scene = {
  points: ["git.tampered"],
  config: () => ({ sandbox: { tier: 3 }, workspace: { setup: "true" }, squad: "team" }),
  prepare: (directory) => writePackage(join(directory, "../data/squads"), teamOf("team", { orchestrator: ["shell"] })),
  say: ({ first, turn }) =>
    turn === 0
      ? call("shell", { command: `git config -f ${/project at (\S+)/.exec(first)?.[1]}/.git/config core.editor evil` })
      : { text: "Done." },
  begin: (here) => create(here, { request: `For the project at ${here.directory} now.`, checks: ["true"] }),
  over,
  picture: async (here) => ({
    ...(await pictureOf(here)),
    error: (await statusOf(here.url, await taskIn(here))).errorInfo?.code,
    evil: readText(here.directory, ".git/config").includes("evil"),
  }),
  typesOf,
};

const missionID = "m";

/** A cap that cannot be kept, a quota, and an agent that goes in circles. Its user goes on each time. */
const circling: Scene = {
  points: ["reply.finished:2", "task.deferred", "reply.finished:12"],
  config: () => ({ limits: { waitSeconds: 0 } }),
  say({ body }, memo) {
    const all = JSON.stringify(body.messages);
    if (!textOf(body.messages[0]?.content).includes("You lead one Mission")) return { text: "Done." };
    if (all.includes("Stop that.")) return { calls: [finish("blocked", "Out of it.")] };
    if (!all.includes("Go on.")) return { calls: [plan("a"), dispatch("a", "Do it.")] };
    if (memo["limited"] === undefined) {
      memo["limited"] = "yes";
      return { fail: { status: 429, message: "slow down", headers: { "retry-after": "2" } } };
    }
    return call("task_status", {});
  },
  async begin({ url, directory }) {
    const { status } = await send(url, at(`/mission/${missionID}/status`, directory));
    if (status === 404) await wake(url, directory, { missionID, text: "Do it.", budget: { maxCostUSD: 1 } });
  },
  async over({ url, directory }) {
    const { state, errorInfo } = await missionOf(url, directory, missionID);
    const say = (text: string, more: object) => wake(url, directory, { missionID, text, ...more });
    if (state === "stalled" && errorInfo?.code === "budget_reached") await say("Go on.", { budget: { maxSteps: 90 } });
    if (state === "stalled" && errorInfo?.code === "loop_detected") await say("Stop that.", {});
    return state === "blocked";
  },
  async picture({ url, directory }) {
    const { state, outcome, tasks, finished } = await missionOf(url, directory, missionID);
    return { state, outcome, finished: finished?.summary, tasks: tasks.map(({ lifecycleStatus }) => lifecycleStatus) };
  },
  typesOf: async ({ url, directory }) => (await eventsOf(url, directory, missionID)).map(({ type }) => type),
};

const scenes: Record<string, Scene> = { unproven, unsourced, tampered, circling };

describe.each(Object.entries(scenes))("what is %s", (name, scene) => {
  test("killed right after each: the same end; control: without a kill it meets all of it", {
    timeout: 600_000,
  }, async () => {
    await sameFromEach(scene, sampleByDay(`what is ${name}`, scene.points, 1));
  });
});
