import { availableParallelism } from "node:os";
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTask, makeLab, settledTask, statusOf } from "../../harness/double/hostile-text.ts";
import { makeProject, until } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** Checks that take every place of the machine, beside a Task that only reads. */

let lab: Awaited<ReturnType<typeof makeLab>>;
let service: TestService;
beforeAll(async () => {
  lab = await makeLab({ projectCheckSeconds: 0 }, 3);
  service = await startService(join(lab.root, "data"), { SERVICE_CONFIG: lab.config });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await lab[Symbol.asyncDispose]();
});

/** As many as there are places for work that loads the machine (`service.ts`). */
const places = Math.max(4, 2 * availableParallelism());

test("checks that take every place keep no reads waiting; control: a write waits for the first of them to end", async () => {
  const { url } = service;
  const directory = makeProject(lab.folder("checked"), { "a.txt": "one\n" });
  const other = makeProject(lab.folder("read"), { "b.txt": "two\n" });
  const begun = lab.folder("begun");
  const gate = lab.folder("gate");
  mkdirSync(begun);
  const waits = `touch ${begun}/$$; for i in $(seq 600); do [ -e ${gate} ] && exit 0; sleep 0.05; done; exit 1`;
  const checks = Array.from({ length: places }, (_, at) => ({ name: `c${at}`, kind: "command", run: waits }));
  const checked: string[] = [];
  for (const check of checks) checked.push(await createTask(url, directory, { ...lab.request([]), checks: [check] }));
  await until(
    async () => readdirSync(begun).filter((name) => /^\d+$/.test(name)).length,
    (count) => count === places,
  );

  const reading = await createTask(url, other, {
    ...lab.request([
      { calls: [{ tool: "read", input: { path: "b.txt" } }] },
      { calls: [{ tool: "search", input: { pattern: "two" } }] },
      { calls: [{ tool: "list", input: {} }] },
    ]),
    priority: "critical",
  });
  expect((await settledTask(url, reading)).lifecycleStatus).toBe("completed");
  expect((await statusOf(url, reading)).usage.toolCalls).toBe(3);

  const writing = await createTask(url, other, {
    ...lab.request([{ calls: [{ tool: "write", input: { path: "c.txt", content: "three\n" } }] }]),
    priority: "critical",
  });
  await new Promise((resolve) => setTimeout(resolve, 500));
  expect((await statusOf(url, writing)).now?.text).toMatch(/^(?:Using `write`|Writing `c.txt`)/);
  expect((await statusOf(url, writing)).status).toBe("running");
  writeFileSync(gate, "");
  expect((await settledTask(url, writing)).lifecycleStatus).toBe("completed");
  for (const taskID of checked) expect((await settledTask(url, taskID)).lifecycleStatus).toBe("completed");
  expect(existsSync(join(other, "c.txt"))).toBe(true);
});
