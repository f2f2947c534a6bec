import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { built, compileCache } from "../../harness/built.ts";
import { makeProject, temporary } from "../../harness/project.ts";
import { startReceiver, verified } from "../../harness/receiver.ts";
import { startService, type TestService } from "../../harness/service.ts";
import { home } from "../document/manual.ts";

/** `sortie webhook` as a user has it, against a running service and a real receiver. */

const scratch = temporary("sortie-cli-hooks-");
let service: TestService;
let project: string;

beforeAll(async () => {
  await built();
  const config = join(scratch.path, "config.jsonc");
  writeFileSync(config, JSON.stringify({ sandbox: { tier: 3 }, webhooks: { allow: ["127.0.0.1"] } }));
  service = await startService(join(scratch.path, "data"), { SERVICE_CONFIG: config });
  project = makeProject(join(scratch.path, "project"), { "greet.txt": "hello\n" });
}, 60_000);
afterAll(async () => {
  await service.close();
  scratch[Symbol.dispose]();
});

type Ended = { code: number; out: string; err: string };
const sortie = (...args: string[]): Promise<Ended> =>
  new Promise((resolve) => {
    const all = [join(home, "bin/sortie.js"), ...args, "--url", service.url, "-C", project];
    const env = { PATH: process.env["PATH"] ?? "", HOME: scratch.path, ...compileCache };
    execFile(process.execPath, all, { env, timeout: 15_000 }, (error, out, err) =>
      resolve({ code: error === null ? 0 : Number(error.code), out, err }),
    );
  });

test("add, test, run with a callback, log, redeliver, secrets, pause, resume, rm", { timeout: 60_000 }, async () => {
  let status = 204;
  await using receiver = await startReceiver((_, response) => response.writeHead(status).end());
  expect((await sortie("webhook", "ls")).out).toContain("sortie webhook add");
  const refused = await sortie("webhook", "add", "http://example.org/hook");
  expect([refused.code, refused.err]).toEqual([2, expect.stringContaining('<url>: Expected https, got "http:"')]);

  const added = await sortie("webhook", "add", `${receiver.url}/chat?key=1`, "--event", "task.completed", "--project");
  const [id = ""] = /hook_\w+/.exec(added.out) ?? [];
  const [secret = ""] = /whsec_\S+/.exec(added.out) ?? [];
  expect(added.out).toBe(
    `${id} notifies ${receiver.url}/chat about ${project}.\nIts secret, shown only once:\n${secret}\nTry it: sortie webhook test ${id}\n`,
  );
  const short = id.slice("hook_".length, -2);
  expect((await sortie("webhook", "test", short)).out).toMatch(/^Answered 204 after \d+ ms\.\n$/);
  status = 500;
  const failed = await sortie("webhook", "test", short);
  expect([failed.code, failed.out]).toEqual([1, expect.stringContaining("Answered 500")]);
  status = 204;

  const { out: callbacks } = await sortie("webhook", "secret");
  const run = await sortie("run", 'replace "hello" with "bye" in greet.txt', "--callback", `${receiver.url}/own`);
  const told = (await receiver.got(4)).slice(2).toSorted((one, other) => (one.path < other.path ? -1 : 1));
  expect(told.map(({ path }) => path)).toEqual(["/chat?key=1", "/own"]);
  expect(run.code, run.err).toBe(0);
  expect(verified(secret, told[0]!)).toEqual(verified(callbacks.trim(), told[1]!));
  expect(told[0]?.message.type).toBe("task.completed");

  const log = JSON.parse((await sortie("webhook", "log", "--json")).out) as {
    deliveries: { deliveryID: string; webhookID: string }[];
  };
  expect(log.deliveries.map(({ webhookID }) => webhookID).toSorted()).toEqual(["callback", id]);
  expect((await sortie("webhook", "log", short)).out).toContain("delivered");
  const again = await sortie("webhook", "redeliver", log.deliveries[0]?.deliveryID ?? "");
  expect([again.code, again.out]).toEqual([0, "Resending one delivery.\n"]);
  await receiver.got(5);
  expect((await sortie("webhook", "redeliver", "--since", "24h")).out).toBe("0 deliveries are being resent.\n");
  expect((await sortie("webhook", "redeliver", "--since", "yesterday")).code).toBe(2);
  expect((await sortie("webhook", "redeliver")).code).toBe(2);

  const kept = await sortie("webhook", "secret", short);
  expect([kept.code, kept.err]).toEqual([2, expect.stringContaining("--rotate")]);
  const rotated = await sortie("webhook", "secret", short, "--rotate", "--keep", "0");
  expect(rotated.out).toMatch(/^whsec_/);
  expect((await sortie("webhook", "secret")).out).toBe(callbacks);
  expect((await sortie("webhook", "secret", "--rotate")).out).not.toBe(callbacks);
  expect((await sortie("webhook", "pause", short)).out).toBe(`${id} is paused.\n`);
  expect((await sortie("webhook", "ls")).out).toMatch(/paused .*task\.completed/);
  expect((await sortie("webhook", "resume", short)).out).toBe(`${id} is enabled.\n`);
  expect((await sortie("webhook", "rm", short)).out).toBe(`${id} is deleted.\n`);
  expect((await sortie("webhook", "rm", id)).code).toBe(2);
});
