import { appendFileSync, existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { at, send, statusOf } from "../harness/double/hostile-text.ts";
import { acceptance, textOf } from "../harness/double/mock-provider.ts";
import { eventsOf, finish, landedSquad, missionOf, newestOf, plan, wake } from "../harness/double/missions.ts";
import { sampleByDay } from "../harness/night.ts";
import { readText, temporary } from "../harness/project.ts";
import { mountSmall } from "../harness/small-disk.ts";
import { type Here, type Scene, sameFromEach } from "./scene.ts";
import { create, isOver, pictureOf, taskIn, typesOf } from "./task-scene.ts";

/**
 * What the service does not have in its own hands: an agent that is another program, a disk that somebody else fills, a
 * squad that was not made. Killed right after each event of it: the same end from every point.
 */

const call = (tool: string, input: object) => ({ calls: [{ tool, input }] });
const over = async (here: Here) => isOver(await statusOf(here.url, await taskIn(here)));

const repository = fileURLToPath(new URL("../..", import.meta.url));
const program = fileURLToPath(new URL("../fixtures/acp/agent.ts", import.meta.url));

/** Its agent speaks ACP. */
const attached: Scene = {
  points: ["agent.attached", "reply.finished:2", "check.finished"],
  // The next run starts the program anew.
  again: ["agent.attached"],
  config: () => ({
    sandbox: { paths: [repository] },
    agents: { small: { command: `exec ${process.execPath} ${program}`, env: ["MODEL_URL"] } },
  }),
  say: (request) =>
    request.turn > 0 && !newestOf(request).includes("Interrupted:")
      ? { text: "It is there." }
      : call("write", { path: "b.txt", content: "two\n" }),
  begin: (here) => create(here, { promptProfile: "acp-small", checks: ["grep -qx two b.txt"] }),
  over,
  picture: async (here) => ({ ...(await pictureOf(here)), made: readText(here.directory, "b.txt") }),
  typesOf,
};

const mib = 1024 ** 2;
const ballastOf = (root: string) => join(root, "ballast");

/** Somebody fills the disk while the model answers, and makes room when the Task has paused. */
const paused: Omit<Scene, "points"> = {
  // A service that starts on the full disk pauses once more.
  again: ["run.paused"],
  config: () => ({ limits: { diskFreeBytes: 128 * mib, diskFreePercent: 0, diskPauseBytes: 128 * mib } }),
  prepare(directory) {
    root = join(directory, "..");
  },
  say(request, memo) {
    if (request.first.startsWith("# What was asked for")) return acceptance(request);
    if (request.turn > 0 && !newestOf(request).includes("Interrupted:")) return { text: "Done." };
    if (memo["filled"] === undefined) {
      memo["filled"] = "yes";
      for (let each = 0; each < 20; each += 1) appendFileSync(ballastOf(root), Buffer.alloc(16 * mib));
    }
    return call("write", { path: "b.txt", content: "two\n" });
  },
  begin: (here) => create(here, { checks: ["grep -qx two b.txt"] }),
  async over(here) {
    if ((await typesOf(here)).includes("run.paused")) rmSync(ballastOf(here.root), { force: true });
    return over(here);
  },
  picture: async (here) => ({
    ...(await pictureOf(here)),
    made: readText(here.directory, "b.txt"),
    full: existsSync(ballastOf(here.root)),
  }),
  typesOf,
};
/** Where it plays. */
let root = "";

const missionID = "m";

const roster = ["one", "two", "three"].map((name) => ({ name, duty: "A duty." }));
const crew = { phase: "p", squad: "new-crew", name: "Crew", summary: "A crew.", roster };
const author = {
  name: "Crew",
  summary: "A crew.",
  notFor: "Anything else.",
  pillars: ["code"],
  orchestrator: "You lead the crew.",
  agents: roster.map(({ name, duty }) => ({ name, description: duty, instructions: "You do it." })),
};

/** A squad is made, and is gone from the project before it is first used. */
const unmade: Scene = {
  points: ["squad.refused"],
  prepare(directory) {
    project = directory;
  },
  async say(request) {
    if (!textOf(request.body.messages[0]?.content).includes("You lead one Mission"))
      return request.turn === 0 ? call("author_squad", author) : { text: "Made." };
    const newest = newestOf(request);
    if (newest.includes("cannot be used")) return { calls: [finish("blocked", "There is no squad for it.")] };
    if (!JSON.stringify(request.body.messages).includes("new-crew"))
      return { calls: [plan("p"), { tool: "produce_squad", input: crew }] };
    await landedSquad(project, "new-crew");
    rmSync(join(project, ".sortie/squads/new-crew"), { recursive: true });
    return { text: "It is made." };
  },
  async begin({ url, directory }) {
    const { status } = await send(url, at(`/mission/${missionID}/status`, directory));
    if (status === 404) await wake(url, directory, { missionID, text: "Do it.", allowSquadProduction: true });
  },
  over: async ({ url, directory }) => (await missionOf(url, directory, missionID)).state === "blocked",
  async picture({ url, directory }) {
    const { state, outcome, finished, tasks } = await missionOf(url, directory, missionID);
    return { state, outcome, finished: finished?.summary, tasks: tasks.map(({ lifecycleStatus }) => lifecycleStatus) };
  },
  typesOf: async ({ url, directory }) => (await eventsOf(url, directory, missionID)).map(({ type }) => type),
};

/** Where its squad is made. */
let project = "";

describe.each(Object.entries({ attached, unmade }))("what is %s", (name, scene) => {
  test("killed right after each: the same end; control: without a kill it meets all of it", {
    timeout: 600_000,
  }, async () => {
    await sameFromEach(scene, sampleByDay(`what is ${name}`, scene.points, 1));
  });
});

// The next run goes on without a word where there is room when it begins.
test.for(["run.paused", "run.resumed"])(
  "what is paused, killed after %s: the same end; control: it comes",
  {
    timeout: 600_000,
  },
  async (point, { skip }) => {
    using folder = temporary("sortie-paused-");
    using disk = mountSmall(join(folder.path, "disk"), "tmpfs", 400);
    if (disk === undefined) return skip();
    const before = process.env["TMPDIR"];
    process.env["TMPDIR"] = disk.path;
    try {
      const { picture } = await sameFromEach({ ...paused, points: [point] }, [point]);
      expect(picture).toMatchObject({ lifecycleStatus: "completed", made: "two\n", full: false });
    } finally {
      if (before === undefined) delete process.env["TMPDIR"];
      else process.env["TMPDIR"] = before;
    }
  },
);
