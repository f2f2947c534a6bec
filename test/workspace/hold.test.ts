import { spawn, spawnSync } from "node:child_process";
import fs, { existsSync, mkdirSync, readdirSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, expect, test, vi } from "vitest";
import { holdDirectory } from "../../src/workspace/worktree/hold.ts";
import { git, makeProject, temporary } from "../harness/project.ts";

/** The right to work in place, among the services of a machine: another process stands for another service. */

afterEach(() => {
  vi.unstubAllEnvs();
});

const source = fileURLToPath(new URL("../../src/workspace/worktree/hold.ts", import.meta.url));

/** A process that tries for the directory, says whether it has it, and then waits to be killed. */
const other = async (directory: string, project: string) => {
  const script = `import { holdDirectory } from ${JSON.stringify(source)};
    const held = holdDirectory(...${JSON.stringify([directory, project])});
    console.log(held === undefined ? "no" : "yes");
    setInterval(() => held, 1000);`;
  const child = spawn(
    process.execPath,
    ["--disable-warning=ExperimentalWarning", "--input-type=module", "-e", script],
    {
      stdio: ["ignore", "pipe", "inherit"],
    },
  );
  const said = await new Promise<string>((resolve) =>
    child.stdout.once("data", (data: Buffer) => resolve(String(data))),
  );
  const gone = new Promise((resolve) => child.once("exit", resolve));
  return {
    has: said.trim() === "yes",
    async kill() {
      child.kill("SIGKILL");
      await gone;
    },
  };
};

test("one at a time in a directory and the folders inside it, until its process is gone", async () => {
  using root = temporary("sortie-hold-");
  const project = makeProject(join(root.path, "project"), { "a.txt": "a\n" });
  const inside = join(project, "inside");
  mkdirSync(inside);
  const gitDir = join(project, ".git");
  const service = await other(project, gitDir);
  expect(service.has).toBe(true);
  expect(holdDirectory(project, gitDir)).toBeUndefined();
  expect(holdDirectory(inside, gitDir)).toBeUndefined();
  expect(holdDirectory(root.path, root.path)).toBeUndefined();
  // Control: beside it there is room.
  const beside = join(root.path, "project2");
  mkdirSync(beside);
  holdDirectory(beside, beside)?.[Symbol.dispose]();

  await service.kill();
  {
    using held = holdDirectory(project, gitDir);
    expect(held).toBeDefined();
    expect(holdDirectory(inside, gitDir)).toBeUndefined();
    const late = await other(inside, gitDir);
    expect(late.has).toBe(false);
    await late.kill();
    expect(readdirSync(join(gitDir, "sortie-in-place"))).toHaveLength(1);
  }
  expect(existsSync(join(gitDir, "sortie-in-place"))).toBe(false);
  expect(git(project, "status", "--porcelain")).toBe("");
});

test("without Git, too", async () => {
  using root = temporary("sortie-hold-");
  const service = await other(root.path, root.path);
  expect(service.has).toBe(true);
  expect(holdDirectory(root.path, root.path)).toBeUndefined();
  await service.kill();
  using held = holdDirectory(root.path, root.path);
  expect(held).toBeDefined();
});

test("without a place for an entry nobody holds it; control: one of the two places is enough", () => {
  using root = temporary("sortie-hold-");
  const project = makeProject(join(root.path, "project"), { "a.txt": "a\n" });
  vi.stubEnv("TMPDIR", join(root.path, "missing"));
  expect(holdDirectory(root.path, root.path)).toBeUndefined();
  using held = holdDirectory(project, join(project, ".git"));
  expect(held).toBeDefined();
});

test.each(["EMFILE", "ENOENT"])(
  "where others cannot be looked for (%s) nobody holds it, and no entry is left",
  (code) => {
    using root = temporary("sortie-hold-");
    const project = makeProject(join(root.path, "project"), { "a.txt": "a\n" });
    const list = fs.readdirSync;
    try {
      fs.readdirSync = () => {
        throw Object.assign(new Error(code), { code });
      };
      syncBuiltinESMExports();
      expect(holdDirectory(project, join(project, ".git"))).toBeUndefined();
    } finally {
      fs.readdirSync = list;
      syncBuiltinESMExports();
    }
    expect(existsSync(join(project, ".git/sortie-in-place"))).toBe(false);
    using held = holdDirectory(project, join(project, ".git"));
    expect(held).toBeDefined();
  },
);

test("who has no descriptor left takes nobody's directory; control: with one again", async () => {
  using root = temporary("sortie-hold-");
  const service = await other(root.path, root.path);
  const beside = join(root.path, "..", "beside");
  const script = `import { openSync, closeSync } from "node:fs";
    import { holdDirectory } from ${JSON.stringify(source)};
    const take = (directory) => (holdDirectory(directory, directory) === undefined ? "no" : "yes");
    take("/warm");
    const opened = [];
    try {
      for (;;) opened.push(openSync("/dev/null"));
    } catch {}
    const without = [take(${JSON.stringify(root.path)}), take(${JSON.stringify(beside)})];
    for (const fd of opened) closeSync(fd);
    console.log([...without, take(${JSON.stringify(root.path)}), take(${JSON.stringify(beside)})].join(" "));`;
  const node = [process.execPath, "--no-warnings", "--input-type=module", "-e", script];
  const said = spawnSync("bash", ["-c", `ulimit -n 200; exec "$@"`, "bash", ...node]);
  await service.kill();
  expect([said.stdout.toString(), said.stderr.toString()]).toEqual(["no no no yes\n", ""]);
});
