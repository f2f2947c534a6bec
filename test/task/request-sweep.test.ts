import { expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import type { RepositoryPlace } from "../../src/repository/repository.ts";
import { createRequestSweep } from "../../src/task/operation/ended/see-request.ts";
import { noRepositories } from "../harness/repositories.ts";

/** Which pull requests are asked for by the hour. */

test("those of the last month's Tasks, of repositories and of clones, that landed as one; a failing one keeps no other from being asked", async () => {
  const now = new Date("2026-06-30T00:00:00Z");
  const day = 24 * 3_600_000;
  const at = (days: number) => now.getTime() - days * day;
  const place = (name: string): RepositoryPlace => ({
    url: `https://forge.example/${name}`,
    ref: null,
    mirror: `/data/${name}/mirror.git`,
    directory: `/data/${name}/head`,
  });
  const rows: Record<string, object[]> = {
    "/data/a/mirror.git": [
      { taskID: "new", landing: "pull-request", updated: at(1) },
      { taskID: "branch", landing: "branch", updated: at(1) },
      { taskID: "old", landing: "pull-request", updated: at(31) },
    ],
    "/data/b/mirror.git": [{ taskID: "other", landing: "pull-request", updated: at(2) }],
    "/home/ada/project/.git": [
      { taskID: "clone", landing: "pull-request", updated: at(1) },
      { taskID: "here", landing: "commit", updated: at(1) },
    ],
  };
  const asked: string[] = [];
  await using sweep = createRequestSweep({
    tasks: {
      see: async (taskID) => {
        asked.push(taskID);
        if (taskID === "new") throw new Error("not any more");
      },
    },
    store: {
      projects: async () => [
        { directory: "/data/a/head", updated: at(1) },
        { directory: "/home/ada/project", updated: at(1) },
        { directory: "/data/b/head", updated: at(2) },
        { directory: "/data/c/head", updated: at(40) },
      ],
      list: async ({ project }: { project: string }) => rows[project] ?? [],
    } as never,
    repositories: {
      ...noRepositories,
      at: (directory) => {
        const name = /^\/data\/(\w)\/head$/.exec(directory)?.[1];
        return name === undefined ? undefined : place(name);
      },
    },
    workspaces: {
      inspect: async (directory: string) => ({ directory, project: `${directory}/.git`, git: undefined }),
    } as never,
    log: silent,
    now: () => now,
  });
  await sweep.begin();
  expect(asked).toEqual(["new", "clone", "other"]);
});
