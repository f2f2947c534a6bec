import { existsSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { until } from "../harness/project.ts";
import { change, create, ended, place, send, serve } from "./stage.ts";

/** Services on one database that nobody named: each is called after its data folder, and is one of several. */

const selfOf = async (service: { url: string }) => (await send(service, "GET", "/nodes")).body["self"];

describe.skipIf(postgresURL === undefined)("services that nobody named", () => {
  test("share a database; a name that one is given later has what it began, and so has a folder made anew", {
    timeout: 120_000,
  }, async () => {
    await using here = await place();
    // The first time it takes longer than its service lives.
    const directory = here.project("p", "test -e .again || { touch .again; sleep 100; }");
    const known = here.project("q");
    const data = join(here.path, "My Data");
    let taskID: string;
    await using b = await here.start(undefined, "b");
    {
      await using a = await here.start(undefined, "My Data");
      expect(await selfOf(a)).toMatch(/^my-data-[0-9a-f]{8}$/);
      expect(await selfOf(b)).toMatch(/^b-[0-9a-f]{8}$/);
      taskID = await create(a, directory, "run the tests and report");
      await until(
        async () => existsSync(join(data, "worktrees", taskID, ".again")),
        (begun) => begun,
      );
      expect((await send(b, "GET", `/task/${taskID}/status`)).body).toMatchObject({ lifecycleStatus: "active" });
    }
    {
      await using a = await here.start("a", "My Data");
      expect(await selfOf(a)).toBe("a");
      expect((await ended(a, taskID)).body).toMatchObject({ lifecycleStatus: "completed" });
      await ended(a, await create(a, known, "say hello"));
      expect(await here.sql("select distinct node from placements")).toEqual([{ node: "a" }]);
      expect(await here.sql("select name from nodes order by name")).toMatchObject([{}, {}]);
    }
    rmSync(data, { recursive: true });
    // Of the folder that is gone nothing is left but its name in the database.
    await using again = await here.start(undefined, "My Data");
    const name = await selfOf(again);
    const next = await create(b, known, change);
    expect((await ended(again, next)).body).toMatchObject({ lifecycleStatus: "completed" });
    expect(await here.sql(`select node from placements where stream = '${next}'`)).toEqual([{ node: name }]);
  });

  test("SIGTERM of the only one lets nobody wait; beside another it finishes its step first", {
    timeout: 120_000,
  }, async () => {
    await using here = await place();
    const directory = here.project("p", "touch .again; sleep 4");
    const env = (data: string) => ({
      ...here.env(undefined),
      SERVICE_DATA_DIR: join(here.path, data),
      HOME: here.path,
    });
    const stopped = async (data: string): Promise<number> => {
      await using service = await serve(env(data));
      const taskID = await create(service, directory, "run the tests and report", { landing: "branch" });
      await until(
        async () => existsSync(join(here.path, data, "worktrees", taskID, ".again")),
        (begun) => begun,
      );
      const begun = performance.now();
      expect(await service.stop("SIGTERM")).toBe(0);
      return performance.now() - begun;
    };
    expect(await stopped("a")).toBeLessThan(2_000);
    await using _other = await here.start(undefined, "other");
    expect(await stopped("b")).toBeGreaterThan(2_000);
  });

  test("one whose blobs are in its folder has the database alone until they have moved, while it works", {
    timeout: 120_000,
  }, async () => {
    await using here = await place();
    const directory = here.project("p");
    const long = `${change}\n${"All of it. ".repeat(20_000)}`;
    const folder = join(here.path, "a", "blobs");
    const files = () => readdirSync(folder, { recursive: true }).filter((name) => /[0-9a-f]{64}$/.test(String(name)));
    let taskID: string;
    {
      await using a = await here.start(undefined, "a", { SERVICE_ENGINE: "local", SERVICE_BLOBS: "folder" });
      taskID = await create(a, directory, long, { landing: "branch" });
      await ended(a, taskID);
    }
    expect(files().length).toBeGreaterThan(0);
    await using a = await here.start(undefined, "a");
    const alone = {
      exitCode: 75,
      message: expect.stringMatching(/uses this database alone.*sortie blobs move/) as string,
    };
    await expect(here.start(undefined, "b")).rejects.toMatchObject(alone);
    const whole = async (service: { url: string }) =>
      (await send(service, "GET", `/task/${taskID}/messages`, { directory })).text.includes(long.slice(-100_000));
    expect(await whole(a)).toBe(true);
    const move = () => send(a, "POST", "/blobs/move");
    const after = await until(move, ({ body }) => body["state"] === "moved");
    expect(after).toMatchObject({ status: 200, body: { place: "database", state: "moved" } });
    expect(files()).toEqual([]);
    await using b = await until(
      () => here.start(undefined, "b").catch(() => undefined),
      (started) => started !== undefined,
    );
    if (b === undefined) throw new Error("Expected a second service.");
    expect([await whole(a), await whole(b)]).toEqual([true, true]);
    // What is begun now has its texts where both can read them.
    taskID = await create(a, directory, long, { landing: "branch" });
    await ended(a, taskID);
    expect(await whole(b)).toBe(true);
    expect(files()).toEqual([]);
  });

  test("a folder that would hide the blobs of the database is refused; control: unset it starts", {
    timeout: 60_000,
  }, async () => {
    await using here = await place();
    {
      await using a = await here.start(undefined, "a");
      await ended(a, await create(a, here.project("p"), `${change}\n${"All of it. ".repeat(20_000)}`));
    }
    await expect(here.start(undefined, "a", { SERVICE_BLOBS: "folder" })).rejects.toMatchObject({
      exitCode: 78,
      message: expect.stringMatching(/SERVICE_BLOBS=folder/) as string,
    });
    mkdirSync(join(here.path, "a", "blobs"), { recursive: true });
    await using _a = await here.start(undefined, "a");
  });
});
if (postgresURL === undefined) countSkipped(4);
