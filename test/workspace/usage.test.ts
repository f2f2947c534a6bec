import { execFileSync } from "node:child_process";
import { linkSync, lstatSync, mkdirSync, readdirSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { join } from "node:path";
import { expect, test } from "vitest";
import { measureUsage, type Usage } from "../../src/workspace/usage/measure.ts";
import { temporary } from "../harness/project.ts";

/** What a Task's files take on the disk, however they are made. */

const kib = 1024;
const file = (path: string, bytes: number) => writeFileSync(path, Buffer.alloc(bytes, 1));

/** What `du` says of the same. */
const du = (...folders: string[]): number =>
  execFileSync("du", ["-s", "-c", "--block-size=1", ...folders], { encoding: "utf8" })
    .trim()
    .split("\n")
    .map((line) => Number(line.split("\t")[0]))
    .at(-1) ?? 0;

test("it is what du says: several folders, links, names that are no text, files of several names, holes", async () => {
  using root = temporary();
  const [tree, other] = [join(root.path, "tree"), join(root.path, "other")];
  for (const folder of [tree, other, join(tree, "a/b"), join(tree, "dist")]) mkdirSync(folder, { recursive: true });
  file(join(tree, "a/b/one"), 100 * kib);
  file(join(tree, "dist/two"), 300 * kib);
  file(join(other, "three"), 50 * kib);
  linkSync(join(tree, "dist/two"), join(tree, "a/again"));
  linkSync(join(tree, "dist/two"), join(other, "again"));
  symlinkSync("/usr", join(tree, "usr"));
  writeFileSync(Buffer.concat([Buffer.from(`${tree}/`), Buffer.from([0x66, 0xff, 0xfe])]), Buffer.alloc(70 * kib, 1));
  file(join(tree, "hole"), 0);
  truncateSync(join(tree, "hole"), 10 * kib ** 3);
  const usage = await measureUsage([tree, other, join(root.path, "none")], tree);
  expect(usage.bytes).toBe(du(tree, other));
  expect(usage.bytes).toBeLessThan(1024 * kib);
  expect(usage.files).toBe(13);
  expect(usage.parts[0]).toMatchObject({ name: "dist" });
  expect(usage.parts.map(({ name }) => name)).toContain("a");
  expect(usage.parts).toHaveLength(5);
});

test("folders deeper than a path may be long hide nothing", async () => {
  using root = temporary();
  // 40 folders of 250 bytes are more than twice what a path may have.
  const name = "d".repeat(250);
  execFileSync("bash", [
    "-c",
    `cd "$0" && for i in $(seq 40); do mkdir ${name} && cd ${name} || exit 1; done && head -c 5M /dev/zero > deep`,
    root.path,
  ]);
  const { bytes } = await measureUsage([root.path], root.path);
  expect(bytes).toBeGreaterThan(5 * kib ** 2);
  expect(bytes).toBe(du(root.path));
  execFileSync("rm", ["-rf", join(root.path, name)]);
});

test("fifteen hundred folders in one another are measured, too", async () => {
  using root = temporary();
  const making =
    'process.chdir(process.argv[1]); for (let i = 0; i < 1500; i++) { fs.mkdirSync("d"); process.chdir("d"); }';
  execFileSync(process.execPath, ["-e", `${making} fs.writeFileSync("deep", Buffer.alloc(5 << 20, 1))`, root.path]);
  const { bytes, files } = await measureUsage([root.path], root.path);
  expect(files).toBe(1502);
  expect(bytes).toBeGreaterThan(5 * kib ** 2);
  execFileSync("rm", ["-rf", join(root.path, "d")]);
});

test("many files block nothing", { timeout: 60_000 }, async () => {
  using root = temporary();
  execFileSync("bash", [
    "-c",
    'cd "$0" && for d in $(seq 10); do mkdir $d && (cd $d && seq 1000 | xargs touch); done',
    root.path,
  ]);
  const lag = async (work: () => unknown): Promise<number> => {
    const delay = monitorEventLoopDelay({ resolution: 5 });
    delay.enable();
    await new Promise((resolve) => setTimeout(resolve, 20));
    await work();
    await new Promise((resolve) => setTimeout(resolve, 20));
    delay.disable();
    return delay.max / 1e6;
  };
  let usage: Usage | undefined;
  const measure = () =>
    lag(async () => {
      usage = await measureUsage([root.path], root.path);
    });
  // What blocks does so each time, a neighbour that has the processor does not.
  const measured = Math.min(await measure(), await measure(), await measure());
  expect(usage?.files).toBe(10_011);
  // The control: the same in the thread that answers requests.
  const control = await lag(() => {
    for (const name of readdirSync(root.path, { recursive: true, encoding: "utf8" })) lstatSync(join(root.path, name));
  });
  console.log(`longest silence: ${measured.toFixed(0)} ms, on the main thread ${control.toFixed(0)} ms`);
  expect(measured).toBeLessThan(control / 2);
});
