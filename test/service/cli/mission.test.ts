import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createServiceClient } from "../../../src/client/client.ts";
import { makeProject, readText, temporary, until } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";
import { sortieIn } from "../../harness/sortie.ts";

/** `sortie mission …` and the client's `mission.*`, against a real service with the embedded rules. */

const root = temporary("sortie-cli-mission-");
let service: TestService;
let project = "";

beforeAll(async () => {
  project = makeProject(join(root.path, "project"), { "a.txt": "one\n" });
  service = await startService(join(root.path, "data"), { SERVICE_MODEL: "builtin/rules-1" });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  root[Symbol.dispose]();
});

const clientOf = () => createServiceClient({ baseUrl: service.url, directory: project });

const sortie = (...args: string[]) => sortieIn(() => ({ url: service.url, directory: project }))("mission", ...args);

const list =
  "1. Write it\n\n   ```txt file=made.txt\n   made\n   ```\n\n2. Look (after 1)\n\n   ```txt file=seen.txt\n   seen\n   ```\n";

test("wake, follow, show, logs, title, hide, archive, abort, delete", { timeout: 60_000 }, async () => {
  const followed = await sortie("wake", list, "--id", "m", "-f");
  expect(followed.code, followed.out).toBe(0);
  expect(followed.out).toMatch(/Plan: item-1: Write it[\s\S]*Plan: item-2 \(after item-1\): Look/);
  expect(followed.out).toMatch(/DONE: 2\/2 phases, 2 Tasks, 0 running/);
  expect([readText(project, "made.txt"), readText(project, "seen.txt")]).toEqual(["made\n", "seen\n"]);

  expect((await sortie("show", "m")).out).toMatch(/item-2 +done +base +after item-1/);
  expect((await sortie("logs", "m")).out).toMatch(/Dispatched Write it/);
  expect((await sortie("title", "m", "Another")).out).toContain("Another");
  expect((await sortie("ls", "--search", "another")).out).toContain("m");
  await sortie("hide", "m");
  expect((await sortie("ls")).out).toContain("No Missions here yet");
  await sortie("hide", "m", "--undo");
  const zip = join(root.path, "m.zip");
  expect((await sortie("archive", "m", "-o", zip)).code).toBe(0);
  expect(existsSync(zip)).toBe(true);
  expect((await sortie("abort", "m", "--cascade", "--reason", "enough")).out).toContain("aborted; 0 Tasks run");
  expect((await sortie("delete", "m")).out).toContain("its Tasks are kept");
  const gone = await sortie("show", "m");
  expect([gone.code, gone.out]).toEqual([2, expect.stringContaining("No Mission has this id")]);
  const blocked = await sortie("wake", "Make it all better.", "--id", "n", "-f");
  expect(blocked.code).toBe(1);
  expect(blocked.out).toMatch(/STOPPED[\s\S]*NEEDS_MODEL/);
});

test("the client's operations, its stream and its errors", { timeout: 30_000 }, async () => {
  writeFileSync(join(project, "note.txt"), "x");
  const client = clientOf();
  const { data, error } = await client.mission.wake({ body: { missionID: "c", text: "1. run the checks" } });
  expect([data?.missionID, error]).toEqual(["c", undefined]);
  const stop = new AbortController();
  const events = await client.mission.events({ path: { missionID: "c" }, query: { after: 0 }, signal: stop.signal });
  const seen: string[] = [];
  for await (const event of events.data ?? []) {
    seen.push(event.type);
    if (event.type === "mission.finished" || event.type === "reply.finished") stop.abort();
  }
  expect(seen.slice(0, 3)).toEqual(["mission.snapshot", "mission.created", "mission.woken"]);
  await until(
    async () => (await client.mission.status({ path: { missionID: "c" } })).data,
    (mission) => mission?.agentStatus === "inactive",
  );
  const renamed = await client.mission.rename({ path: { missionID: "c" }, body: { title: "New" } });
  expect(renamed.data?.title).toBe("New");
  expect((await client.mission.list({})).data?.map(({ missionID }) => missionID)).toContain("c");
  expect((await client.mission.messages({ path: { missionID: "c" } })).data?.total).toBeGreaterThan(1);
  expect((await client.mission.archive({ path: { missionID: "c" }, body: { archived: true } })).data?.archived).toBe(
    true,
  );
  expect((await client.mission.abort({ path: { missionID: "c" }, body: {} })).data?.aborted).toBe(true);
  expect((await client.mission.delete({ path: { missionID: "c" } })).data?.deleted).toBe(true);
  expect((await client.mission.status({ path: { missionID: "c" } })).error).toMatchObject({
    code: "mission_not_found",
  });
});
