import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { at, createTask, makeLab, send, settledTask } from "../../harness/double/hostile-text.ts";
import { startService } from "../../harness/service.ts";

/** A service that has made no worktree yet. */

test("a Task can be deleted before there is a folder of worktrees; a second DELETE is 404", async () => {
  await using lab = await makeLab();
  await using service = await startService(join(lab.root, "data"), { SERVICE_CONFIG: lab.config });
  const directory = lab.folder();
  mkdirSync(directory);
  const write = { calls: [{ tool: "write", input: { path: "a.txt", content: "a\n" } }] };
  const taskID = await createTask(service.url, directory, lab.request([write]));
  expect((await settledTask(service.url, taskID)).lifecycleStatus).toBe("completed");
  expect(existsSync(join(service.dataDir, "worktrees"))).toBe(false);
  const path = at(`/task/${taskID}`, directory);
  const deleted = await send(service.url, path, { method: "DELETE" });
  expect([deleted.status, deleted.body]).toEqual([200, { taskID, deleted: true }]);
  expect((await send(service.url, path, { method: "DELETE" })).status).toBe(404);
});
