import { expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import { createRequestSweep } from "../../src/task/operation/ended/see-pull-request.ts";

/** Which pull requests are asked for by the hour. */

test("those of the last month's Tasks, of repositories and of clones, that landed as one; a failing one keeps no other from being asked", async () => {
  const now = new Date("2026-06-30T00:00:00Z");
  const day = 24 * 3_600_000;
  const at = (days: number) => now.getTime() - days * day;
  const kept = (name: string, days: number) => ({
    directory: `/data/${name}/head`,
    repository: { url: `https://forge.example/${name}.git`, ref: null },
    tasks: 1,
    active: 0,
    updated: at(days),
  });
  const clone = { ...kept("clone", 1), directory: "/home/ada/project", repository: null };
  const rows: Record<string, object[]> = {
    "https://forge.example/a": [
      { taskID: "new", landing: "pull-request", updated: at(1) },
      { taskID: "branch", landing: "branch", updated: at(1) },
      { taskID: "old", landing: "pull-request", updated: at(31) },
    ],
    "https://forge.example/b": [{ taskID: "other", landing: "pull-request", updated: at(2) }],
    "/home/ada/project/.git": [
      { taskID: "clone", landing: "pull-request", updated: at(1) },
      { taskID: "here", landing: "commit", updated: at(1) },
    ],
  };
  const asked: string[] = [];
  await using sweep = createRequestSweep({
    tasks: {
      refreshPullRequest: async (taskID) => {
        asked.push(taskID);
        if (taskID === "new") throw new Error("not any more");
      },
    },
    store: {
      projects: async () => [kept("a", 1), clone, kept("b", 2), kept("c", 40)],
      list: async ({ project }: { project: string }) => rows[project] ?? [],
    } as never,
    workspaces: {
      inspect: async (directory: string) => ({ directory, project: `${directory}/.git`, git: undefined }),
    } as never,
    log: silent,
    now: () => now,
  });
  await sweep.begin();
  expect(asked).toEqual(["new", "clone", "other"]);
});
