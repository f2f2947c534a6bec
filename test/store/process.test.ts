import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import Database from "better-sqlite3";
import { expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import { createBlobs } from "../../src/store/blob/folder.ts";
import { createSqliteStore } from "../../src/store/sqlite/sqlite.ts";

/** What only processes show: the lock, and what a kill or a full disk leaves. */

const fixture = (name: string) => join(import.meta.dirname, "../fixtures/store", name);

const start = (name: string, ...args: string[]) => {
  const child = spawn(process.execPath, [fixture(name), ...args], { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout });
  return {
    child,
    lines,
    next: async (): Promise<string> => String((await once(lines, "line"))[0]),
    [Symbol.asyncDispose]: () => kill(child),
  };
};

const kill = async (child: ChildProcess): Promise<void> => {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGKILL");
  await once(child, "exit");
};

const folder = async (): Promise<AsyncDisposable & { path: string }> => {
  const path = await mkdtemp(join(tmpdir(), "sortie-store-"));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
};

test("one server per data folder; the lock of a killed one is free at once", async () => {
  await using data = await folder();
  await using first = start("hold-lock.ts", data.path);
  expect(await first.next()).toBe("locked");
  await using second = start("hold-lock.ts", data.path);
  const refused = JSON.parse(await second.next()) as { exitCode: number; message: string };
  expect(refused.exitCode).toBe(75);
  expect(refused.message).toContain(data.path);
  expect(refused.message).toContain("SERVICE_DATA_DIR");
  await kill(first.child);
  await using third = start("hold-lock.ts", data.path);
  expect(await third.next()).toBe("locked");
});

test("everything acknowledged before kill -9 is there after it", async () => {
  await using data = await folder();
  for (const after of [40, 150, 400]) {
    await using writer = start("commit-on.ts", data.path);
    const { child, lines } = writer;
    const acknowledged: number[] = [];
    await new Promise<void>((resolve) => {
      lines.on("line", (line) => {
        acknowledged.push(Number(line));
        if (acknowledged.length === after) resolve();
      });
    });
    await kill(child);
    await using store = await createSqliteStore({ file: join(data.path, "s.db"), dataDir: data.path, log: silent });
    await store.verify();
    const log = await store.since(0, 100_000);
    const there = new Set(log.map(({ position }) => position));
    expect(acknowledged.length).toBeGreaterThanOrEqual(after);
    expect(acknowledged.filter((position) => !there.has(position))).toEqual([]);
    expect(await store.position()).toBe(log.at(-1)?.position);
    for (const stream of new Set(log.map((event) => event.stream))) {
      const versions = (await store.read(stream)).map(({ version }) => version);
      expect((await store.state(stream))?.version).toBe(versions.length);
      expect((await store.due(new Date(Date.now() + 1000), 1000)).map((due) => due.stream)).toContain(stream);
    }
  }
});

const prlimit = async (...args: string[]): Promise<boolean> =>
  promisify(execFile)("prlimit", args).then(
    () => true,
    () => false,
  );

test("a full disk refuses commits with store_unavailable, loses nothing, and is over when there is room", async (context) => {
  if (!(await prlimit("--fsize"))) context.skip("prlimit is not here");
  await using data = await folder();
  await using writer = start("commit-on.ts", data.path);
  const { child, lines } = writer;
  const pid = String(child.pid);
  const acknowledged: number[] = [];
  let refused: string | undefined;
  let resolveNext = () => {};
  lines.on("line", (line) => {
    if (line.startsWith("no")) refused = line;
    else acknowledged.push(Number(line));
    resolveNext();
  });
  const until = async (met: () => boolean): Promise<void> => {
    while (!met())
      await new Promise<void>((resolve) => {
        resolveNext = resolve;
      });
  };
  await until(() => acknowledged.length > 50);
  await prlimit("--pid", pid, "--fsize=1:unlimited");
  await until(() => refused !== undefined);
  expect(refused).toBe("no store_unavailable");
  await new Promise((resolve) => setTimeout(resolve, 100));
  const full = acknowledged.length;
  await new Promise((resolve) => setTimeout(resolve, 200));
  expect(acknowledged.length).toBe(full);
  await prlimit("--pid", pid, "--fsize=unlimited:unlimited");
  await until(() => acknowledged.length > full + 50);
  await kill(child);
  await using store = await createSqliteStore({ file: join(data.path, "s.db"), dataDir: data.path, log: silent });
  const there = new Set((await store.since(0, 100_000)).map(({ position }) => position));
  expect(acknowledged.filter((position) => !there.has(position))).toEqual([]);
  expect(there.size).toBeGreaterThan(full);
});

test("damage is told after an unclean stop, and only then looked for", async () => {
  await using data = await folder();
  const file = join(data.path, "s.db");
  await using writer = start("commit-on.ts", data.path);
  const { child, lines } = writer;
  await new Promise<void>((resolve) => {
    let count = 0;
    lines.on("line", () => ++count === 300 && resolve());
  });
  await kill(child);
  new Database(file).pragma("wal_checkpoint(TRUNCATE)");
  const { size } = await stat(file);
  const database = new Database(file);
  const root = database
    .prepare<[], { rootpage: number }>("select rootpage from sqlite_master where name = 'events_version'")
    .get();
  database.close();
  const { open } = await import("node:fs/promises");
  const handle = await open(file, "r+");
  await handle.write(Buffer.alloc(2048, 0xff), 0, 2048, ((root?.rootpage ?? 1) - 1) * 4096);
  await handle.close();
  expect(size).toBeGreaterThan(100_000);
  await using store = await createSqliteStore({ file, dataDir: data.path, log: silent });
  await expect(store.verify()).rejects.toMatchObject({ name: "StartError", exitCode: 70 });
  await expect(store.check()).rejects.toMatchObject({ code: "store_unavailable" });

  // The control: what was closed in good order is not read again.
  await using sound = await folder();
  const options = { file: join(sound.path, "s.db"), dataDir: sound.path, log: silent };
  await (await createSqliteStore(options))[Symbol.asyncDispose]();
  await using reopened = await createSqliteStore(options);
  await reopened.verify();
  await reopened.check();
});

test("a file that is no database, and one of two versions later, are refused with the remedy", async () => {
  await using data = await folder();
  const file = join(data.path, "s.db");
  await writeFile(file, "this is not a database, it is a text ".repeat(300));
  await expect(createSqliteStore({ file, dataDir: data.path, log: silent })).rejects.toMatchObject({ exitCode: 70 });
  await rm(file);
  await (await createSqliteStore({ file, dataDir: data.path, log: silent }))[Symbol.asyncDispose]();
  const migrated = (name: string) => {
    const database = new Database(file);
    database.exec(`insert into migrations values ('${name}', '')`);
    database.close();
  };
  // Control: of the next release it is taken.
  migrated("9998-next.r2");
  await (await createSqliteStore({ file, dataDir: data.path, log: silent }))[Symbol.asyncDispose]();
  migrated("9999-later.r9");
  await expect(createSqliteStore({ file, dataDir: data.path, log: silent })).rejects.toMatchObject({ exitCode: 78 });
});

test("blobs are stored once, whole, private, and found again", async () => {
  await using data = await folder();
  const blobs = createBlobs(join(data.path, "blobs"));
  const bytes = Buffer.from("hello");
  const sha256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
  const refs = await Promise.all([
    blobs.put(bytes),
    blobs.put(bytes),
    createBlobs(join(data.path, "blobs")).put(bytes),
  ]);
  for (const ref of refs) expect(ref).toEqual({ sha256, bytes: 5 });
  const path = join(data.path, "blobs/2c", sha256);
  expect(await readdir(join(data.path, "blobs/2c"))).toEqual([sha256]);
  expect(((await stat(path)).mode & 0o777).toString(8)).toBe("600");
  expect(((await stat(join(data.path, "blobs/2c"))).mode & 0o777).toString(8)).toBe("700");
  const { ino, mtimeMs } = await stat(path);
  await blobs.put(bytes);
  expect(await stat(path)).toMatchObject({ ino, mtimeMs });
  expect(await blobs.get(sha256)).toEqual(bytes);
  expect(await blobs.get("0".repeat(64))).toBeUndefined();
  expect(await blobs.get("../../etc/passwd")).toBeUndefined();

  // A put that died half way left a temporary file or a short one: the next put makes it whole.
  await writeFile(`${path}.dead.tmp`, "hel");
  await rm(path);
  expect(await blobs.get(sha256)).toBeUndefined();
  await writeFile(path, "hel");
  await chmod(path, 0o600);
  await blobs.put(bytes);
  expect(await blobs.get(sha256)).toEqual(bytes);
  expect((await blobs.put(new Uint8Array())).bytes).toBe(0);
});
