import { describe, expect, test } from "vitest";
import { recipesOf } from "../../src/check/project/script.ts";
import { findRedefined } from "../../src/check/project/redefined.ts";
import type { BaseFiles } from "../../src/workspace/workspace.ts";
import { cpuMs, slowness } from "../harness/pace.ts";

/** Which files say how a check is run, and were changed: given the files before and now. */

type Tree = Record<string, string>;

const beforeOf = (old: Tree, now: Tree): BaseFiles => ({
  paths: [],
  text: (path) => Promise.resolve(old[path]),
  now: (path) => Promise.resolve(now[path]),
  changed: (path) =>
    Promise.resolve(
      old[path] === undefined || old[path] === now[path]
        ? undefined
        : { bytes: Buffer.from(old[path]), executable: true },
    ),
});
const redefined = async (run: string, old: Tree, now: Tree, cwd = ".") => {
  const { laid, names } = await findRedefined(run, cwd, beforeOf(old, now));
  return { names, laid: Object.fromEntries(laid.map(({ path, bytes }) => [path, bytes.toString()])) };
};
const pack = (scripts: Tree, more: object = {}) => JSON.stringify({ ...more, scripts });
const nothing = { names: [], laid: {} };

describe("a script that the command names", () => {
  test.each([
    ["./scripts/run.sh", "scripts/run.sh"],
    ["CI=1 timeout 60 bash -e scripts/run.sh --all && echo ok", "scripts/run.sh"],
    ["cd tools; ./verify", "tools/verify"],
    ["node ci/check.mjs | grep ok", "ci/check.mjs"],
    ["sh run-tests.sh", "run-tests.sh"],
    ["(. check-all.sh)", "check-all.sh"],
  ])("%s: %s", async (run, path) => {
    expect(await redefined(run, { [path]: "old" }, { [path]: "new" })).toEqual({
      names: [path],
      laid: { [path]: "old" },
    });
    // As it was, or new: nothing to compare.
    expect(await redefined(run, { [path]: "old" }, { [path]: "old" })).toEqual(nothing);
    expect(await redefined(run, {}, { [path]: "new" })).toEqual(nothing);
  });

  test.each([
    "node sum.js",
    "./greet.sh | grep hello",
    "grep -q check a.txt",
    "node --test sum.test.js",
    "pytest test_check.py",
    "cat ../check.sh",
    "/bin/check",
  ])("%s: what is checked, or a test", async (run) => {
    const paths = ["sum.js", "greet.sh", "a.txt", "sum.test.js", "test_check.py", "check.sh"];
    const all = (text: string) => Object.fromEntries(paths.map((path) => [path, text]));
    expect(await redefined(run, all("old"), all("new"))).toEqual(nothing);
  });
});

describe("a package.json script", () => {
  test("that is called, with those it calls and their files; the rest of the file stays as it is", async () => {
    const old = {
      "package.json": pack({ test: "npm run unit && node scripts/check.js", unit: "vitest" }),
      "scripts/check.js": "old",
    };
    const now = {
      "package.json": pack({ test: "npm run unit", unit: "true", more: "x" }, { name: "p" }),
      "scripts/check.js": "new",
    };
    expect(await redefined("npm test", old, now)).toEqual({
      names: ["package.json (scripts.test)", "package.json (scripts.unit)", "scripts/check.js"],
      laid: {
        "scripts/check.js": "old",
        "package.json": `${JSON.stringify({ name: "p", scripts: { test: "npm run unit && node scripts/check.js", unit: "vitest", more: "x" } }, null, 2)}\n`,
      },
    });
  });

  test.each(["npm t", "npm run -s test", "yarn test", "pnpm --dir . test", "bun run test", "cd sub && npm test"])(
    "%s",
    async (run) => {
      const { names } = await redefined(
        run,
        { "package.json": pack({ test: "a" }) },
        { "package.json": pack({ test: "b" }) },
      );
      expect(names).toEqual(["package.json (scripts.test)"]);
    },
  );

  test("another script, another field, a script that is new: nothing", async () => {
    const old = { "package.json": pack({ test: "a", build: "b" }) };
    for (const now of [pack({ test: "a", build: "c" }), pack({ test: "a", build: "b" }, { type: "module" })])
      expect(await redefined("npm test", old, { "package.json": now })).toEqual(nothing);
    expect(await redefined("npm test", { "package.json": "{}" }, { "package.json": pack({ test: "a" }) })).toEqual(
      nothing,
    );
    // Broken now: as a whole.
    expect(await redefined("npm test", old, { "package.json": "{" })).toMatchObject({ laid: old });
  });

  test("one that calls itself ends", async () => {
    const self = { "package.json": pack({ test: "npm test" }) };
    expect(await redefined("npm test", self, self)).toEqual(nothing);
  });
});

test("a Makefile's target, what it needs, and the scripts in it; not another target", async () => {
  const make = (unit: string, other = "x") =>
    `all: test\n\nX := 1\ntest: unit\n\t@./ci/run.sh\nunit:\n\t-${unit}\nother:\n\t${other}\n`;
  const old = { Makefile: make("go test"), "ci/run.sh": "old" };
  expect((await redefined("make test", old, { ...old, Makefile: make("true") })).names).toEqual(["Makefile"]);
  expect((await redefined("make -C . -s", old, { ...old, Makefile: make("true") })).names).toEqual(["Makefile"]);
  expect(await redefined("make test", old, { ...old, Makefile: make("go test", "y") })).toEqual(nothing);
  expect((await redefined("make test", old, { ...old, "ci/run.sh": "new" })).names).toEqual(["ci/run.sh"]);
});

describe("a Makefile at its bound", () => {
  /** Whether a mebibyte takes about four times as long as a quarter of it, and not sixteen times. */
  const times = (makefile: (lines: number) => string) =>
    [20_000, 80_000].map((lines) => {
      const text = makefile(lines);
      return cpuMs(() => recipesOf(text, ["t1"]), 3);
    }) as [number, number];

  test.each<[string, (lines: number) => string]>([
    ["one target again and again", (lines) => "t1: x\n".repeat(lines)],
    ["many targets of one long rule", (lines) => `${targets(lines / 2)}: a\n${"\ta\n".repeat(lines / 2)}`],
    [
      "targets that all need all",
      (lines) => `${targets(lines / 2)}: ${targets(lines / 2)}\n${"\ta\n".repeat(lines / 2)}`,
    ],
    ["a chain", (lines) => Array.from({ length: lines }, (_, n) => `t${n}: t${n + 1}\n`).join("")],
  ])("%s is read in time that grows with it alone", (_, makefile) => {
    const [quarter, whole] = times(makefile);
    expect(whole).toBeLessThan(Math.max(100 * slowness(), quarter * 10));
  });

  test("what a target needs is reached through every rule of it, and shared lines are there once", () => {
    expect(recipesOf("all: a\nall: b\n\tlast\na b: c\n\tshared\nc:\n\tdeep\nx:\n\tnever\n", [])).toEqual([
      "all: b\nlast\n",
      "a b: c\nshared\n",
      "c:\ndeep\n",
    ]);
  });
});

const targets = (count: number) => Array.from({ length: count }, (_, n) => `t${n}`).join(" ");
