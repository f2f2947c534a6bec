import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, readdirSync, readlinkSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { text } from "node:stream/consumers";
import { describe, expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import { createSecrets } from "../../src/redact.ts";
import { createBlobs } from "../../src/store/blob/folder.ts";
import { createS3Blobs } from "../../src/store/blob/s3.ts";
import { readOf, wholeOf } from "../../src/store/blob/piece.ts";
import type { Blobs } from "../../src/store/store.ts";
import { redactStore } from "../../src/store/redacted-store.ts";
import { createSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import { blobsInMemory } from "../harness/double/blobs.ts";
import { startS3 } from "../harness/double/s3.ts";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { temporary } from "../harness/project.ts";
import { startService } from "../harness/service.ts";
import { inDatabase, kinds } from "./blob-place.ts";

/** Blobs that are too large to be held: what is in memory of them, and what faults and kills leave. */

const MiB = 1024 ** 2;
const fixture = join(import.meta.dirname, "../fixtures/store/large-blob.ts");

const start = (how: string, at: object) =>
  spawn(process.execPath, ["--expose-gc", fixture, how, JSON.stringify(at)], { stdio: ["ignore", "pipe", "inherit"] });

const heldBy = async (how: string, at: object): Promise<{ write: number; read: number }> =>
  JSON.parse(await text(start(how, at).stdout)) as { write: number; read: number };

const shown = (held: { write: number; read: number }): string =>
  `write ${(held.write / MiB).toFixed(1)} MiB, read ${(held.read / MiB).toFixed(1)} MiB`;

describe.each(kinds)("in %s", (name, open) => {
  test("32 MiB pass without being held; control: whole, they are", async () => {
    const moves = name.includes("moves");
    const measured = async (how: string) => {
      await using place = await open();
      const held = await heldBy(how, place.at);
      console.log(`32 MiB in ${name}, ${how}: ${shown(held)}`);
      return held;
    };
    const pieces = await measured(moves ? "move" : "pieces");
    expect(pieces.write).toBeLessThan(8 * MiB);
    expect(pieces.read).toBeLessThan(8 * MiB);
    if (moves) return;
    const whole = await measured("whole");
    expect(whole.write).toBeGreaterThan(30 * MiB);
    expect(whole.read).toBeGreaterThan(30 * MiB);
  }, 120_000);

  test("a reader that goes away leaves nothing open, nor does one that never begins; control: one that reads on", async () => {
    await using place = await open();
    const bytes = randomBytes(5 * MiB);
    const { sha256 } = await place.blobs.write(() => [bytes]);
    const isOpen = async (): Promise<boolean> =>
      (await place.open()) > 0 ||
      readdirSync("/proc/self/fd").some((fd) => {
        try {
          return readlinkSync(`/proc/self/fd/${fd}`).includes(sha256);
        } catch {
          return false;
        }
      });
    const never = await place.blobs.read(sha256);
    expect([never?.bytes, await isOpen()]).toEqual([bytes.length, false]);
    const found = await place.blobs.read(sha256);
    let seen = 0;
    for await (const piece of found?.pieces ?? []) {
      seen += piece.length;
      // A reader of the database holds nothing between two parts.
      if (seen === piece.length) expect(await isOpen()).toBe(name !== "the database");
      if (seen > MiB) break;
    }
    await expect.poll(isOpen).toBe(false);
    const again = await place.blobs.read(sha256);
    expect(again && (await wholeOf(again)).equals(bytes)).toBe(true);
    await expect.poll(isOpen).toBe(false);
  });
});

test("a bucket that takes nothing holds up who writes; control: all goes out once it does", async () => {
  const { promise: goes, resolve: go } = Promise.withResolvers<void>();
  const { promise: began, resolve: begin } = Promise.withResolvers<void>();
  await using bucket = await startS3();
  bucket.hold((method) => (method === "PUT" ? (begin(), goes) : undefined));
  const piece = randomBytes(256 * 1024);
  let given = 0;
  const { sha256 } = await blobsInMemory().blobs.write(() => Array.from({ length: 128 }, () => piece));
  const blobs = createS3Blobs(bucket.place, new AbortController().signal);
  const writing = blobs.write(function* () {
    given = 0;
    for (let n = 0; n < 128; n += 1) {
      given += 1;
      yield piece;
    }
  });
  await began;
  await pause(300);
  const whileHeld = given;
  console.log(`given to a bucket that takes nothing: ${(whileHeld / 4).toFixed(1)} of 32 MiB`);
  go();
  expect(await writing).toEqual({ sha256, bytes: 32 * MiB });
  // What the sockets of this machine take.
  expect(whileHeld).toBeLessThan(64);
  expect(given).toBe(128);
});

describe("a process that is killed while it writes one", () => {
  const killed = async (at: object): Promise<void> => {
    const child = start("stall", at);
    await once(child.stdout, "data");
    child.kill("SIGKILL");
    await once(child, "exit");
  };

  test("in a folder: what it leaves goes with the next start", async () => {
    using data = temporary("sortie-killed-");
    const folder = join(data.path, "blobs");
    mkdirSync(folder);
    await killed({ folder });
    const files = () => readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((path) => path.length > 3);
    // Control: it was in the middle.
    expect(files()).toEqual([expect.stringMatching(/^tmp\/[0-9a-f]{64}\.[0-9a-f]{12}$/)]);
    await using _started = await startService(data.path, {});
    expect(files()).toEqual([]);
  });

  test.each(kinds.filter(([name]) => name === "a bucket" || name === "the database"))(
    "in %s: nothing is there",
    async (_name, open) => {
      await using place = await open();
      await killed(place.at);
      await expect.poll(() => place.left()).toEqual([]);
      // Control: what one that lives has written.
      await text(start("write", place.at).stdout);
      expect(await place.left()).toHaveLength(1);
    },
  );
});

describe("what changes while it is read is no shorter file", () => {
  const begun = async (blobs: Blobs, sha256: string) => {
    const found = (await blobs.read(sha256)) ?? readOf(Buffer.alloc(0));
    const reading = found.pieces[Symbol.asyncIterator]();
    const first = await reading.next();
    const rest = async (): Promise<number> => {
      let bytes = (first.value as Buffer).length;
      for (let next = await reading.next(); next.done !== true; next = await reading.next()) bytes += next.value.length;
      return bytes;
    };
    return { rest };
  };
  const lost = { code: "store_unavailable" };

  test("in a folder: one that is dropped is read to its end, one that is cut is an error", async () => {
    using folder = temporary("sortie-cut-");
    const blobs = createBlobs(folder.path);
    const { sha256 } = await blobs.put(randomBytes(2 * MiB));
    const path = join(folder.path, sha256.slice(0, 2), sha256);
    const whole = await begun(blobs, sha256);
    expect(await whole.rest()).toBe(2 * MiB);
    const { rest } = await begun(blobs, sha256);
    truncateSync(path, MiB);
    await expect(rest()).rejects.toMatchObject(lost);
  });

  test.skipIf(postgresURL === undefined)("in the database: one that is dropped is an error", async () => {
    await using place = await inDatabase();
    const { sha256 } = await place.blobs.put(randomBytes(2 * MiB));
    expect(await (await begun(place.blobs, sha256)).rest()).toBe(2 * MiB);
    const { rest } = await begun(place.blobs, sha256);
    await place.age(sha256);
    expect(await place.other.drop(sha256)).toBe("dropped");
    await expect(rest()).rejects.toMatchObject(lost);
  });

  test("in a bucket: a line that is cut goes on where it was; one that is removed, and other bytes, are an error", async () => {
    await using bucket = await startS3();
    const blobs = createS3Blobs(bucket.place, new AbortController().signal);
    const { sha256 } = await blobs.put(randomBytes(2 * MiB));
    let cut = 0;
    bucket.fail((method) => (method === "GET" && (cut += 1) < 8 ? "halved" : undefined));
    expect(await (await begun(blobs, sha256)).rest()).toBe(2 * MiB);
    expect(cut).toBe(8);
    bucket.fail((method) => (method === "GET" ? "halved" : undefined));
    const { rest } = await begun(blobs, sha256);
    const [name = "", object] = [...bucket.objects][0] ?? [];
    bucket.objects.delete(name);
    await expect(rest()).rejects.toMatchObject(lost);
    bucket.fail(() => undefined);
    bucket.objects.set(name, { bytes: randomBytes(2 * MiB), at: object?.at ?? 0 });
    const other = await begun(blobs, sha256);
    await expect(other.rest()).rejects.toThrow("got other bytes");
  });
});

test("a secret that is split between two pieces is redacted, the same as in one; control: exact bytes stay", async () => {
  const secrets = createSecrets([{ kind: "key", value: "sk-acme-9Zq/kLm3nOp5qRs7" }]);
  using folder = temporary("sortie-large-blob-");
  await using store = await createSqliteStore({ file: ":memory:", dataDir: folder.path, log: silent });
  const { blobs, kept } = blobsInMemory();
  const redacted = redactStore({ ...store, blobs }, secrets).blobs;
  const edge = 256 * 1024;
  for (const before of [edge - 5, edge - 23, edge - 24, 2 * edge - 1, 3 * edge - 12]) {
    const bytes = Buffer.concat([Buffer.alloc(before, 0xe9), Buffer.from("sk-acme-9Zq/kLm3nOp5qRs7"), randomBytes(99)]);
    const pieces = function* () {
      for (let at = 0; at < bytes.length; at += 100_003) yield bytes.subarray(at, at + 100_003);
    };
    const clean = Buffer.from(await secrets.bytes(bytes));
    const { sha256 } = await redacted.write(pieces);
    expect(kept.get(sha256)?.equals(clean), String(before)).toBe(true);
    expect(clean.includes("sk-acme")).toBe(false);
    const { sha256: exact } = await redacted.write(pieces, true);
    expect(kept.get(exact)?.equals(bytes)).toBe(true);
  }
});
if (postgresURL === undefined) countSkipped(4);
