import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { holdDirectory } from "../../src/workspace/worktree/hold.ts";
import { git, makeProject, temporary } from "../harness/project.ts";

/** The right to work in place, among the services of a machine: another process stands for another service. */

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
