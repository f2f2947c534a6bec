import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporary } from "./harness/project.ts";
import { inThread, type Job, ThreadLimit } from "../src/thread.ts";
import { paging } from "../src/tool/file/page.ts";

/** Threads for what could hold up the service: a job ends by itself, by its time, or by its caller. */

/** A second or so of work: the last of very many lines. */
const long = () => ({ path: "a.txt", bytes: Buffer.alloc(2 ** 26, "\n"), offset: 2 ** 26 });
const short = { path: "a.txt", bytes: Buffer.from("one\n") };

const took = async (work: () => Promise<unknown>): Promise<number> => {
  const begun = performance.now();
  await work();
  return performance.now() - begun;
};

test("who gives up is answered at once, and the next job is not kept waiting; control: the job itself takes long", async () => {
  const whole = await took(() => inThread(paging, long()));
  const over = new AbortController();
  const reason = new Error("given up");
  const working = inThread(paging, long(), { signal: over.signal });
  const ended = took(() => expect(working).rejects.toBe(reason));
  setTimeout(() => over.abort(reason), 20);
  expect(await ended).toBeLessThan(whole / 2);
  expect(await inThread(paging, short)).toEqual({ ok: true, text: expect.stringContaining("one") as string });
  await expect(inThread(paging, short, { signal: over.signal })).rejects.toBe(reason);
});

test("a job that waits for a thread leaves the queue when its caller gives up", async () => {
  const over = new AbortController();
  const reason = new Error("given up");
  const first = [inThread(paging, long()), inThread(paging, long())];
  const waiting = inThread(paging, short, { signal: over.signal });
  const next = inThread(paging, short);
  over.abort(reason);
  await expect(waiting).rejects.toBe(reason);
  await Promise.all(first);
  expect((await next).ok).toBe(true);
});

test("a job is ended by its time; control: with more of it the same job ends by itself", async () => {
  await expect(inThread(paging, long(), { timeoutMs: 20 })).rejects.toThrow(ThreadLimit);
  expect((await inThread(paging, long(), { timeoutMs: 30_000 })).ok).toBe(true);
});

test("an error of a job, and a job that there is not, reject, and the thread serves on", async () => {
  const none: Job<string, string> = { name: "none", run: (text) => text };
  await expect(inThread(none, "a")).rejects.toThrow("Expected a job of service/thread.ts, got none");
  await expect(inThread(paging, { ...short, bytes: null as never })).rejects.toThrow("null");
  expect((await inThread(paging, short)).ok).toBe(true);
});

test("without descriptors no thread starts, its job alone fails, and with them again the next has one", () => {
  using folder = temporary();
  const from = (path: string) => JSON.stringify(new URL(`../src/${path}`, import.meta.url).href);
  const script = join(folder.path, "threads.mjs");
  writeFileSync(
    script,
    `import { closeSync, openSync } from "node:fs";
    import { inThread } from ${from("thread.ts")};
    import { paging } from ${from("tool/file/page.ts")};
    const page = () => inThread(paging, { path: "a.txt", bytes: Buffer.from("a\\n") }).then(() => "paged", ({ code }) => code);
    const all = [];
    try { for (;;) all.push(openSync("/dev/null")); } catch {}
    const short = await Promise.all([page(), page(), page()]);
    for (const fd of all) closeSync(fd);
    console.log(JSON.stringify([short, await page()]));`,
  );
  const limited = ["-c", `ulimit -n 128; exec "$0" "$@"`, process.execPath, script];
  const { stdout, stderr } = spawnSync("bash", limited, { encoding: "utf8" });
  const none = "ERR_WORKER_INIT_FAILED";
  expect(stdout, stderr).toBe(`${JSON.stringify([[none, none, none], "paged"])}\n`);
});
