import { createHash } from "node:crypto";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { MissionManifest } from "../../../src/domain/view/archive.ts";
import { entriesOf } from "../../harness/entries.ts";
import { type Files, manifestOf, pack, verified } from "../../harness/zip-reader.ts";
import { at, send } from "../../harness/double/hostile-text.ts";
import { dispatch, finish, openStage, plan, restOf, type Stage, turns, wake } from "../../harness/double/missions.ts";

/** A Mission's ZIP holds what its Tasks' hold of how they went, byte for byte, and names whatever it leaves out. */

const sha256 = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");

/** One Task that makes a file, a long output, a report and a green check; and one that is deleted. */
const play = async (stage: Stage) => {
  stage.play("zip", {
    mission: turns(
      { calls: [plan("a", "b")] },
      {
        calls: [
          dispatch("a", "Make it. [zip]", { checks: ["echo checked; test -f a1.txt"] }),
          dispatch("b", "Nothing. [none]"),
        ],
      },
      { text: "Run." },
      { text: "One more." },
      { calls: [finish("blocked", "As far as it goes.")] },
    ),
    task: turns(
      {
        calls: [
          { tool: "write", input: { path: "a1.txt", content: "made\n" } },
          { tool: "write", input: { path: "report.md", content: "# Found\n" } },
          { tool: "shell", input: { command: "seq 1 60000" } },
        ],
      },
      { calls: [{ tool: "artifact", input: { path: "report.md", title: "What was found" } }] },
      { text: "Made it." },
    ),
  });
  const directory = stage.project();
  const { url } = stage.service;
  const { missionID } = await wake(url, directory, { text: "[zip]" });
  const mission = await restOf(url, directory, missionID);
  const [made, gone] = mission.tasks.map(({ taskID }) => taskID);
  expect(mission.tasks[0]).toMatchObject({ lifecycleStatus: "completed" });
  await send(url, at(`/task/${gone}`, directory), { method: "DELETE" });
  return { directory, missionID, made: `execution-flow/tasks/${made}`, gone: `execution-flow/tasks/${gone}` };
};

const archiveOf = async ({ service: { url } }: Stage, directory: string, missionID: string) => {
  const response = await fetch(`${url}${at(`/mission/${missionID}/project-archive`, directory)}`);
  expect(response.status).toBe(200);
  const bytes = Buffer.from(await response.arrayBuffer());
  const files = new Map(entriesOf(bytes).map((entry) => [entry.path, entry.read()]));
  const manifest = JSON.parse(String(files.get("execution-flow/manifest.json"))) as MissionManifest;
  // Whatever else: every file has the hash of the manifest, and none stands beside it.
  expect([...files.keys()].filter((name) => name !== "execution-flow/manifest.json").toSorted()).toEqual(
    manifest.files.map(({ name }) => name).toSorted(),
  );
  for (const { name, sha256: expected } of manifest.files)
    expect(sha256(files.get(name) as Buffer), name).toBe(expected);
  return { bytes, files, manifest };
};

/** As who tampers would: the manifest has the hashes of the files as they are now. */
const renamed = (files: Files, change: (manifest: MissionManifest) => void = () => undefined): Files => {
  const name = "execution-flow/manifest.json";
  const manifest = JSON.parse(String(files.get(name))) as MissionManifest;
  for (const file of manifest.files) {
    const bytes = files.get(file.name) as Buffer;
    Object.assign(file, { bytes: bytes.length, sha256: sha256(bytes) });
  }
  change(manifest);
  return new Map([...files, [name, Buffer.from(JSON.stringify(manifest))]]);
};

/** `sortie task verify` of it, and that a byte changed in any part of it is found. */
const proves = async (root: string, bytes: Buffer, files: Files, { made, gone }: { made: string; gone: string }) => {
  const path = join(root, "mission.zip");
  writeFileSync(path, bytes);
  const taskID = made.split("/").at(-1) ?? "";
  const { code, findings } = await verified(path);
  expect(findings.map(({ name, state }) => [name, state])).toEqual([
    ["files", "ok"],
    ["chain", "ok"],
    ["chain", "ok"],
    ["events", "ok"],
    ["events", "ok"],
    ["logs", "ok"],
    ["tasks", "ok"],
    ["tree", "ok"],
  ]);
  expect(code).toBe(0);
  const text = (name: string) => findings.filter((one) => one.name === name).map((one) => one.text);
  expect(text("chain").map((line) => line.split(": ")[0])).toEqual(["Mission", taskID]);
  expect(text("tasks")).toEqual(["the outcomes of 1 Task match the Tasks' own records; 1 of deleted Tasks"]);
  const { ledger, ledgers } = manifestOf(files) as unknown as MissionManifest;
  for (const head of [ledger.head, ledgers[taskID]?.head])
    expect((await verified(path, head)).findings.find(({ name }) => name === "head")?.state).toBe("ok");
  expect((await verified(path, sha256(Buffer.from("another")))).code).toBe(1);

  const edited = (name: string, from: string | RegExp, to: string): Files => {
    const before = String(files.get(name));
    const after = before.replace(from, to);
    expect(after, name).not.toBe(before);
    return new Map([...files, [name, Buffer.from(after)]]);
  };
  const faults = async (changed: Files) => {
    const found = (await verified(await pack(join(root, "tampered.zip"), changed))).findings;
    return [...new Set(found.flatMap(({ name, state }) => (state === "bad" ? [name] : [])))];
  };
  // One byte, in any file of it.
  for (const name of [...files.keys()].filter((one) => !one.endsWith("manifest.json"))) {
    const changed = Buffer.from(files.get(name) as Buffer);
    changed[changed.length >> 1] = (changed[changed.length >> 1] ?? 0) ^ 1;
    expect(await faults(new Map([...files, [name, changed]])), name).toContain("files");
  }
  // And where the manifest was made to fit.
  const own = "execution-flow";
  const landed = /"landedCommit":"[0-9a-f]/;
  expect(await faults(renamed(edited(`${own}/events.jsonl`, landed, '"landedCommit":"x')))).toEqual([
    "events",
    "tasks",
  ]);
  expect(await faults(renamed(edited(`${own}/ledger.jsonl`, '"outcome":"blocked"', '"outcome":"done"')))).toEqual([
    "chain",
    "events",
  ]);
  expect(await faults(renamed(edited(`${made}/events.jsonl`, '"state":"passed"', '"state":"failed"')))).toEqual([
    "events",
  ]);
  expect(await faults(renamed(edited(`${made}/ledger.jsonl`, '"exitCode":0', '"exitCode":1')))).toEqual([
    "chain",
    "events",
  ]);
  expect(
    await faults(renamed(files, ({ ledgers: all }) => Object.assign(all[taskID] ?? {}, { head: sha256(bytes) }))),
  ).toEqual(["chain"]);
  // A Task taken out of it, with everything that names it but the Mission's word.
  const without = new Map([...files].filter(([name]) => !name.startsWith(made)));
  const manifest = manifestOf(files) as unknown as MissionManifest;
  manifest.files = manifest.files.filter(({ name }) => !name.startsWith(made));
  delete manifest.ledgers[taskID];
  without.set(`${own}/manifest.json`, Buffer.from(JSON.stringify(manifest)));
  expect(await faults(without)).toEqual(["tasks"]);
  expect(manifest.omitted.map(({ path: left }) => left)).toContain(gone);
};

describe("a Mission's archive", () => {
  test("has the logs and artifacts of its Tasks, as their ledgers have the hashes", { timeout: 60_000 }, async () => {
    await using stage = await openStage();
    const { directory, missionID, made, gone } = await play(stage);
    const { bytes, files, manifest } = await archiveOf(stage, directory, missionID);
    const ledger = String(files.get(`${made}/ledger.jsonl`))
      .trim()
      .split("\n")
      .map(
        (line) => JSON.parse(line) as { kind: string; eventID: number; tool?: string; log?: string; output?: string },
      );
    await proves(stage.root, bytes, files, { made, gone });
    const check = ledger.find(({ kind }) => kind === "check");
    const shell = ledger.find(({ tool }) => tool === "shell");
    const logOf = (eventID = 0) => files.get(`${made}/logs/${eventID}.txt`) as Buffer;
    expect(sha256(logOf(check?.eventID))).toBe(check?.log);
    expect(String(logOf(check?.eventID))).toContain("checked");
    expect(sha256(logOf(shell?.eventID))).toBe(shell?.output);
    expect(String(logOf(shell?.eventID)).split("\n").length).toBeGreaterThanOrEqual(60_000);
    expect(String(files.get(`${made}/artifacts/report.md`))).toBe("# Found\n");
    expect(manifest.omitted).toEqual([{ path: gone, reason: "the Task was deleted" }]);
    expect((await archiveOf(stage, directory, missionID)).bytes.equals(bytes)).toBe(true);

    // A log that is gone is named, and nothing else is lost with it.
    const lost = check?.log ?? "";
    rmSync(join(stage.service.dataDir, "blobs", lost.slice(0, 2), lost));
    const without = await archiveOf(stage, directory, missionID);
    expect(without.manifest.omitted).toContainEqual({
      path: `${made}/logs/${check?.eventID}.txt`,
      reason: "its content is missing from the data folder",
    });
    expect(without.files.size).toBe(files.size - 1);
  });

  test("names what is beyond its limit, of all Tasks together", { timeout: 60_000 }, async () => {
    await using stage = await openStage({}, { limits: { archiveBytes: 1000 } });
    const { directory, missionID, made } = await play(stage);
    const { files, manifest } = await archiveOf(stage, directory, missionID);
    const named = manifest.omitted.filter(({ reason }) => reason === "exceeds the archive's limit of 1000 bytes");
    expect(named.map(({ path }) => path)).toEqual([expect.stringMatching(new RegExp(`^${made}/logs/\\d+\\.txt$`))]);
    // The small ones are there.
    expect(files.has(`${made}/artifacts/report.md`)).toBe(true);
  });
});
