import { spawnSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { removeBelow, removeTree } from "../../src/workspace/file/remove-tree.ts";
import { temporary } from "../harness/project.ts";

/** Trees as agents leave them are removed whole, and nothing else with them. */

let root: ReturnType<typeof temporary>;
beforeEach(() => {
  root = temporary("sortie-remove-");
});
afterEach(() => root[Symbol.dispose]());

const filled = (name: string, count: number): string => {
  const path = join(root.path, name);
  mkdirSync(path);
  for (let n = 0; n < count; n += 1) writeFileSync(join(path, `${n}`), "");
  return path;
};

test("of many entries few are removed at once, the rest in a thread; control: few are all removed at once", async () => {
  const many = filled("many", 3000);
  const removed = removeTree(many);
  expect(readdirSync(many).length).toBeGreaterThan(500);
  await removed;
  expect(existsSync(many)).toBe(false);
  // All within this turn, unless the machine takes five milliseconds for it.
  const few = filled("few", 20);
  const gone = removeTree(few);
  const left = existsSync(few) ? readdirSync(few).length : 0;
  await gone;
  expect(left).toBeLessThan(20);
  expect(existsSync(few)).toBe(false);
});

test("what a link leads to stays; what is deeper than folders are held open goes", async () => {
  const outside = filled("outside", 3);
  const tree = filled("tree", 1);
  symlinkSync(outside, join(tree, "link"));
  let deep = tree;
  for (let level = 0; level < 200; level += 1) mkdirSync((deep = join(deep, "d")));
  writeFileSync(join(deep, "a.txt"), "a");
  await removeTree(tree);
  expect(existsSync(tree)).toBe(false);
  expect(readdirSync(outside)).toHaveLength(3);
  symlinkSync(outside, join(root.path, "way"));
  await expect(removeBelow(root.path, "way/0")).rejects.toThrow("link");
  expect(readdirSync(outside)).toHaveLength(3);
});

test("who gives up leaves the rest, which the next call removes", async () => {
  const tree = filled("tree", 600);
  const over = new AbortController();
  const removing = removeTree(tree, over.signal);
  const reason = new Error("given up");
  over.abort(reason);
  await expect(removing).rejects.toBe(reason);
  await removeTree(tree);
  expect(existsSync(tree)).toBe(false);
});

test("what is mounted in it is not entered, and is named; control: once unmounted all goes", ({ skip }) => {
  if (spawnSync("unshare", ["-rm", "true"]).status !== 0) return skip("needs user namespaces");
  const tree = filled("tree", 3);
  mkdirSync(join(tree, "theirs"));
  const url = new URL("../../src/workspace/file/remove-tree.ts", import.meta.url).href;
  const script = `
    import { execFileSync } from "node:child_process";
    import { existsSync, readdirSync, writeFileSync } from "node:fs";
    import { removeTree } from ${JSON.stringify(url)};
    const tree = ${JSON.stringify(tree)};
    execFileSync("mount", ["-t", "tmpfs", "none", tree + "/theirs"]);
    writeFileSync(tree + "/theirs/kept.txt", "");
    const said = await removeTree(tree).then(() => "removed", (error) => error.message);
    const left = [readdirSync(tree), readdirSync(tree + "/theirs")];
    execFileSync("umount", [tree + "/theirs"]);
    await removeTree(tree);
    console.log(JSON.stringify({ said, left, there: existsSync(tree) }));`;
  // A file, not an option: a thread of the removal has the options of its process.
  const file = `${tree}.mjs`;
  writeFileSync(file, script);
  const { stdout, stderr } = spawnSync("unshare", ["-rm", process.execPath, file], { encoding: "utf8" });
  expect(stdout, stderr).not.toBe("");
  expect(JSON.parse(stdout)).toEqual({
    said: "tree/theirs could not be removed (EBUSY)",
    left: [["theirs"], ["kept.txt"]],
    there: false,
  });
});

test("folders without permissions go; control: they keep what is in them from plain removal", async () => {
  const tree = filled("tree", 1);
  const closed = [
    ["read-only", 0o500],
    ["listed", 0o400],
    ["closed", 0o000],
  ] as const;
  for (const [name, mode] of closed) {
    const inner = join(tree, name, "inner");
    mkdirSync(inner, { recursive: true });
    writeFileSync(join(inner, "a.txt"), "a");
    for (const path of [join(inner, "a.txt"), inner, join(tree, name)]) own(path);
    chmodSync(inner, mode);
    chmodSync(join(tree, name), mode);
  }
  own(tree);
  chmodSync(root.path, 0o777);
  const url = new URL("../../src/workspace/file/remove-tree.ts", import.meta.url).href;
  const said = join(root.path, "said");
  const script = join(root.path, "remove.mjs");
  writeFileSync(
    script,
    `import { rmSync, writeFileSync } from "node:fs";
    let plain = "removed";
    try { rmSync(${JSON.stringify(tree)}, { recursive: true }); } catch (error) { plain = error.code; }
    const { removeTree } = await import(${JSON.stringify(url)});
    await removeTree(${JSON.stringify(tree)});
    writeFileSync(${JSON.stringify(said)}, plain);`,
  );
  const child = spawnSync(process.execPath, [script], nobody === undefined ? {} : { uid: nobody, gid: nobody });
  expect(child.stderr.toString()).toBe("");
  expect(readFileSync(said, "utf8")).toMatch(/^(EACCES|EPERM|ENOTEMPTY)$/);
  expect(existsSync(tree)).toBe(false);
});

/** Root needs no permission, so it has somebody else remove the tree. */
const nobody = process.getuid?.() === 0 ? 65_534 : undefined;
const own = (path: string): void => {
  if (nobody !== undefined) chownSync(path, nobody, nobody);
};
