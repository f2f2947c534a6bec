import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { until } from "../harness/project.ts";
import { create, ended, place, send } from "./stage.ts";

/** From one service to several nodes: what was begun before them goes on where its files are. */

describe.skipIf(postgresURL === undefined)("the first nodes of a database", () => {
  test("a Task of a service that had it alone goes on at the node that has its data folder, also where another one starts first", {
    timeout: 90_000,
  }, async () => {
    await using here = await place();
    // The first time it takes longer than its service lives.
    const directory = here.project("p", "test -e .again || { touch .again; sleep 100; }");
    let taskID: string;
    {
      await using sole = await here.start(undefined, "a", { SERVICE_ENGINE: "local" });
      taskID = await create(sole, directory, "run the tests and report");
      await until(
        async () => existsSync(join(here.path, "a", "worktrees", taskID, ".again")),
        (begun) => begun,
      );
    }
    const others = [here.start("b"), here.start("c")];
    // Long enough for them to be up, if they did not wait.
    await new Promise((resolve) => setTimeout(resolve, 4_000));
    await using a = await here.start("a");
    const [b, c] = await Promise.all(others);
    try {
      expect((await ended(a, taskID)).body).toMatchObject({ lifecycleStatus: "completed" });
      expect(await here.sql(`select node from placements where stream = '${taskID}'`)).toEqual([{ node: "a" }]);
      const worktrees = ["a", "b", "c"].map((node) => existsSync(join(here.path, node, "worktrees", `${taskID}.json`)));
      expect(worktrees).toEqual([true, false, false]);
      const { text } = await send(a, "GET", `/task/${taskID}/events?format=json&limit=1000`);
      expect(text.match(/"run.started"/g)).toHaveLength(2);
    } finally {
      await b?.close();
      await c?.close();
    }
  });
});
if (postgresURL === undefined) countSkipped(1);
