import { execFileSync } from "node:child_process";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { makeToolLab } from "./fixture.ts";

/** A repository inside the project, with a filter of its own: no call of the tool `git` may run it. */

const lab = makeToolLab();
afterAll(async () => {
  await lab.processes.stop();
  rmSync(lab.temp, { recursive: true, force: true });
});

const ran = join(lab.temp, "ran");
const sh = (cwd: string, script: string): void => {
  execFileSync("bash", ["-c", script], {
    cwd,
    stdio: "pipe",
    env: {
      PATH: process.env["PATH"] ?? "",
      HOME: lab.temp,
      GIT_AUTHOR_NAME: "T",
      GIT_AUTHOR_EMAIL: "t@t",
      GIT_COMMITTER_NAME: "T",
      GIT_COMMITTER_EMAIL: "t@t",
    },
  });
};

const nested = `git init -q n && cd n && echo x > f && git add f && git commit -qm i
echo '* filter=evil' > .gitattributes
for way in clean smudge; do git config filter.evil.$way "sh -c 'echo ran > ${ran}; cat'"; done
`;
/** Of the same size, so that git has to look at the bytes. */
const edit = (root: string) => writeFileSync(join(root, "n/f"), "y\n");

const calls: [string, object][] = [
  ["status", { action: "status" }],
  ["diff", { action: "diff" }],
  ["diff of what is staged", { action: "diff", staged: true }],
  ["add of its folder", { action: "add", paths: ["n"] }],
  ["add of all", { action: "add", paths: ["."] }],
  ["grep in untracked files", { action: "grep", pattern: "y", untracked: true }],
  ["commit", { action: "commit", message: "x" }],
  ["commit of its folder", { action: "commit", message: "x", paths: ["n"] }],
  ["show", { action: "show" }],
  ["status afterwards", { action: "status" }],
];

beforeEach(() => rmSync(ran, { force: true }));

const shapes: [string, (root: string) => void][] = [
  ["made by the agent", () => {}],
  ["added with a command of the agent's", (root) => sh(root, "git add n")],
  ["a submodule of the project's that the agent fills", (root) => sh(root, "git add n && git commit -qm sub")],
];

describe.each(shapes)("a nested repository: %s", (_name, prepare) => {
  test("no call runs its filter", async () => {
    const open = await lab.open({ "a.txt": "a\n" });
    sh(open.root, nested);
    prepare(open.root);
    edit(open.root);
    for (const [name, call] of calls) {
      await open.call("git", call);
      expect(existsSync(ran), name).toBe(false);
    }
  });

  test("control: plain git runs it", async () => {
    const open = await lab.open({ "a.txt": "a\n" });
    sh(open.root, nested);
    prepare(open.root);
    edit(open.root);
    sh(open.root, "git add n; git status; git diff; git commit -qm x; true");
    expect(existsSync(ran)).toBe(true);
  });
});

test("a nested repository is refused by name, and nothing of it is in the index; other files are added", async () => {
  const open = await lab.open({ "a.txt": "a\n" });
  sh(open.root, nested);
  open.put("b.txt", "b\n");
  expect(await open.call("git", { action: "add", paths: ["."] })).toMatchObject({
    outcome: "error",
    output: "A Git repository inside the project cannot be added: n.",
  });
  const index = execFileSync("git", ["ls-files", "-s"], { cwd: open.root, encoding: "utf8" });
  expect(index).toContain("b.txt");
  expect(index).not.toContain("160000");
  expect(await open.call("git", { action: "add", paths: ["b.txt"] })).toMatchObject({ outcome: "ok" });
});
