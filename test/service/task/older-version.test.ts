import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import Database from "better-sqlite3";
import { afterAll, expect, test } from "vitest";
import { makeProject, temporary } from "../../harness/project.ts";
import { startService } from "../../harness/service.ts";
import { manifestOf, pack, unpack, verified } from "../../harness/zip-reader.ts";

/**
 * What commit 71a76f3 stored: a Mission, a Task that landed, one more attempt after a message, two Tasks that failed.
 * `answers.json` is what its own service answered about them: fields are only ever added.
 */

const fixture = join(import.meta.dirname, "../../fixtures/71a76f3");
const root = temporary("sortie-older-");
afterAll(() => root[Symbol.dispose]());

type Answers = {
  tasks: { taskID: string }[];
  missions: object[];
  mission: object;
  records: Record<string, Record<"status" | "board" | "messages", object>>;
};

/** Where its project was. Here it is elsewhere, so that path alone is changed in what it stored and answered. */
const place = "/tmp/w/old/project";
const project = makeProject(join(root.path, "project"), { "a.txt": "a\n" });
const answers = JSON.parse(
  readFileSync(join(fixture, "answers.json"), "utf8")
    .replaceAll(place, project)
    // Sentences for people may change, as these did.
    .replaceAll("Taken up (", "Started (")
    .replaceAll(/(?<=Land(?:ed|ing) [0-9a-f]{10} on )refs\/heads\//g, ""),
  (key, value: unknown) => (key === "generatedAt" ? "now" : value),
) as Answers;

/** The data folder; `change` is made to its database first. */
const dataFolder = (name: string, change = ""): string => {
  const folder = join(root.path, name);
  for (const [path, bytes] of unpack(readFileSync(join(fixture, "data.zip")))) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), bytes);
  }
  const db = new Database(join(folder, "sortie.db"));
  // A path stands as text, and as the hash of the project, alone and with the Mission's id.
  const hash = (...parts: string[]) => createHash("sha256").update(JSON.stringify(parts)).digest("hex");
  const moved: [string, string][] = [
    [hash(`${place}/.git`), hash(`${project}/.git`)],
    [hash(`${place}/.git`, "whole-cents"), hash(`${project}/.git`, "whole-cents")],
    [place, project],
  ];
  for (const table of db.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").pluck().all() as string[])
    for (const { name: column, type } of db.pragma(`table_info("${table}")`) as { name: string; type: string }[])
      if (type === "TEXT")
        for (const [from, to] of moved)
          db.prepare(`UPDATE "${table}" SET "${column}" = replace("${column}", ?, ?)`).run(from, to);
  db.exec(change);
  db.close();
  return folder;
};

/** Everything that `answers.json` has, asked of a service over this folder. */
const ask = async (folder: string): Promise<Answers> => {
  await using service = await startService(folder);
  const directory = `directory=${encodeURIComponent(project)}`;
  const get = async (path: string): Promise<never> => {
    const text = await (await fetch(`${service.url}${path}?${directory}`)).text();
    return JSON.parse(text, (key, value: unknown) => (key === "generatedAt" ? "now" : value)) as never;
  };
  const records: Answers["records"] = {};
  for (const { taskID } of answers.tasks)
    records[taskID] = {
      status: await get(`/task/${taskID}/status`),
      board: await get(`/task/${taskID}/board`),
      messages: await get(`/task/${taskID}/messages`),
    };
  return {
    tasks: await get("/tasks"),
    missions: await get("/missions"),
    mission: await get("/mission/whole-cents/status"),
    records,
  };
};

/**
 * Fields and actions are only ever added: without those that the older version did not answer with. Of evidence it lost
 * what a slice rested on once its check ran for the next slice.
 */
const asBefore = (now: unknown, before: unknown): unknown => {
  if (Array.isArray(now) && Array.isArray(before))
    return now
      .filter((each) => !isCheck(each) || before.some(isCheck))
      .filter((each) => !added.has(each) || before.includes(each))
      .map((each, index) => asBefore(each, before[index]));
  if (typeof now !== "object" || typeof before !== "object" || now === null || before === null) return now;
  const entries = Object.entries(now).filter(([key]) => key in before);
  return Object.fromEntries(entries.map(([key, value]) => [key, asBefore(value, (before as never)[key])]));
};

const added = new Set<unknown>(["retry", "revert"]);

const isCheck = (each: unknown): boolean =>
  typeof each === "object" && each !== null && "kind" in each && "summary" in each && each.kind === "check";

test("a data folder of 71a76f3 opens, and every answer is what it was", async () => {
  expect(asBefore(await ask(dataFolder("whole")), answers)).toEqual(answers);
});

test("the same without its snapshots: the folds of today make the same of its events", async () => {
  expect(asBefore(await ask(dataFolder("folded", "DELETE FROM snapshots")), answers)).toEqual(answers);
});

test("control: an event that was changed is seen in the answers", async () => {
  const change = `DELETE FROM snapshots; UPDATE events SET data = replace(data, 'Add amounts', 'Sub amounts')
    WHERE type = 'task.created'`;
  expect(asBefore(await ask(dataFolder("changed", change)), answers)).not.toEqual(answers);
});

test("an archive of 71a76f3 is verified; control: not with another byte in it", async () => {
  const archive = join(root.path, "task.zip");
  cpSync(join(fixture, "task.zip"), archive);
  const { code } = await verified(archive);
  expect(code).toBe(0);
  const files = unpack(readFileSync(archive));
  expect(manifestOf(files).files.length).toBeGreaterThan(5);
  files.set("project/sum.js", Buffer.from("export const sum = () => 0;\n"));
  expect((await verified(await pack(join(root.path, "other.zip"), files))).code).not.toBe(0);
});
