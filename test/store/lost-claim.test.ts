import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Client } from "pg";
import { describe, type ExpectStatic, test } from "vitest";
import { silent } from "../../src/log.ts";
import { createPostgresStore } from "../../src/store/postgres/postgres.ts";
import { created } from "../harness/events.ts";
import { message } from "../fixtures/store/message.ts";
import { freshSchema, postgresURL, countSkipped } from "../harness/postgres.ts";

/** Two processes on PostgreSQL: what a worker that was away for too long may still do. Nothing. */

const leaseMs = 1500;
const alive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

const scene = async (url: string, expect: ExpectStatic) => {
  await using scope = new AsyncDisposableStack();
  const dataDir = await mkdtemp(join(tmpdir(), "sortie-fence-"));
  scope.defer(() => rm(dataDir, { recursive: true, force: true }));
  const schema = scope.use(freshSchema(url)).name;
  const store = scope.use(await createPostgresStore({ url, dataDir, log: silent, schema, leaseMs }));
  const first = created();
  const stream = first.data.taskID;
  await store.commit({ appends: [{ stream, expected: 0, events: [first] }] });

  const script = join(import.meta.dirname, "../fixtures/store/hold-claim.ts");
  const holder = spawn(process.execPath, [script, url, schema, stream, String(leaseMs), dataDir], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  scope.defer(async () => {
    if (holder.exitCode !== null || holder.signalCode !== null) return;
    holder.kill("SIGKILL");
    await once(holder, "exit");
  });
  const heard: string[] = [];
  createInterface({ input: holder.stdout }).on("line", (line) => heard.push(line));
  const hear = (line: RegExp, count = 1) =>
    expect.poll(() => heard.filter((each) => line.test(each)).length, { timeout: 8000 }).toBe(count);
  await hear(/^claimed/);
  const child = Number(heard[0]?.split(" ")[1]);
  scope.defer(() => void (alive(child) && process.kill(child, "SIGKILL")));
  const append = () => holder.stdin.write("\n");
  const all = scope.move();
  return { store, stream, holder, heard, hear, child, append, [Symbol.asyncDispose]: () => all.disposeAsync() };
};

const cases: { name: string; run: (url: string, expect: ExpectStatic) => Promise<void> }[] = [
  {
    name: "a claim that lapsed and was taken over is fenced off; its old holder knows, and kills what it started",
    async run(url, expect) {
      await using all = await scene(url, expect);
      const { store, stream, holder, heard, hear, child, append } = all;
      append();
      await hear(/^ok$/);
      expect(await store.claim(stream, "other")).toBeUndefined();

      holder.kill("SIGSTOP");
      let taken: Awaited<ReturnType<typeof store.claim>>;
      await expect
        .poll(async () => (taken ??= await store.claim(stream, "other")) !== undefined, { timeout: 6000, interval: 50 })
        .toBe(true);
      if (taken === undefined) throw new Error("Expected the claim to be taken over");
      expect(alive(child)).toBe(true);
      append();
      append();
      holder.kill("SIGCONT");
      await hear(/^fence$/, 2);
      await hear(/^lost$/);
      await expect.poll(() => alive(child), { timeout: 2000 }).toBe(false);
      append();
      await hear(/^fence$/, 3);
      expect(heard.filter((line) => line === "ok")).toHaveLength(1);
      const own = await store.commit({ appends: [{ stream, expected: 2, events: [message()] }], fence: taken.fence });
      expect(own.ok).toBe(true);
      await taken.release();
    },
  },
  {
    name: "what a dead holder left is due again by itself",
    async run(url, expect) {
      await using all = await scene(url, expect);
      const { store, stream, holder } = all;
      const due = async () => (await store.due(new Date(Date.now() + 1000), 5)).map((each) => each.stream);
      expect(await due()).toEqual([]);
      holder.kill("SIGKILL");
      await expect.poll(due, { timeout: 6000, interval: 50 }).toEqual([stream]);
    },
  },
  {
    name: "a holder that cannot renew gives up while nobody else may take the claim",
    async run(url, expect) {
      await using scope = new AsyncDisposableStack();
      const schema = scope.use(freshSchema(url)).name;
      const dataDir = await mkdtemp(join(tmpdir(), "sortie-fence-"));
      scope.defer(() => rm(dataDir, { recursive: true, force: true }));
      const store = scope.use(await createPostgresStore({ url, dataDir, log: silent, schema, leaseMs }));
      const first = created();
      const stream = first.data.taskID;
      await store.commit({ appends: [{ stream, expected: 0, events: [first] }] });
      await using claim = await store.claim(stream, "holder");
      const blocker = new Client({ connectionString: url, options: `-c search_path=${schema}` });
      await blocker.connect();
      scope.defer(() => blocker.end());
      const now = "extract(epoch from clock_timestamp()) * 1000";

      // The control: a short block costs nothing.
      await blocker.query("begin; select 1 from streams for update");
      await new Promise((resolve) => setTimeout(resolve, leaseMs / 5));
      await blocker.query("rollback");
      await new Promise((resolve) => setTimeout(resolve, leaseMs / 2));
      expect(claim?.lost.aborted).toBe(false);

      await blocker.query("begin; select 1 from streams for update");
      await expect.poll(() => claim?.lost.aborted, { timeout: leaseMs * 2, interval: 10 }).toBe(true);
      const { rows } = await blocker.query<{ left: number }>(
        `select (lease_until - ${now})::float8 as left from streams`,
      );
      expect(rows[0]?.left).toBeGreaterThan(0);
      expect(rows[0]?.left).toBeLessThan(leaseMs / 2);
      await blocker.query("rollback");
    },
  },
  {
    name: "a holder that lives keeps its claim for many leases",
    async run(url, expect) {
      await using all = await scene(url, expect);
      const { store, stream, heard, hear, child, append } = all;
      await new Promise((resolve) => setTimeout(resolve, leaseMs * 2));
      expect(await store.claim(stream, "other")).toBeUndefined();
      append();
      await hear(/^ok$/);
      expect(heard).not.toContain("lost");
      expect(alive(child)).toBe(true);
    },
  },
];

describe.skipIf(postgresURL === undefined)("fence between processes on PostgreSQL", () => {
  for (const { name, run } of cases) test.concurrent(name, ({ expect }) => run(postgresURL ?? "", expect));
});
if (postgresURL === undefined) countSkipped(cases.length);
