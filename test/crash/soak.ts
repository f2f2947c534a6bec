import { existsSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { expect } from "vitest";
import { makeProject, readText, writeFiles } from "../harness/project.ts";
import { expectWhole, makeLab, post, send, shell } from "../harness/double/hostile-text.ts";
import { alwaysHolds, digestOf, invariants, type Watched } from "../harness/invariants.ts";
import type { MockTurn } from "../harness/double/mock-provider.ts";
import { startProcess } from "./process.ts";

/**
 * A service killed (SIGKILL) at random moments while Tasks work, in worktrees and in place, by the rules and by a
 * model, and people send messages, cancel and repeat their requests. After each start what must hold is looked at.
 */

/** Mulberry32: small, and the same everywhere. */
const randomOf = (seed: number) => {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
};

const fence = "```";

/** `tamper` does what must be found out, for the controls. */
export const soak = async (seed: number, kills: number, tamper?: (watched: Watched) => void): Promise<void> => {
  await using lab = await makeLab();
  const random = randomOf(seed);
  const root = lab.folder("soak");
  const dataDir = join(root, "data");
  const outsideFolder = join(root, "outside");
  writeFiles(outsideFolder, { "a.txt": "mine\n", "b/c.txt": "mine\n" });
  const plain = join(root, "plain");
  mkdirSync(plain);
  const repositories = ["one", "two"].map((name) =>
    makeProject(join(root, name), { "a.txt": "one\n", ".gitignore": "marks\n" }),
  );
  const [one = "", two = ""] = repositories;

  const tasks = new Map<string, string>();
  const messages = new Map<string, string>();
  const keys = new Map<string, { directory: string; body: Record<string, unknown> }>();
  let serial = 0;
  const work = (): MockTurn[] => {
    const mark = (name: string) => `echo ${(serial += 1)}-${name} >> marks`;
    return [
      shell(`${mark("first")}; sleep 0.1`),
      {
        calls: [
          { tool: "write", input: { path: `w${serial}.txt`, content: "x\n" } },
          { tool: "list", input: {} },
        ],
      },
      shell(`(sleep 30 &) ; ${mark("second")}; echo y > y${serial}.txt`),
      { text: "Done.", latencyMs: 60 },
      shell(`${mark("third")}; echo z > z${serial}.txt`),
    ];
  };
  const kinds: (() => { directory: string; body: Record<string, unknown> })[] = [
    () => ({ directory: one, body: { ...lab.request(work()), checks: ["sleep 0.1; test -f a.txt"] } }),
    () => ({ directory: plain, body: { ...lab.request(work()), checks: ["sleep 0.1"] } }),
    () => ({
      directory: two,
      body: { request: `Write:\n${fence} file=r${(serial += 1)}.txt\nr\n${fence}`, checks: ["sleep 0.2"] },
    }),
    () => ({
      directory: plain,
      body: { request: `Write:\n${fence} file=r${(serial += 1)}.txt\nr\n${fence}`, isolation: "directory" },
    }),
  ];
  const create = async (url: string, key: string) => {
    const wanted = keys.get(key);
    if (wanted === undefined) return;
    const answer = await post(url, "/task", wanted.directory, { productPillar: "code", ...wanted.body }, { key });
    expect(answer.status, JSON.stringify(answer.body)).toBe(202);
    tasks.set(String(answer.body["taskID"]), wanted.directory);
  };
  const disturb = async (url: string) => {
    const ids = [...tasks.keys()];
    const taskID = ids[Math.floor(random() * ids.length)];
    const directory = tasks.get(taskID ?? "");
    if (taskID === undefined || directory === undefined) return;
    if (random() < 0.75) {
      const sent = await post(url, `/task/${taskID}/message`, directory, { source: "soak", text: "and more" });
      expect(sent.status).toBe(202);
      messages.set(String(sent.body["messageID"]), taskID);
    } else {
      const cancelled = await post(url, `/task/${taskID}/cancel`, directory, { reason: "soak" });
      expect([200, 202, 409]).toContain(cancelled.status);
    }
  };

  const env = { SERVICE_DATA_DIR: dataDir, SERVICE_CONFIG: lab.config, HOME: root };
  const outside = { folder: outsideFolder, digest: digestOf(outsideFolder) };
  for (let round = 0; round < kills; round += 1) {
    await using service = await startProcess(env);
    const watched = { url: service.url, dataDir, tasks, messages, outside };
    await alwaysHolds(watched);
    // A key that was sent before a kill gives the same answer, and no second Task.
    const before = [...keys.keys()];
    for (const key of before) await create(service.url, key);
    expect(tasks.size).toBeLessThanOrEqual(keys.size);
    const doing = (async () => {
      for (const kind of round < 2 ? kinds : [kinds[Math.floor(random() * 4)]]) {
        const key = `key-${keys.size}`;
        const wanted = kind?.();
        if (wanted !== undefined) keys.set(key, wanted);
        await create(service.url, key);
      }
      for (let count = 0; count < 4; count += 1) {
        await wait(random() * 120);
        await disturb(service.url);
      }
    })().catch((error: unknown) => {
      if (service.child.exitCode === null && service.child.signalCode === null && !service.child.killed) throw error;
    });
    await wait(30 + random() * 900);
    await service.kill("SIGKILL");
    await doing;
  }
  await using last = await startProcess(env);
  for (const key of keys.keys()) await create(last.url, key);
  expect(tasks.size).toBe(keys.size);
  const watched = { url: last.url, dataDir, tasks, messages, outside };
  tamper?.(watched);
  await invariants(watched);
  const worktrees = join(dataDir, "worktrees");
  const trees = [plain, ...readdirSync(worktrees).map((name) => join(worktrees, name))];
  const lines = trees
    .map((tree) => join(tree, "marks"))
    .filter((file) => existsSync(file))
    .flatMap((file) => readText(file).trimEnd().split("\n"));
  if (kills > 2) expect(lines, "effects").not.toEqual([]);
  expect(lines.length, "an effect repeated by us").toBe(new Set(lines).size);
  for (const repository of repositories) expectWhole(repository);
  const list = await send(last.url, `/tasks?limit=200&directory=${encodeURIComponent(one)}`);
  expect((list.body as unknown as unknown[]).length).toBe([...tasks.values()].filter((place) => place === one).length);
};
