import { execFileSync } from "node:child_process";
import { afterAll, describe, expect, test } from "vitest";
import { makeToolLab } from "./fixture.ts";

/** The git tool shows nothing of files that may not be read: `.env` is tracked in many projects. */

const lab = makeToolLab();
afterAll(() => lab[Symbol.asyncDispose]());

const plain = "PORT=1\nHOST=a\nMODE=b\nLANG=c\nSIZE=d\n";

const open = async () => {
  const opened = await lab.open({ ".env": `${plain}A=old-secret\n`, "sub/key.pem": "old-secret\n", "a.txt": "old\n" });
  const git = (...args: string[]) =>
    execFileSync("git", ["-c", "user.name=T", "-c", "user.email=t@t", ...args], {
      cwd: opened.root,
      encoding: "utf8",
      stdio: "pipe",
    }).trim();
  const files = opened.context.workspace.files;
  return {
    ...opened,
    git,
    /** As an agent that may read everything. */
    freely: { workspace: { ...opened.context.workspace, files: { ...files, mayRead: () => true } } },
  };
};

describe("what a difference shows", () => {
  test("diff, also staged and of a rename, show, and grep leave them out and say so", async () => {
    const { call, put, git, freely } = await open();
    put(".env", `${plain}A=new-secret\n`);
    put("sub/key.pem", "new-secret\n");
    put("a.txt", "new\n");
    const same = async (input: object, revealing = true) => {
      const { outcome, output } = await call("git", input);
      expect([input, outcome, output.includes("secret")]).toEqual([input, "ok", false]);
      expect([input, (await call("git", input, freely)).output.includes("secret")]).toEqual([input, revealing]);
      return output;
    };
    const diff = await same({ action: "diff" });
    expect(diff).toContain("-old\n+new");
    expect(diff).toMatch(/\nNot shown, because they may not be read: \.env, sub\/key\.pem\.$/);
    expect(await same({ action: "diff", paths: ["sub"] })).toBe(
      "Not shown, because they may not be read: sub/key.pem.",
    );
    expect(await same({ action: "diff", paths: ["a.txt"] }, false)).not.toContain("Not shown");
    // Git calls it a rename, and would show the line that went.
    git("mv", ".env", "settings.txt");
    put("settings.txt", plain);
    git("add", "settings.txt");
    await same({ action: "diff", staged: true });
    git("add", "-A");
    git("commit", "-qm", "two");
    const shown = await same({ action: "show" });
    expect([shown.includes("+new"), shown.includes("Not shown")]).toEqual([true, true]);
    await same({ action: "diff", revision: "HEAD~1..HEAD" });
    await same({ action: "diff", revision: "HEAD~1" });
    const found = { action: "grep", pattern: "new-secret" };
    expect((await call("git", found)).output).toBe("No match.");
    expect((await call("git", found, freely)).output).toBe("1\tsub/key.pem");
  });

  test("contents by their own name are no commit", async () => {
    const { call, git } = await open();
    const blob = git("rev-parse", "HEAD:.env");
    const other = git("rev-parse", "HEAD:a.txt");
    // What is guarded against: Git itself shows them.
    expect(git("diff", `${other}..${blob}`)).toContain("old-secret");
    for (const revision of [blob, `${other}..${blob}`])
      for (const action of ["show", "diff"]) {
        const { outcome, output } = await call("git", { action, revision });
        expect([action, outcome, output.includes("old-secret")]).toEqual([action, "error", false]);
      }
    expect((await call("git", { action: "show", revision: "HEAD" })).outcome).toBe("ok");
    expect((await call("git", { action: "diff", revision: "HEAD.." })).outcome).toBe("ok");
  });
});
