import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { replaceIn } from "../../src/tool/edit/replace.ts";
import { makeToolLab } from "./fixture.ts";
import { night } from "../harness/night.ts";

/** `edit`: what is replaced, what is left alone, what is refused. */

const lab = makeToolLab();
afterAll(() => lab[Symbol.asyncDispose]());
const runs = night ? 200_000 : 3000;
const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 2 ** 31);
console.log(`edit: fast-check seed ${seed}; repeat with TEST_SEED=${seed} vitest run test/tool/edit.test.ts`);

const made = (text: string, old: string, fresh: string, all = false): string => {
  const result = replaceIn(text, { old, new: fresh, all });
  return "why" in result ? `WHY ${result.why("f")}` : result.text;
};

describe("several edits", () => {
  test("are made in order, each on the result of the one before, as one change with one answer", async () => {
    const { call, get } = await lab.open({ "a.ts": "one\ntwo\nthree\n" });
    const edits = [
      { old: "one", new: "1" },
      { old: "1\ntwo", new: "1\n2" },
      { old: "three", new: "3" },
    ];
    expect(await call("edit", { path: "a.ts", edits })).toEqual({
      outcome: "ok",
      output: "Replaced 3 matches in a.ts (+3 -3).\n1\t1\n2\t2\n3\t3",
    });
    expect(get("a.ts")).toBe("1\n2\n3\n");
  });

  test("one that does not fit leaves the file as it was, byte for byte", async () => {
    const { call, get } = await lab.open({ "a.ts": "one\ntwo\n" });
    const result = await call("edit", {
      path: "a.ts",
      edits: [
        { old: "one", new: "1" },
        { old: "tow", new: "2" },
      ],
    });
    expect(result.outcome).toBe("error");
    expect(result.output).toMatch(/^Edit 2 of 2: Expected the text in a\.ts, got no match; nothing was changed\./);
    expect(get("a.ts")).toBe("one\ntwo\n");
    const undone = [
      { old: "one", new: "1" },
      { old: "1", new: "one" },
    ];
    expect((await call("edit", { path: "a.ts", edits: undone })).output).toContain("undo each other");
    expect((await call("edit", { path: "a.ts", edits: [] })).output).toContain("invalid");
  });

  test("one that changes nothing is told by itself, and the others are made; nothing but such ones is a failure", async () => {
    const { call, get } = await lab.open({ "a.ts": "one\ntwo\nthree\n" });
    const same = { old: "two", new: "two" };
    const edits = [{ old: "one", new: "1" }, same, { old: "three", new: "3" }];
    expect(await call("edit", { path: "a.ts", edits })).toEqual({
      outcome: "ok",
      output:
        "Replaced 2 matches in a.ts (+2 -2).\nEdit 2 of 3: Left out: its `old` and `new` are the same.\n1\t1\n2\ttwo\n3\t3",
    });
    expect(get("a.ts")).toBe("1\ntwo\n3\n");
    expect(await call("edit", { path: "a.ts", edits: [same] })).toEqual({
      outcome: "error",
      output: "Nothing was changed in a.ts: `old` and `new` are the same.",
    });
    expect((await call("edit", { path: "a.ts", edits: [same, same] })).output).toBe(
      "Nothing was changed in a.ts: `old` and `new` are the same in every edit.",
    );
  });
});

describe("the answer", () => {
  const numbers = (from: number, to: number) =>
    Array.from({ length: to - from + 1 }, (_, at) => `line ${from + at}\n`).join("");

  test("has the changed lines and three around each place, with the numbers that they have now; never the text again", async () => {
    const { call } = await lab.open({ "a.txt": numbers(1, 120) });
    const given = numbers(1001, 1040);
    const { output } = await call("edit", {
      path: "a.txt",
      edits: [
        { old: "line 10\n", new: given },
        { old: "line 100\nline 101\n", new: "" },
      ],
    });
    expect(output).toBe(
      `Replaced 2 matches in a.txt (+40 -3).
  7\tline 7
  8\tline 8
  9\tline 9
 10\tline 1001
 11\tline 1002
 12\tline 1003
 13\tline 1004
… 32 more lines as you gave them …
 46\tline 1037
 47\tline 1038
 48\tline 1039
 49\tline 1040
 50\tline 11
 51\tline 12
 52\tline 13
…
136\tline 97
137\tline 98
138\tline 99
139\tline 102
140\tline 103
141\tline 104`,
    );
    expect(output).not.toContain("line 1020");
    // The numbers are those that a read has.
    const { output: read } = await call("read", { path: "a.txt", offset: 136, limit: 6 });
    for (const line of output.split("\n").slice(-6)) expect(read).toContain(line.trim());
  });

  test("control: what is short is shown whole, and a file of one line needs no more", async () => {
    const { call } = await lab.open({ "a.txt": "a", "b.txt": "x\n" });
    expect((await call("edit", { path: "a.txt", edits: [{ old: "a", new: numbers(1, 9) }] })).output).toBe(
      `Replaced 1 match in a.txt (+9 -1).\n${Array.from({ length: 9 }, (_, at) => `${`${at + 1}`.padStart(2)}\tline ${at + 1}`).join("\n")}`,
    );
    expect((await call("edit", { path: "b.txt", edits: [{ old: "x\n", new: "" }] })).output).toBe(
      "Replaced 1 match in b.txt (+0 -1).",
    );
  });
});

describe("white space", () => {
  test.each([
    [
      "spaces at line ends of the file stay where nothing was changed",
      "a  \nb\t\nc\n",
      "a\nb\nc",
      "a\nB\nc",
      "a  \nB\nc\n",
    ],
    ["spaces at line ends of the call", "a\nb\nc\n", "a  \nb \nc", "a  \nB\nc", "a\nB\nc\n"],
    ["CRLF in the file, LF in the call", "a\r\nb\r\nc\r\n", "a\nb\n", "a\nx\ny\n", "a\r\nx\r\ny\r\nc\r\n"],
    ["one line becomes two in a CRLF file", "a\r\nb\r\n", "b", "x\ny", "a\r\nx\r\ny\r\n"],
    ["mixed line ends: each line keeps its own", "a\r\nb\nc\r\nd\n", "b\nc", "b\nC\nD", "a\r\nb\nC\nD\r\nd\n"],
    ["LF stays LF", "a\nb\n", "b", "x\ny", "a\nx\ny\n"],
    [
      "indented deeper in the file",
      "if x:\n    if y:\n        go()\n        end()\n",
      "if y:\n    go()\n    end()",
      "if y:\n    go()\n    if z:\n        stop()\n    end()",
      "if x:\n    if y:\n        go()\n        if z:\n            stop()\n        end()\n",
    ],
    [
      "indented less in the file",
      "a {\n  b;\n}\n",
      "    a {\n      b;\n    }",
      "    a {\n      c;\n    }",
      "a {\n  c;\n}\n",
    ],
    [
      "tabs in the file, spaces in the call",
      "f {\n\tif {\n\t\tx;\n\t}\n}\n",
      "f {\n  if {\n    x;\n  }\n}",
      "f {\n  if {\n    x;\n    y;\n  }\n}",
      "f {\n\tif {\n\t\tx;\n\t\ty;\n\t}\n}\n",
    ],
    [
      "spaces in the file, tabs in the call",
      "f {\n    x;\n}\n",
      "f {\n\tx;\n}\n",
      "f {\n\tx;\n\ty;\n}\n",
      "f {\n    x;\n    y;\n}\n",
    ],
    ["blank lines inside a block", "  a\n\n  b\n", "a\n\nb\nX".slice(0, 4), "a\n\nc", "  a\n\n  c\n"],
    ["no line end at the end of the file", "a\nb", "b\n", "c\n", "a\nc"],
    ["the last line goes", "a\nb", "b\n", "", "a"],
    ["a byte order mark stays", "\uFEFFa\nb\n", "a\nb\n", "c\n", "\uFEFFc\n"],
  ])("%s", (_name, text, old, fresh, wanted) => {
    expect(made(text, old, fresh)).toBe(wanted);
  });

  test.each([
    ["indentation that differs in two ways", "  a\n     b\n", "a\nb", "c"],
    ["white space inside a line", "a  b\n", "a b", "c"],
    ["the end of a longer word", "x\nfoobar\n", "x\nfoo ", "y"],
    ["less indentation than can be taken away", "a {\n  b;\n}\n", "    a {\n      b;\n    }", "x\n    }"],
    ["only white space", "a\n\n\nb\n", "   ", "c"],
    ["an empty file", "", "a\n", "b\n"],
  ])("is no match: %s", (_name, text, old, fresh) => {
    expect(made(text, old, fresh)).toContain("WHY Expected the text in f, got no match");
  });

  test("several places are never chosen from, in no reading; the lines are named", () => {
    const lines = /got 2, at lines 1, 4\./;
    expect(made("a\nb\n-\na\nb\n", "a\nb", "c")).toMatch(lines);
    expect(made("a \nb\n-\na \nb\n", "a\nb", "c")).toMatch(lines);
    expect(made("  a\n  b\n-\n    a\n    b\n", "a\nb", "c")).toMatch(lines);
    expect(made("a\nb\n-\na\nb\n", "a\nb", "c", true)).toBe("c\n-\nc\n");
    expect(made("a \nb\n-\na\t\nb\n", "a\nb", "c", true)).toBe("c\n-\nc\n");
    // The strictest reading that finds anything counts: one exact match is not made doubtful by a loose one.
    expect(made("a\nb\n-\na \nb\n", "a\nb", "c")).toBe("c\n-\na \nb\n");
  });

  test("a miss says where the new text stands already, and a note how it was read", async () => {
    expect(made("const x = 2;\n", "const x = 1;\n", "const x = 2;\n")).toContain("is there already, at line 1.");
    const { call } = await lab.open({ "a.py": "    a = 1\n    b = 2\n" });
    const { output } = await call("edit", { path: "a.py", edits: [{ old: "a = 1\nb = 2\n", new: "a = 1\nc = 3\n" }] });
    expect(output).toContain("Replaced 1 match in a.py (+1 -1).\nYour `old` was indented otherwise;");
    expect(output).toContain("1\t    a = 1\n2\t    c = 3");
  });
});

describe("against a reference", () => {
  const word = fc.stringMatching(/^[ab{} ;$]{0,6}$/);
  const line = fc
    .tuple(fc.constantFrom("", "  ", "    ", "\t"), word, fc.constantFrom("", "", " ", "\t"))
    .map((parts) => parts.join(""));
  const file = fc.array(line, { minLength: 1, maxLength: 12 });
  const eol = fc.constantFrom("\n", "\r\n");
  const bare = (text: string) =>
    text
      .split("\n")
      .map((one) => one.trimEnd())
      .join("\n");

  test("an exact part that stands once is replaced as text is; more than once is refused", () => {
    fc.assert(
      fc.property(file, fc.nat(80), fc.integer({ min: 1, max: 30 }), word, (lines, at, size, fresh) => {
        const text = lines.join("\n");
        const old = text.slice(at, at + size);
        fc.pre(old !== "" && old !== fresh);
        const parts = text.split(old);
        const result = made(text, old, fresh);
        // Places may overlap: "aa" stands in "aaa" twice.
        const second = text.indexOf(old, text.indexOf(old) + 1);
        if (second < 0) expect(result).toBe(parts.join(fresh));
        else expect(result).toMatch(/^WHY Expected exactly one match/);
        expect(made(text, old, fresh, true)).toBe(parts.join(fresh));
      }),
      { seed, numRuns: 1500 },
    );
  });

  test("lines read without their ends or indentation: only the lines that were changed change", () => {
    let loose = 0;
    fc.assert(
      fc.property(
        file,
        eol,
        fc.nat(11),
        fc.integer({ min: 2, max: 5 }),
        fc.nat(4),
        fc.constantFrom("keep", "bare", "deeper", "shallower"),
        fc.boolean(),
        (lines, end, first, count, changed, how, closed) => {
          const there = lines.slice(first, first + count);
          fc.pre(there.length === count && there.some((one) => one.trim() !== ""));
          const turn = (one: string) =>
            how === "bare"
              ? one.trimEnd()
              : how === "deeper"
                ? one.trim() === ""
                  ? ""
                  : `   ${one}`
                : how === "shallower"
                  ? one.replace(/^ {2}/, "")
                  : one;
          const asked = there.map(turn);
          fc.pre(how !== "shallower" || there.every((one) => one.trim() === "" || one.startsWith("  ")));
          const index = changed % count;
          const wanted = asked.with(index, `${/^[ \t]*/.exec(asked[index] ?? "")?.[0] ?? ""}new`);
          const text = lines.map((one) => one + end).join("");
          const tail = closed ? "\n" : "";
          const old = asked.join("\n") + tail;
          const fresh = wanted.join("\n") + tail;
          // Without its line end an empty last line is no line of the text.
          fc.pre(old.trim() !== "" && old !== fresh && (closed || asked.at(-1) !== ""));
          const result = made(text, old, fresh);
          // Never anything but that one line; a doubt or a miss changes nothing.
          if (result.startsWith("WHY")) return;
          loose += text.includes(old) ? 0 : 1;
          const after = result.split(end);
          const differing = lines.flatMap((one, at) => (after[at] === one ? [] : [at]));
          expect([after.length, differing.length]).toEqual([lines.length + 1, 1]);
          const at = differing[0] ?? -1;
          // It may stand elsewhere only if the same lines do; where `old` stands as text, also the end of a line before
          // them and the beginning of one after them, for a text may begin and end within a line.
          const start = at - index;
          const asText = bare(text).includes(bare(old));
          const stands = lines.slice(start, start + count).map((one) => one.trim());
          const meant = there.map((one) => one.trim());
          if (asText && stands[0]?.endsWith(meant[0] ?? "")) stands[0] = meant[0] ?? "";
          if (asText && !closed && stands.at(-1)?.startsWith(meant.at(-1) ?? ""))
            stands[count - 1] = meant.at(-1) ?? "";
          expect(stands).toEqual(meant);
          expect(after[at]?.trimStart()).toMatch(asText ? /new/ : /^new/);
        },
      ),
      {
        seed,
        numRuns: runs,
        // An empty first line is as text the end of whatever line comes before.
        examples: [[["", "  ;", ";"], "\n", 0, 2, 0, "shallower", false]],
      },
    );
    // The control: the reading that is tested was in fact needed.
    expect(loose).toBeGreaterThan(100);
  });
});

describe("hostile texts", () => {
  test("large and repetitive ones stay quick, and find nothing", () => {
    const shapes: [text: string, old: string][] = [
      [" ".repeat(1_000_000) + "x", `y${" ".repeat(1000)}\nz`],
      ["a\n".repeat(500_000), `${"  a\n".repeat(3000)}b\n`],
      [`${" ".repeat(500)}\n`.repeat(2000), `${" ".repeat(400)}\nq`],
      ["\r".repeat(500_000), "\r\na\n"],
      ["ab".repeat(400_000), `${"ab".repeat(3000)}c`],
    ];
    for (const [text, old] of shapes) {
      const started = performance.now();
      expect(made(text, old, "new")).toMatch(/^WHY/);
      expect([old.slice(0, 10), performance.now() - started < 2000]).toEqual([old.slice(0, 10), true]);
    }
  });
});
