import { join } from "node:path";
import { expect, test } from "vitest";
import type { EventType } from "../../src/protocol/event/event.ts";
import { createSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import { silent } from "../../src/log.ts";
import { statusOf } from "../harness/double/hostile-text.ts";
import { acceptance } from "../harness/double/mock-provider.ts";
import { newestOf } from "../harness/double/missions.ts";
import { sampleByDay } from "../harness/night.ts";
import { readText } from "../harness/project.ts";
import { play, type Scene } from "./scene.ts";
import { create, isOver, pictureOf, taskIn, typesOf } from "./task-scene.ts";

/**
 * A service that dies right after `run.stuck`: that a step records nothing cannot be brought about from outside, so the
 * fact is written into the log that a killed service left, as that service would have written it. The next one goes on.
 */

const points = ["run.started", "reply.finished:2", "check.started", "check.finished", "landing.started"];

const stuckAfter = async (dataDir: string): Promise<number> => {
  await using store = await createSqliteStore({ file: join(dataDir, "sortie.db"), dataDir, log: silent });
  const stream = (await store.since(0, 1))[0]?.stream ?? "";
  const version = (await store.state(stream))?.version ?? 0;
  const event = { type: "run.stuck" as const, data: { step: "check", version } };
  const committed = await store.commit({ appends: [{ stream, expected: version, events: [event, event] }] });
  expect(committed.ok).toBe(true);
  return version;
};

const scene = (written: number[]): Scene => ({
  points: ["check.finished"],
  say: (request) => {
    if (request.first.startsWith("# What was asked for")) return acceptance(request);
    return request.turn > 0 && !newestOf(request).includes("Interrupted:")
      ? { text: "It is there." }
      : { calls: [{ tool: "write", input: { path: "b.txt", content: "two\n" } }] };
  },
  async meanwhile(dataDir) {
    written.push(await stuckAfter(dataDir));
  },
  begin: (here) => create(here, { checks: ["grep -qx two b.txt"] }),
  over: async (here) => isOver(await statusOf(here.url, await taskIn(here))),
  picture: async (here) => ({ ...(await pictureOf(here)), made: readText(here.directory, "b.txt") }),
  typesOf,
});

test("killed right after run.stuck, wherever: the same end; control: without it none is on record", {
  timeout: 600_000,
}, async () => {
  const written: number[] = [];
  const stuck: EventType = "run.stuck";
  const told = (types: string[]) => types.filter((type) => type === stuck).length;
  const seen: number[] = [];
  const watched: Scene = {
    ...scene(written),
    async picture(here) {
      seen.push(told(await typesOf(here)));
      return scene(written).picture(here);
    },
  };
  const plain = await play(watched, "");
  expect(plain.picture).toMatchObject({ lifecycleStatus: "completed", made: "two\n" });
  const kills = sampleByDay("where it is stuck", points, 1);
  for (const point of kills) expect([point, (await play(watched, point)).picture]).toEqual([point, plain.picture]);
  expect(seen).toEqual([0, ...kills.map(() => 2)]);
  expect(written).toHaveLength(kills.length);
});
