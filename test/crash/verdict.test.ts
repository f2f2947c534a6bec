import { expect, test } from "vitest";
import { at, send } from "../harness/double/hostile-text.ts";
import { textOf, verdictOn } from "../harness/double/mock-provider.ts";
import { dispatch, eventsOf, finish, missionOf, newestOf, plan, wake } from "../harness/double/missions.ts";
import { sampleByDay } from "../harness/night.ts";
import { git } from "../harness/project.ts";
import { type Scene, sameFromEach } from "./scene.ts";

/** The verdict on the whole of a Mission: rejected, mended, accepted, with a kill right after each event of that. */

const missionID = "m";

const scene: Scene = {
  points: [
    "mission.judging",
    "task.dispatched:2",
    "output.given",
    "task.settled:2",
    "task.ended:2",
    "mission.judging:2",
    "task.dispatched:4",
    "task.ended:4",
    "mission.finished",
  ],
  judges: (request) =>
    request.turn > 0 && !newestOf(request).includes("Interrupted:")
      ? { text: "Judged." }
      : request.first.includes("+b.txt")
        ? verdictOn("accepted", "Both are there.")
        : verdictOn("rejected", "There is no b.txt."),
  say(request) {
    const newest = newestOf(request);
    const all = JSON.stringify(request.body.messages);
    if (!textOf(request.body.messages[0]?.content).includes("You lead one Mission")) {
      const [, path = "a.txt"] = /Write (\S+) now/.exec(request.first) ?? [];
      return request.turn > 0 && !newest.includes("Interrupted:")
        ? { text: "Written." }
        : { calls: [{ tool: "write", input: { path, content: `${path}\n` } }] };
    }
    if (!all.includes('"phases')) return { calls: [plan("a"), dispatch("a", "Write c.txt now.")] };
    if (newest.includes("rejects it")) return { calls: [plan("a", "b"), dispatch("b", "Write b.txt now.")] };
    if (newest.includes("ended completed")) return { calls: [finish("done", "It is written.")] };
    return { text: "It runs." };
  },
  async begin({ url, directory }) {
    const { status } = await send(url, at(`/mission/${missionID}/status`, directory));
    if (status === 404) await wake(url, directory, { missionID, text: "Write c.txt and b.txt.", judged: true });
  },
  over: async ({ url, directory }) => (await missionOf(url, directory, missionID)).state === "done",
  async picture({ url, directory }) {
    const { verified, verdict, finished, tasks } = await missionOf(url, directory, missionID);
    return {
      verified,
      notes: verdict?.notes,
      summary: finished?.summary,
      tasks: tasks.map(({ lifecycleStatus, attempt }) => `${lifecycleStatus} ${attempt}`),
      commits: git(directory, "rev-list", "--count", "HEAD"),
    };
  },
  typesOf: async ({ url, directory }) => (await eventsOf(url, directory, missionID)).map(({ type }) => type),
};

test("a verdict on the whole, killed right after each event: the same end; control: without a kill all of them come", {
  timeout: 600_000,
}, async () => {
  const { picture } = await sameFromEach(scene, sampleByDay("a verdict on the whole", scene.points, 1));
  expect(picture).toMatchObject({ verified: true, notes: "Both are there.", commits: "3" });
});
