import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, renameSync, utimesSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import { createProcesses } from "../../src/process/service.ts";
import type { Repositories, RepositoryPlace } from "../../src/repository/repository.ts";
import { createMirrorSweep, unusedMirrors } from "../../src/repository/sweep.ts";
import { clearRemoved } from "../../src/repository/unused.ts";
import { canServe, type GitHost, startGitHost } from "../harness/double/git-host.ts";
import { ofHost, openRepositories } from "../harness/open-repositories.ts";
import { readText, temporary } from "../harness/project.ts";

/** Mirrors that nobody used for long: which go, which stay, and that nothing is in between. */

test("files deeper than a path is long go with their mirror", async () => {
  using temp = temporary("sortie-mirrors-");
  const gone = join(temp.path, ".removed-1/head");
  mkdirSync(gone, { recursive: true });
  execFileSync("bash", ["-c", "mkdir -p $(printf 'd/%.0s' $(seq 2040))"], { cwd: gone });
  await expect(rm(gone, { recursive: true })).rejects.toThrow("ENAMETOOLONG");
  await clearRemoved(temp.path);
  expect(readdirSync(temp.path)).toEqual([]);
});

describe.runIf(canServe)("mirrors that nobody uses", () => {
  const root = temporary("sortie-mirrors-");
  const dataDir = join(root.path, "data");
  const processes = createProcesses({ folder: join(root.path, "processes"), keepEnv: process.env, log: silent });
  const signal = new AbortController().signal;
  let host: GitHost;
  let repositories: Repositories;
  beforeAll(async () => {
    host = await startGitHost(root.path);
    repositories = openRepositories(dataDir, processes, ofHost(host));
  });
  afterAll(async () => {
    await processes.stop();
    await host[Symbol.asyncDispose]();
    root[Symbol.dispose]();
  });

  const fetched = async (name: string): Promise<RepositoryPlace> => {
    host.make(name, { "a.txt": `${name}\n` });
    const place = repositories.place(host.url(name), undefined);
    await repositories.fetch(place, signal);
    return place;
  };
  const longAgo = new Date(Date.now() - 100 * 24 * 3_600_000);
  const age = ({ mirror }: RepositoryPlace) => utimesSync(join(dirname(mirror), "used"), longAgo, longAgo);
  const sweepWith = (having: { tasks?: RepositoryPlace; missions?: RepositoryPlace } = {}, days = 90) => {
    const rows = (of: RepositoryPlace | undefined) => (query: { project?: string }) =>
      Promise.resolve(of?.identity === query.project && of !== undefined ? [{}] : []) as never;
    const store = { list: rows(having.tasks), missions: rows(having.missions) };
    return createMirrorSweep({ dataDir, repositories, store, days, log: silent, now: () => new Date() });
  };
  const names = () => readdirSync(join(dataDir, "repositories")).filter((name) => name !== "given");

  test("one goes that is old and has nothing on record; its next Task fetches it anew", async () => {
    const [old, young, task, mission, squads] = await Promise.all(
      ["old", "young", "task", "mission", "squads"].map((name) => fetched(name)),
    );
    if (!old || !young || !task || !mission || !squads) throw new Error("Expected five places.");
    for (const place of [old, task, mission, squads]) age(place);
    mkdirSync(join(squads.directory, ".sortie/squads/own"), { recursive: true });
    expect(unusedMirrors(dataDir, 90, new Date()).map(({ url }) => url)).toEqual(
      [old, task, mission, squads].map(({ url }) => url).toSorted(),
    );
    {
      await using never = sweepWith({}, 0);
      await never.begin();
    }
    expect(existsSync(old.mirror)).toBe(true);
    await using sweep = sweepWith({ tasks: task, missions: mission });
    await sweep.begin();
    const left = [old, young, task, mission, squads].map(({ mirror }) => existsSync(mirror));
    expect(left).toEqual([false, true, true, true, true]);
    expect(names()).toHaveLength(4);

    expect(await repositories.fetch(old, signal)).toMatchObject({ branch: "refs/heads/main" });
    expect(readText(old.directory, "a.txt")).toBe("old\n");
    // Used now, it stays.
    await sweep.begin();
    expect(existsSync(old.mirror)).toBe(true);
  });

  test("one that is being fetched stays", async () => {
    const place = await fetched("busy");
    age(place);
    let asked = 0;
    host.before = () => new Promise((resolve) => setTimeout(() => resolve(((asked += 1), false)), 200));
    const fetching = repositories.fetch(place, signal);
    await using sweep = sweepWith();
    await sweep.begin();
    expect(existsSync(place.mirror)).toBe(true);
    await fetching;
    host.before = undefined;
    expect(asked).toBeGreaterThan(0);
    // Control: what kept it was the fetch.
    age(place);
    await sweep.begin();
    expect(existsSync(place.mirror)).toBe(false);
  });

  test("what a service that died left half removed goes with the next sweep; a mirror of before has its time from then", async () => {
    const place = await fetched("half");
    const home = dirname(place.mirror);
    renameSync(home, join(dirname(home), ".removed-1"));
    const before = await fetched("before");
    const mark = join(dirname(before.mirror), "used");
    renameSync(mark, `${mark}-not`);
    utimesSync(before.mirror, longAgo, longAgo);
    await using sweep = sweepWith();
    await sweep.begin();
    expect(names().filter((name) => name.startsWith("."))).toEqual([]);
    expect(existsSync(before.mirror)).toBe(true);
    expect(existsSync(mark)).toBe(true);
    writeFileSync(mark, "");
  });
});
