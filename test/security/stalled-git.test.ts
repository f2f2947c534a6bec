import { execFileSync } from "node:child_process";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import { createProcesses } from "../../src/process/service.ts";
import { createTask, makeLab, post, settledTask, shell, statusOf } from "../harness/double/hostile-text.ts";
import { makeProject, temporary, until } from "../harness/project.ts";
import { startService, type TestService } from "../harness/service.ts";
import { night } from "../harness/night.ts";

/** A git that waits for a FIFO in the tree, for ever: it is ended with its Task, and takes no place from others. */

let lab: Awaited<ReturnType<typeof makeLab>>;
let service: TestService;
beforeAll(async () => {
  lab = await makeLab();
  service = await startService(join(lab.root, "data"), { SERVICE_CONFIG: lab.config });
});
afterAll(async () => {
  await service.close();
  await lab[Symbol.asyncDispose]();
});

const gitsOf = (folder: string): string[] =>
  execFileSync("ps", ["-eww", "-o", "pid=,args="], { encoding: "utf8" })
    .split("\n")
    .filter((line) => /\bgit --no-pager /.test(line) && line.includes(folder));

/** A Task whose commit never comes back. */
const stuck = async () => {
  const directory = makeProject(lab.folder(), { "a.txt": "a" });
  const turns = [shell("mkfifo .gitattributes; echo b > a.txt"), { text: "Done." }];
  return { directory, id: await createTask(service.url, directory, lab.request(turns)) };
};

test("cancel ends a Task whose git hangs, and the git with it", async () => {
  const { directory, id } = await stuck();
  await until(
    () => Promise.resolve(gitsOf(directory).length),
    (count) => count > 0,
  );
  // Control: by itself it does not end.
  await new Promise((resolve) => setTimeout(resolve, 1000));
  expect((await statusOf(service.url, id)).status).toBe("running");
  expect((await post(service.url, `/task/${id}/cancel`, directory, {})).status).toBe(202);
  expect((await settledTask(service.url, id, 5000)).lifecycleStatus).toBe("cancelled");
  await until(
    () => Promise.resolve(gitsOf(directory)),
    (left) => left.length === 0,
  );
});

// By day the one above: this one alone takes 14 s of it.
const atNight = test.runIf(night);
atNight(
  "as many of them as the machine has places, and an ordinary Task ends meanwhile",
  {
    timeout: 60_000,
  },
  async () => {
    const count = Math.max(4, 2 * availableParallelism());
    const hanging = await Promise.all(Array.from({ length: count }, stuck));
    for (const { directory } of hanging)
      await until(
        () => Promise.resolve(gitsOf(directory).length),
        (gits) => gits > 0,
      );
    const directory = makeProject(lab.folder(), { "a.txt": "a" });
    const turns = [shell("echo b > a.txt"), { text: "Done." }];
    const id = await createTask(service.url, directory, lab.request(turns));
    expect((await settledTask(service.url, id, 25_000)).lifecycleStatus).toBe("completed");
    for (const each of hanging) expect((await statusOf(service.url, each.id)).status).toBe("running");
    for (const each of hanging) await post(service.url, `/task/${each.id}/cancel`, each.directory, {});
    for (const each of hanging)
      expect((await settledTask(service.url, each.id, 10_000)).lifecycleStatus).toBe("cancelled");
  },
);

test("patience is by progress: what waits is ended as idle, what works is not", { timeout: 60_000 }, async () => {
  using folder = temporary();
  const processes = createProcesses({ folder: join(folder.path, "p"), keepEnv: process.env, log: silent });
  const run = (text: string) =>
    processes.run("task_1", {
      run: text,
      cwd: folder.path,
      timeoutMs: 20_000,
      idleMs: 3000,
      keepBytes: 100,
      signal: new AbortController().signal,
    });
  const [waits, works] = await Promise.all([
    run("exec sleep 60"),
    run("end=$((SECONDS+9)); while [ $SECONDS -lt $end ]; do :; done"),
  ]);
  expect(waits).toMatchObject({ ended: "timeout", idle: true });
  expect(works).toMatchObject({ ended: "exit", exitCode: 0 });
  await processes.stop();
});
