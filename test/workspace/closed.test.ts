import { spawnSync } from "node:child_process";
import { chmodSync, chownSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { git, makeProject, temporary } from "../harness/project.ts";

/** Folders that a check or an agent has closed, as whoever is not root meets them. */

const nobody = process.getuid?.() === 0 ? 65534 : undefined;
const own = (path: string): void => {
  if (nobody !== undefined) chownSync(path, nobody, nobody);
};
const sources = new URL("../../src/workspace/", import.meta.url).href;

test("a tree is put back to its commit, whatever folders were closed in it; control: plain git cannot", () => {
  using root = temporary("sortie-closed-");
  const project = makeProject(join(root.path, "project"), { "kept/a.txt": "a\n" });
  const head = git(project, "rev-parse", "HEAD");
  const deep = join(project, "out", "deep");
  mkdirSync(deep, { recursive: true });
  writeFileSync(join(deep, "x"), "x\n");
  writeFileSync(join(project, "kept", "a.txt"), "changed\n");
  spawnSync("chown", ["-R", `${nobody ?? ""}`, project]);
  for (const folder of [deep, join(project, "out"), join(project, "kept")]) chmodSync(folder, 0o555);
  chmodSync(root.path, 0o777);
  const script = join(root.path, "reset.mjs");
  const said = join(root.path, "said");
  writeFileSync(
    script,
    `import { writeFileSync } from "node:fs";
    import { spawnSync } from "node:child_process";
    const { createGit } = await import("${sources}git/git.ts");
    const { resetTo } = await import("${sources}tree/commit.ts");
    const git = createGit(${JSON.stringify(project)});
    const plain = spawnSync("git", ["clean", "-q", "-d", "-f", "-f"], { cwd: git.root });
    await resetTo(git, "${head}");
    writeFileSync(${JSON.stringify(said)}, String(plain.status));`,
  );
  own(script);
  const child = spawnSync(process.execPath, [script], nobody === undefined ? {} : { uid: nobody, gid: nobody });
  expect(child.stderr.toString()).toBe("");
  expect(readFileSync(said, "utf8")).toBe("1");
  expect(existsSync(join(project, "out"))).toBe(false);
  expect(readFileSync(join(project, "kept", "a.txt"), "utf8")).toBe("a\n");
});
