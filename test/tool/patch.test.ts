import { createTwoFilesPatch } from "diff";
import fc from "fast-check";
import { existsSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { fitParts, parseEnvelope } from "../../src/tool/edit/patch-format.ts";
import { makeToolLab } from "./fixture.ts";

/**
 * `apply_patch` in the form that models are trained on, and unified diffs with wrong numbers. Git's diffs:
 * tool.test.ts.
 */

const lab = makeToolLab();
afterAll(() => lab[Symbol.asyncDispose]());
const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 2 ** 31);
console.log(`patch: fast-check seed ${seed}; repeat with TEST_SEED=${seed} vitest run test/tool/patch.test.ts`);

const envelope = (...lines: string[]) => ["*** Begin Patch", ...lines, "*** End Patch"].join("\n");

describe("*** Begin Patch", () => {
  test("adds, updates, moves and deletes as one", async () => {
    const { call, get, there } = await lab.open({
      "src/a.py": "def a():\n    return 1\n\ndef b():\n    return 1\n",
      "old.txt": "x\ny\n",
      "gone.txt": "z\n",
    });
    const patch = envelope(
      "*** Add File: new/b.txt",
      "+one",
      "+",
      "+two",
      "*** Update File: src/a.py",
      "@@ def b():",
      "-    return 1",
      "+    return 2",
      "*** Update File: old.txt",
      "*** Move to: moved/new.txt",
      "@@",
      " x",
      "-y",
      "+Y",
      "*** Delete File: gone.txt",
    );
    expect((await call("apply_patch", { patch, mode: "check" })).output).toBe("The patch applies; it changes 5 files.");
    expect(there("gone.txt")).toBe(true);
    expect(await call("apply_patch", { patch })).toEqual({
      outcome: "ok",
      output:
        "Applied the patch to 5 files.\nA new/b.txt (+3 -0)\nM src/a.py (+1 -1)\nD old.txt (+0 -2)\nA moved/new.txt (+2 -0)\nD gone.txt (+0 -1)",
    });
    expect(get("new/b.txt")).toBe("one\n\ntwo\n");
    expect(get("src/a.py")).toBe("def a():\n    return 1\n\ndef b():\n    return 2\n");
    expect(get("moved/new.txt")).toBe("x\nY\n");
    expect([there("old.txt"), there("gone.txt")]).toEqual([false, false]);
  });

  test("one hunk that does not fit changes nothing of any file, and is told with what stands there", async () => {
    const { call, get, there } = await lab.open({ "a.txt": "one\ntwo\nthree\n", "b.txt": "x\n" });
    const patch = envelope(
      "*** Add File: c.txt",
      "+c",
      "*** Update File: b.txt",
      "@@",
      "-x",
      "+y",
      "*** Update File: a.txt",
      "@@",
      "-one",
      "+1",
      "@@",
      " twos",
      "-three",
      "+3",
    );
    const { outcome, output } = await call("apply_patch", { patch });
    expect(outcome).toBe("error");
    expect(output).toBe(
      "The patch does not apply; nothing was changed.\nRejected: a.txt, hunk 2 of 2: expected the lines\n  twos\n  three\nand the nearest are\n2\ttwo\n3\tthree",
    );
    expect([get("a.txt"), get("b.txt"), there("c.txt")]).toEqual(["one\ntwo\nthree\n", "x\n", false]);
  });

  test("lines that stand in several places: a text after @@ or a line number chooses, else it is refused", async () => {
    const text = "class A:\n  def f():\n    pass\n\nclass B:\n  def f():\n    pass\n";
    const { call, get, put } = await lab.open({ "a.py": text });
    const hunk = (header: string) => envelope("*** Update File: a.py", header, "   def f():", "-    pass", "+    go()");
    expect((await call("apply_patch", { patch: hunk("@@") })).output).toContain("its lines stand at lines 2, 6;");
    expect((await call("apply_patch", { patch: hunk("@@ class C:") })).output).toContain(
      '"class C:" is not one line of the file.',
    );
    expect((await call("apply_patch", { patch: hunk("@@ def f():") })).output).toContain(
      "its lines stand at lines 2, 6;",
    );
    expect(get("a.py")).toBe(text);
    expect((await call("apply_patch", { patch: hunk("@@ class B:") })).outcome).toBe("ok");
    expect(get("a.py")).toBe("class A:\n  def f():\n    pass\n\nclass B:\n  def f():\n    go()\n");
    put("a.py", text);
    expect((await call("apply_patch", { patch: hunk("@@ -6,2 +6,2 @@") })).outcome).toBe("ok");
    expect(get("a.py")).toBe("class A:\n  def f():\n    pass\n\nclass B:\n  def f():\n    go()\n");
  });

  test("white space, line ends, a missing last line end, End of File, additions", async () => {
    const { call, get } = await lab.open({
      "win.txt": "a\r\nb\r\n",
      "tail.txt": "a  \nb",
      "deep.py": "if x:\n    if y:\n        go()\n",
      "end.txt": "a\nb\n-\na\nb\n",
      "empty.txt": "",
      "grow.txt": "one\n",
    });
    const patch = envelope(
      "*** Update File: win.txt",
      "@@",
      " a",
      "-b",
      "+B",
      "+C",
      "*** Update File: tail.txt",
      "@@",
      " a",
      "-b",
      "+c",
      "*** Update File: deep.py",
      "@@",
      " if y:",
      "-    go()",
      "+    stop()",
      "*** Update File: end.txt",
      "@@",
      " a",
      "-b",
      "+B",
      "*** End of File",
      "*** Update File: empty.txt",
      "@@",
      "+first",
      "*** Update File: grow.txt",
      "@@",
      "+two",
      "*** End of File",
    );
    const { output } = await call("apply_patch", { patch });
    expect(output).toContain("Applied the patch to 6 files.");
    expect(output).toContain("deep.py, hunk 1 of 1: it was indented otherwise.");
    expect(["win.txt", "tail.txt", "deep.py", "end.txt", "empty.txt", "grow.txt"].map(get)).toEqual([
      "a\r\nB\r\nC\r\n",
      "a  \nc",
      "if x:\n    if y:\n        stop()\n",
      "a\nb\n-\na\nB\n",
      "first\n",
      "one\ntwo\n",
    ]);
  });

  test.each([
    ["no end", "*** Begin Patch\n*** Add File: a\n+x", "Expected `*** End Patch`"],
    ["no file", envelope(), "Expected a file in the patch"],
    ["no hunk", envelope("*** Update File: a.txt"), "Expected a hunk for a.txt"],
    ["a line of nothing", envelope("hello"), "Line 2 of the patch: expected `*** Add File:`"],
    [
      "a new file without +",
      envelope("*** Add File: n", "text"),
      "Line 3 of the patch: expected a line of the new file",
    ],
    ["text below a deletion", envelope("*** Delete File: a.txt", "-one"), "expected nothing below"],
    ["a hunk line without its sign", envelope("*** Update File: a.txt", "@@", "-one", "two"), "Line 5 of the patch"],
    ["a file that is there", envelope("*** Add File: a.txt", "+x"), "Expected nothing at a.txt yet"],
    ["a file that is not", envelope("*** Update File: none", "@@", "-a", "+b"), "Expected a file at none, got nothing"],
    ["a deletion of nothing", envelope("*** Delete File: none"), "Expected a file at none"],
    ["a move onto a file", envelope("*** Update File: a.txt", "*** Move to: b.txt"), "Expected nothing at b.txt yet"],
    [
      "an addition without a place",
      envelope("*** Update File: a.txt", "@@", "+x"),
      "only adds lines and does not say where",
    ],
    [
      "hunks out of order",
      envelope("*** Update File: a.txt", "@@", "-two", "+2", "@@", "-one", "+1"),
      "at line 1, above the hunk before it",
    ],
    ["a binary file", envelope("*** Update File: bin", "@@", "-a", "+b"), "got a binary file"],
    ["a path outside", envelope("*** Add File: ../out.txt", "+x"), 'without ".."'],
    ["an absolute path", envelope("*** Add File: /tmp/sortie-out.txt", "+x"), "inside the project"],
    [".git", envelope("*** Add File: .git/hooks/pre-commit", "+x"), "outside .git"],
    ["a name for secrets", envelope("*** Add File: .env", "+x"), "without secrets"],
    ["a move to .git", envelope("*** Update File: a.txt", "*** Move to: .git/config"), "outside .git"],
    [
      "a folder out by a link",
      envelope("*** Update File: a.txt", "@@", "-one", "+1", "*** Add File: link/x", "+x"),
      "",
    ],
  ])("refuses %s, and changes nothing", async (_name, patch, why) => {
    const { call, get, root } = await lab.open({ "a.txt": "one\ntwo\n", "b.txt": "b\n", bin: Buffer.from([1, 0, 2]) });
    symlinkSync(lab.temp, join(root, "link"));
    const { outcome, output } = await call("apply_patch", { patch });
    expect(outcome).toBe("error");
    expect(output).toContain(why);
    expect([get("a.txt"), get("b.txt"), existsSync(join(lab.temp, "x"))]).toEqual(["one\ntwo\n", "b\n", false]);
  });
});

describe("unified diffs of models", () => {
  const text = "a\nb\nc\nd\ne\n";
  test.each([
    ["wrong counts", "--- a/f.txt\n+++ b/f.txt\n@@ -1,9 +1,2 @@\n b\n-c\n+C\n d\n"],
    ["no numbers", "--- a/f.txt\n+++ b/f.txt\n@@ @@\n b\n-c\n+C\n"],
    ["bare @@", "--- f.txt\n+++ f.txt\n@@\n b\n-c\n+C\n"],
    ["a wrong line", "--- a/f.txt\n+++ b/f.txt\n@@ -40,3 +40,3 @@\n b\n-c\n+C\n d\n"],
    ["white space at line ends", "--- a/f.txt\n+++ b/f.txt\n@@ -2,3 +2,3 @@\n b  \n-c\n+C\n d\n"],
    ["Git's header", "diff --git a/f.txt b/f.txt\n--- a/f.txt\n+++ b/f.txt\n@@ -2 +2 @@\n b\n-c\n+C\n"],
  ])("%s", async (_name, patch) => {
    const { call, get } = await lab.open({ "f.txt": text });
    expect(await call("apply_patch", { patch })).toMatchObject({ outcome: "ok" });
    expect(get("f.txt")).toBe("a\nb\nC\nd\ne\n");
  });
  test("new and deleted files with wrong counts", async () => {
    const { call, get, there } = await lab.open({ "f.txt": text });
    const patch =
      "--- /dev/null\n+++ b/n.txt\n@@ -0,0 +1,7 @@\n+one\n+two\n--- a/f.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n";
    expect((await call("apply_patch", { patch })).output).toContain("2 files");
    expect([get("n.txt"), there("f.txt")]).toEqual(["one\ntwo\n", false]);
  });
  test("a hunk that is not where it says, but in two other places, is refused; where it says, it is taken", async () => {
    const twice = "x\na\nb\ny\na\nb\n";
    const { call, get } = await lab.open({ "f.txt": twice });
    const at = (line: number) => `--- a/f.txt\n+++ b/f.txt\n@@ -${line},2 +${line},2 @@\n a\n-b\n+B\n`;
    expect((await call("apply_patch", { patch: at(3) })).output).toContain("are not at line 3, but at lines 2, 5");
    expect(get("f.txt")).toBe(twice);
    expect((await call("apply_patch", { patch: at(5) })).outcome).toBe("ok");
    expect(get("f.txt")).toBe("x\na\nb\ny\na\nB\n");
  });
  test("writes through no link", async () => {
    const { call, root } = await lab.open({ "f.txt": text });
    const victim = join(lab.temp, "victim.txt");
    writeFileSync(victim, "safe\n");
    symlinkSync(victim, join(root, "soft"));
    const patch = "--- a/soft\n+++ b/soft\n@@ -1 +1 @@\n-safe\n+x\n";
    expect((await call("apply_patch", { patch })).outcome).toBe("error");
  });
});

describe("against a reference", () => {
  const line = fc.stringMatching(/^[ab -]{0,3}$/);
  const file = fc.array(line, { maxLength: 14 });

  test("the hunks between two texts make the one from the other, or are refused as doubtful; nothing third", () => {
    let applied = 0;
    fc.assert(
      fc.property(file, file, fc.nat(3), fc.boolean(), (from, to, context, numbers) => {
        const [before, after] = [from, to].map((lines) => lines.map((one) => `${one}\n`).join(""));
        fc.pre(before !== after && before !== undefined && after !== undefined && from.length > 0);
        const hunks = createTwoFilesPatch("f", "f", before, after, "", "", { context }).split("\n").slice(4, -1);
        const lines = hunks.map((one) => (one.startsWith("@@ -") && !numbers ? "@@" : one));
        const parts = parseEnvelope(envelope("*** Update File: f", ...lines));
        if ("refused" in parts) throw new Error(parts.refused);
        const fitted = fitParts(new Map([["f", { bytes: Buffer.from(before), executable: false }]]), parts);
        if (!fitted.ok) {
          expect(fitted.why).toMatch(/stand at line|only adds lines/);
          return;
        }
        applied += 1;
        const made = fitted.tree.get("f")?.bytes.toString();
        if (numbers || context > 0) expect(made).toBe(after);
      }),
      { seed, numRuns: 1500 },
    );
    expect(applied).toBeGreaterThan(300);
  });
});
