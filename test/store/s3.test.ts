import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { createBlobs } from "../../src/store/blob/folder.ts";
import { fromFolder, movingFrom } from "../../src/store/blob/move.ts";
import { createS3Blobs, expectBucket, type S3Place } from "../../src/store/blob/s3.ts";
import { silent } from "../../src/log.ts";
import { keys, startS3 } from "../harness/double/s3.ts";
import { temporary } from "../harness/project.ts";

/**
 * A bucket that fails, and one that is not as it should be. `SERVICE_TEST_S3`: the address of a real one, beside the
 * double.
 */

const signal = new AbortController().signal;
const open = (place: S3Place) => createS3Blobs(place, signal);

test("what passes is tried again: a line that is cut, in an answer too, and a server that is busy; what is there is whole", async () => {
  await using bucket = await startS3();
  const blobs = open(bucket.place);
  const bytes = randomBytes(200_000);
  const faults: ("reset" | "halved" | { status: number; code: string })[] = [
    "reset",
    { status: 503, code: "SlowDown" },
    { status: 500, code: "InternalError" },
    "halved",
  ];
  for (const method of ["HEAD", "PUT", "GET"])
    for (const fault of faults) {
      let left = 2;
      bucket.fail((of) => (of === method && left-- > 0 ? fault : undefined));
      const { sha256 } = await blobs.put(bytes);
      expect((await blobs.get(sha256))?.equals(bytes)).toBe(true);
      bucket.objects.clear();
    }
});

test("what lasts is an error that may be tried again, and says nothing of keys; nothing is acknowledged", async () => {
  await using bucket = await startS3();
  const blobs = open(bucket.place);
  const said = async (work: Promise<unknown>) =>
    work.then(String, (error: Error & { code?: string }) => `${error.code} ${error.message}`);
  bucket.fail((method) => (method === "PUT" ? { status: 503, code: "SlowDown" } : undefined));
  expect(await said(blobs.put(Buffer.from("a")))).toMatch(/^store_unavailable .*503 SlowDown/);
  expect(bucket.objects.size).toBe(0);
  bucket.fail(() => "reset");
  expect(await said(blobs.get("ab".repeat(32)))).toMatch(/^store_unavailable .*S3 does not answer/);
  bucket.fail(() => undefined);
  const wrong = open({ ...bucket.place, secretAccessKey: `${keys.secretAccessKey}x` });
  const words = await said(wrong.put(Buffer.from("a")));
  expect(words).toMatch(/^store_unavailable .*403/);
  expect(words).not.toContain(keys.secretAccessKey);
  // Tried once: it would be refused again.
  expect(bucket.seen.filter((line) => /^HEAD .*[0-9a-f]$/.test(line))).toHaveLength(2);
});

test("bytes that are not those of their hash are not given out; control: those that are", async () => {
  await using bucket = await startS3();
  const blobs = open(bucket.place);
  const { sha256 } = await blobs.put(Buffer.from("these"));
  expect(await blobs.get(sha256)).toEqual(Buffer.from("these"));
  for (const object of bucket.objects.values()) object.bytes = Buffer.from("those");
  await expect(blobs.get(sha256)).rejects.toThrow("with other bytes");
});

test("whoever dies before a removal is done leaves a notice that holds nobody up for long, and loses nothing", async () => {
  await using bucket = await startS3();
  const { sha256 } = await open(bucket.place).put(Buffer.from("kept"));
  const name = `sortie/blobs/${sha256.slice(0, 2)}/${sha256}`;
  const age = (key: string, by: number) => {
    const found = bucket.objects.get(key);
    if (found !== undefined) found.at -= by;
  };
  age(name, 3_600_000);
  const dying = new AbortController();
  bucket.fail((method, key) => {
    if (method === "DELETE" && key === name) dying.abort();
    return dying.signal.aborted ? "reset" : undefined;
  });
  await expect(createS3Blobs(bucket.place, dying.signal).drop(sha256)).rejects.toThrow();
  bucket.fail(() => undefined);
  expect([...bucket.objects.keys()]).toEqual([name, `${name}.removal`]);
  age(`${name}.removal`, 61_000);
  await open(bucket.place).put(Buffer.from("kept"));
  expect([...bucket.objects.keys()]).toEqual([name]);
  expect(await open(bucket.place).drop(sha256)).toBe("young");
  age(name, 3_600_000);
  expect(await open(bucket.place).drop(sha256)).toBe("dropped");
  expect(bucket.objects.size).toBe(0);
});

/** A blob that is old enough to go. */
const oldBlob = async (bucket: Awaited<ReturnType<typeof startS3>>) => {
  const bytes = Buffer.from("named again");
  const { sha256 } = await open(bucket.place).put(bytes);
  const name = `sortie/blobs/${sha256.slice(0, 2)}/${sha256}`;
  const age = (key: string, by: number) => {
    const found = bucket.objects.get(key);
    if (found !== undefined) found.at -= by;
  };
  age(name, 3_600_000);
  return { bytes, sha256, name, age };
};

test("a removal whose answer is lost is not tried again: what is stored after it stays", async () => {
  await using bucket = await startS3();
  const { bytes, sha256, name, age } = await oldBlob(bucket);
  const stored = Promise.withResolvers<unknown>();
  let removals = 0;
  bucket.fail((method, key) => {
    if (method !== "DELETE" || key !== name || (removals += 1) > 1) return undefined;
    bucket.objects.delete(name);
    stored.resolve(open(bucket.place).put(bytes));
    return "reset";
  });
  expect(await open(bucket.place).drop(sha256)).toBe("young");
  // It may be done yet, so whoever stores waits until it no longer can.
  expect([removals, bucket.objects.has(`${name}.removal`)]).toEqual([1, true]);
  age(`${name}.removal`, 61_000);
  await stored.promise;
  expect([...bucket.objects.keys()]).toEqual([name]);
});

test("of two who remove the same one goes first, and what is stored meanwhile stays, for each who stores it", async () => {
  await using bucket = await startS3();
  const { bytes, sha256, name } = await oldBlob(bucket);
  const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let removals = 0;
  bucket.fail(async (method, key) => {
    if (method === "DELETE" && key === name) await [first, second][(removals += 1) - 1]?.promise;
    return undefined;
  });
  const [a, b] = [open(bucket.place), open(bucket.place)];
  const dropped = a.drop(sha256);
  await expect.poll(() => removals).toBe(1);
  const other = b.drop(sha256);
  await Promise.race([other, expect.poll(() => removals).toBe(2)]);
  let answered = 0;
  const put = () =>
    open(bucket.place)
      .put(bytes)
      .then(() => (answered += 1));
  const stored = put();
  await expect.poll(() => bucket.seen.filter((line) => line === `PUT ${name}`).length).toBe(2);
  // It finds it young, and the removal is still to come.
  const beside = put();
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(answered).toBe(0);
  first.resolve();
  expect(await dropped).toBe("dropped");
  await Promise.all([stored, beside]);
  second.resolve();
  expect([await other, ...bucket.objects.keys()]).toEqual(["young", name]);
});

test("what a removal without an answer left is cleared; control: a notice that may be of somebody stays", async () => {
  await using bucket = await startS3();
  const { sha256, name, age } = await oldBlob(bucket);
  bucket.fail((method, key) => {
    if (method !== "DELETE" || key !== name) return undefined;
    bucket.objects.delete(name);
    return { status: 504, code: "GatewayTimeout" };
  });
  const blobs = open(bucket.place);
  expect([await blobs.drop(sha256), await blobs.drop(sha256)]).toEqual(["young", "young"]);
  expect(bucket.objects.size).toBe(1);
  age(`${name}.removal`, 61_000);
  expect(await blobs.drop(sha256)).toBe("absent");
  expect(bucket.objects.size).toBe(0);
});

test("a bucket that cannot be used is one sentence with the remedy; control: one that can leaves nothing there", async () => {
  await using bucket = await startS3();
  const { place } = bucket;
  const problem = async (more: Partial<S3Place>) =>
    expectBucket({ ...place, ...more }, "one", signal).then(
      () => "",
      (error: Error) => error.message,
    );
  expect(await problem({})).toBe("");
  expect(bucket.objects.size).toBe(0);
  expect(await problem({ bucket: "other" })).toContain("NoSuchBucket");
  expect(await problem({ bucket: "other" })).toContain("Create it");
  expect(await problem({ accessKeyID: "nobody" })).toContain("Check AWS_ACCESS_KEY_ID.");
  const words = await problem({ secretAccessKey: "wrong-secret-key" });
  expect(words).toContain("Check AWS_SECRET_ACCESS_KEY.");
  expect(words).not.toContain("wrong-secret-key");
  bucket.fail((method) => (method === "PUT" ? { status: 403, code: "AccessDenied" } : undefined));
  expect(await problem({})).toContain("s3:PutObject");
  expect(await problem({ endpoint: "http://127.0.0.1:1" })).toContain("Check AWS_ENDPOINT_URL_S3.");
});

test("all blobs of a data folder move, while the bucket fails now and then and they are read", async () => {
  await using bucket = await startS3();
  using folder = temporary("sortie-s3-move-");
  const from = createBlobs(folder.path);
  const all = await Promise.all(Array.from({ length: 30 }, (_, n) => from.put(Buffer.from(`blob ${n} `.repeat(n)))));
  let count = 0;
  bucket.fail(() => ((count += 1) % 7 === 0 ? { status: 503, code: "SlowDown" } : undefined));
  await using moving = await movingFrom(fromFolder(folder.path), open(bucket.place), silent);
  const read = async (blobs: typeof moving.blobs) =>
    Promise.all(all.map(async ({ sha256 }) => (await blobs.get(sha256))?.toString()));
  const expected = all.map((_, n) => `blob ${n} `.repeat(n));
  expect(await read(moving.blobs)).toEqual(expected);
  await moving.moved;
  expect(await fromFolder(folder.path).isEmpty()).toBe(true);
  expect(await read(open(bucket.place))).toEqual(expected);
});

test.runIf(process.env["SERVICE_TEST_S3"] !== undefined)("a real server takes and gives the same", async () => {
  const place = { bucket: "test", prefix: "sortie", endpoint: process.env["SERVICE_TEST_S3"], region: "us-east-1" };
  const account = { accessKeyID: "S3RVER", secretAccessKey: "S3RVER", sessionToken: undefined };
  await expectBucket({ ...place, ...account }, "one", signal);
  const blobs = open({ ...place, ...account });
  for (const size of [0, 1, 5 * 1024 ** 2, 28 * 1024 ** 2]) {
    const bytes = randomBytes(size);
    const { sha256 } = await blobs.put(bytes);
    await blobs.put(bytes);
    expect((await blobs.get(sha256))?.equals(bytes)).toBe(true);
    expect(await blobs.drop(sha256)).toBe("young");
  }
  expect(await blobs.get("ab".repeat(32))).toBeUndefined();
});
