import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { join, resolve } from "node:path";
import { Readable } from "node:stream";
import { describe, expect, test } from "vitest";
import type { DomainEvent } from "../../src/domain/event.ts";
import type { ArchivedFile } from "../../src/domain/view/archive.ts";
import { frameOf } from "../../src/domain/view/frame.ts";
import { ledgerOf } from "../../src/domain/evidence/ledger.ts";
import { treeOf } from "../../src/cli/verify/git-tree.ts";
import { createZip } from "../../src/archive/zip.ts";
import { created } from "../harness/events.ts";
import { git, makeProject, temporary } from "../harness/project.ts";

/** What verifying stands on: Git's own ids of trees, and memory that does not grow with the archive. */

describe("the id of a tree", () => {
  test.each(["sha1", "sha256"] as const)("is Git's own, with %s", (algorithm) => {
    using root = temporary();
    const files = { a: "1", "a-b": "2", "a.b": "3", "b/c": "4", "b.c": "5", "b/d/e/f": "6", "ä/ö 1": "7", "~z": "8" };
    const directory = makeProject(join(root.path, "plain"), files);
    const object = (text: string) => createHash(algorithm).update(`blob ${text.length}\0${text}`).digest("hex");
    const blobs = Object.entries(files).map(([path, text]) => ({ path, mode: "100644", object: object(text) }));
    if (algorithm === "sha256") {
      git(root.path, "init", "-q", "--object-format=sha256", "other");
      git(join(root.path, "other"), `--work-tree=${directory}`, "add", "-A");
    }
    const tree = git(algorithm === "sha1" ? directory : join(root.path, "other"), "write-tree");
    expect(treeOf(blobs.toReversed(), algorithm)).toBe(tree);
  });

  test("of names that are no UTF-8, or one below a file, there is none", () => {
    const object = "0".repeat(40);
    const of = (...paths: string[]) =>
      treeOf(
        paths.map((path) => ({ path, mode: "100644", object })),
        "sha1",
      );
    expect([of("a\udc80"), of("a", "a/b"), of("a/b", "a")]).toEqual([undefined, undefined, undefined]);
    expect(of("a", "b/c")).toMatch(/^[0-9a-f]{40}$/);
  });
});

const at = "2026-11-21T08:00:00.000Z";

const piece = Buffer.alloc(1024 * 1024, "x");

/** An archive of so many calls, and one file of so many bytes. */
const archiveOf = async (path: string, calls: number, bytes: number): Promise<void> => {
  const task = created();
  const { taskID } = task.data;
  const call = (index: number): DomainEvent => ({
    type: "tool.finished",
    data: {
      callID: `call_${index}`,
      sessionID: "ses_1",
      tool: "shell",
      outcome: "ok",
      output: `${"line\n".repeat(100)}${index}`,
      exitCode: 0,
      durationMs: 5,
    },
  });
  const events = [task, ...Array.from({ length: calls }, (_, index) => call(index))].map((event, index) =>
    frameOf({ ...event, stream: taskID, position: index + 1, version: index + 1, at }),
  );
  const { ledger, ...head } = ledgerOf(taskID, events, (text) => createHash("sha256").update(text).digest("hex"));
  const zip = createZip(path, new AbortController().signal);
  const files: ArchivedFile[] = [];
  const add = async (name: string, content: Buffer) => {
    const { done } = await zip.add(name, 0o100644, content);
    files.push({ name, ...(await done) });
  };
  const lines = (values: readonly unknown[]) =>
    Buffer.from(values.map((value) => `${JSON.stringify(value)}\n`).join(""));
  await add("execution-flow/events.jsonl", lines(events));
  await add("execution-flow/ledger.jsonl", lines(ledger));
  const pieces = Array.from({ length: bytes / piece.length }, () => piece);
  const whole = createHash("sha256");
  for (const each of pieces) whole.update(each);
  const large = await zip.add("project/large.bin", 0o100644, Readable.from(pieces, { objectMode: false }));
  files.push({ name: "project/large.bin", bytes, sha256: whole.digest("hex"), mode: "100644" });
  const rest = { source: "commit" as const, complete: true, omitted: [], warnings: [] };
  const manifest = { schemaVersion: 1, taskID, project: "/p", commit: null, ledger: head, files, ...rest };
  await zip.add("execution-flow/manifest.json", 0o100644, Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`));
  await Promise.all([zip.finish(), large.done]);
};

test("memory does not grow with the archive", async () => {
  using root = temporary("sortie-verify-");
  const source = resolve(import.meta.dirname, "../../src/cli/verify/verify.ts");
  const memory = async (calls: number, bytes: number): Promise<number> => {
    const path = join(root.path, `${bytes}.zip`);
    await archiveOf(path, calls, bytes);
    const code = `import { verify } from ${JSON.stringify(source)};
      const found = [];
      await verify(${JSON.stringify(path)}, {}, {colors: {}}, (finding) => found.push(finding));
      console.log(JSON.stringify({ states: found.map(({ state }) => state), kib: process.resourceUsage().maxRSS }));`;
    const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", code], { encoding: "utf8" });
    const { states, kib } = JSON.parse(stdout || `{"states":${JSON.stringify(stderr)}}`) as {
      states: string[];
      kib: number;
    };
    expect(states).toEqual(["ok", "ok", "ok", "ok", "note"]);
    return kib;
  };
  const small = await memory(10, 1024 * 1024);
  const large = await memory(10_000, 192 * 1024 * 1024);
  // Held whole, the one file alone would be more.

  expect(large - small).toBeLessThan(128 * 1024);
}, 60_000);
