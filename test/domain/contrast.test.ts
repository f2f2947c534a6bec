import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { readCargoReport } from "../../src/domain/contrast/cargo-report.ts";
import { readGoReport } from "../../src/domain/contrast/go-report.ts";
import { readJestReport, readMochaReport, readRspecReport } from "../../src/domain/contrast/json-report.ts";
import { readJunitReport } from "../../src/domain/contrast/junit-report.ts";
import { missingExport } from "../../src/domain/contrast/missing-export.ts";
import { needsNewCode, type Report, type TestResult } from "../../src/domain/contrast/report.ts";
import { manifestsFor, testRunsOf } from "../../src/domain/contrast/runner.ts";
import { isTested, selectFiles } from "../../src/domain/contrast/selection.ts";
import { readTapReport } from "../../src/domain/contrast/tap-report.ts";
import { judgeBase, judgeContrast } from "../../src/domain/contrast/verdict.ts";

/** Proof by contrast: what runners report, which files go to the base, and what follows from two runs. */

const recorded = (name: string): string => readFileSync(join(import.meta.dirname, "../fixtures/runners", name), "utf8");
const told = (report: Report | undefined) =>
  report && {
    tests: report.tests.map(
      ({ name, outcome, message }) =>
        `${outcome === "failed" && needsNewCode(message) ? "new code" : outcome}: ${name}${message === "" ? "" : ` (${message.trimStart().split("\n")[0]})`}`,
    ),
    broken: report.broken.map((text) => text.split("\n").at(0)),
  };

describe("what runners report", () => {
  test.each<[string, (text: string) => Report | undefined, string[], string[]]>([
    [
      "vitest.json",
      readJestReport,
      [
        "failed: add adds (AssertionError: expected -1 to be 3 // Object.is equality)",
        "passed: add keeps zero",
        "skipped: add later",
        "new code: multiplies (TypeError: (0 , __vite_ssr_import_1__.multiply) is not a function)",
      ],
      ["Cannot find module './lost.js' imported from /work/lost.test.js"],
    ],
    [
      "jest.json",
      readJestReport,
      [
        "failed: add adds (Error: expect(received).toBe(expected) // Object.is equality)",
        "passed: add keeps zero",
        "skipped: add later",
        "new code: multiplies (TypeError: multiply is not a function)",
      ],
      ["  ● Test suite failed to run"],
    ],
    [
      "mocha.json",
      readMochaReport,
      [
        "new code: multiplies (TypeError: multiply is not a function)",
        "failed: add adds (AssertionError [ERR_ASSERTION]: -1 == 3)",
        "passed: add keeps zero",
        "skipped: add later",
      ],
      [],
    ],
    ...["node20.tap", "node24.tap"].map((name): [string, typeof readTapReport, string[], string[]] => [
      name,
      readTapReport,
      [
        "new code: multiplies (TypeError: math.multiply is not a function)",
        "failed: add adds (AssertionError: -1 == 3)",
        "passed: add keeps zero # not a comment",
        "skipped: add later",
        "passed: top",
      ],
      [name === "node20.tap" ? "/work/new.test.mjs: test failed" : "new.test.mjs: test failed"],
    ]),
    [
      "pytest.xml",
      readJunitReport,
      [
        "failed: test_calc.TestAdd::test_adds (AssertionError: sum & <more>)",
        "passed: test_calc::test_zero[0]",
        "passed: test_calc::test_zero[1]",
        "skipped: test_calc::test_later",
        "new code: test_new::test_multiplies (AttributeError: module 'calc' has no attribute 'multiply')",
      ],
      [],
    ],
    ["pytest-broken.xml", readJunitReport, [], ["test_lost: collection failure"]],
    [
      "go.jsonl",
      readGoReport,
      [
        "failed: example.com/calc TestAdds/small (calc_test.go:8: Add(1, 2) = -1, want 3)",
        "passed: example.com/calc TestZero",
        "skipped: example.com/calc TestLater",
      ],
      [],
    ],
    ["go-broken.txt", readGoReport, [], ["FAIL\texample.com/calc/new [build failed]"]],
    [
      "cargo.txt",
      readCargoReport,
      [
        "passed: inner::also",
        "passed: keeps_zero",
        "skipped: later",
        "failed: adds (thread 'adds' (26322) panicked at tests/add.rs:2:13:)",
      ],
      [],
    ],
    ["cargo-broken.txt", readCargoReport, [], ['error: could not compile `calc` (test "new") due to 1 previous error']],
    [
      "rspec.json",
      readRspecReport,
      [
        "failed: add adds (RSpec::Expectations::ExpectationNotMetError: )",
        "passed: add keeps zero",
        "skipped: add later",
        'new code: multiply multiplies (NoMethodError: undefined method `multiply\' for #<RSpec::ExampleGroups::Multiply "multiplies" (./spec/new_spec.rb:3)>)',
      ],
      [],
    ],
    ["rspec-broken.json", readRspecReport, [], [""]],
  ])("%s", (name, read, tests, broken) => expect(told(read(recorded(name)))).toEqual({ tests, broken }));

  test("anything else is no report", () => {
    for (const read of [
      readJestReport,
      readMochaReport,
      readRspecReport,
      readTapReport,
      readJunitReport,
      readGoReport,
      readCargoReport,
    ])
      for (const text of ["", "{}", "[1", "bash: vitest: command not found"]) expect(read(text)).toBeUndefined();
  });
});

describe("which files are tests", () => {
  const texts: Record<string, string> = { "test/app.js": "it('x', () => {})", "test/helper.js": "exports.a = 1" };
  test("by name, in folders for tests by what they say; helpers and fixtures go along; the rest is code", () => {
    const paths = [
      "src/a.ts",
      "src/a.test.ts",
      "src/__tests__/b.tsx",
      "src/__snapshots__/a.test.ts.snap",
      "README.md",
      "pkg/calc.go",
      "pkg/calc_test.go",
      "tests/test_calc.py",
      "tests/conftest.py",
      "tests/data/x.json",
      "calc.py",
      "tests/add.rs",
      "src/lib.rs",
      "spec/calc_spec.rb",
      "spec/spec_helper.rb",
      "test/app.js",
      "test/helper.js",
      "test/fixtures/broken.test.helper/input.js",
    ];
    texts["src/__tests__/b.tsx"] = "test.each([])('x')";
    expect(selectFiles(paths, (path) => texts[path])).toEqual({
      tests: [
        "src/a.test.ts",
        "src/__tests__/b.tsx",
        "pkg/calc_test.go",
        "tests/test_calc.py",
        "tests/add.rs",
        "spec/calc_spec.rb",
        "test/app.js",
      ],
      companions: [
        "src/__snapshots__/a.test.ts.snap",
        "tests/conftest.py",
        "tests/data/x.json",
        "spec/spec_helper.rb",
        "test/helper.js",
        "test/fixtures/broken.test.helper/input.js",
      ],
      code: ["src/a.ts", "README.md", "pkg/calc.go", "calc.py", "src/lib.rs"],
    });
  });
  test.each<[boolean, string[]]>([
    [true, ["src/a.ts", "src/a.test.ts"]],
    [true, ["lib/calc.rb", "spec/calc_spec.rb"]],
    [false, ["src/a.ts"]],
    [false, ["src/a.test.ts"]],
    [false, ["README.md", "src/a.test.ts"]],
    [false, ["package.json", "package-lock.json", "vitest.config.ts", "src/a.test.ts"]],
    [false, ["src/a.ts", "test/fixtures/a.json"]],
  ])("both code and tests: %s for %j", (both, paths) => expect(isTested(paths)).toBe(both));
});

describe("how tests are run", () => {
  const runs = (tests: Record<string, string>, manifests: Record<string, object | string>, command?: string) =>
    testRunsOf(
      Object.entries(tests).map(([path, text]) => ({ path, text })),
      {
        test: command,
        manifest: (path) => {
          const text = manifests[path];
          return typeof text === "object" ? JSON.stringify(text) : text;
        },
      },
    ).map(({ folder, shown }) => (folder === "" ? shown : `${folder}: ${shown}`));

  test.each<[string, Record<string, string>, Record<string, object | string>, string[], string?]>([
    [
      "vitest, with its configuration",
      { "src/a.test.ts": "" },
      {
        "package.json": {
          scripts: { test: "tsc && TZ=UTC vitest --run --project main --coverage" },
          devDependencies: { vitest: "4" },
        },
      },
      ["TZ=UTC vitest run --project main src/a.test.ts"],
    ],
    [
      "the nearest manifest that knows the runner",
      { "packages/a/a.test.ts": 'import { test } from "vitest";', "packages/b/b's.test.js": "" },
      {
        "package.json": { devDependencies: { vitest: "4" } },
        "packages/a/package.json": { name: "a" },
        "packages/b/package.json": { devDependencies: { jest: "30" } },
      },
      ["vitest run packages/a/a.test.ts", "packages/b: jest 'b'\\''s.test.js'"],
    ],
    [
      "jest on modules",
      { "a.test.js": "" },
      {
        "package.json": {
          scripts: { test: "node --experimental-vm-modules node_modules/jest/bin/jest.js" },
          devDependencies: { jest: "30" },
        },
      },
      ["NODE_OPTIONS=--experimental-vm-modules jest a.test.js"],
    ],
    [
      "mocha with what it requires",
      { "test/a.js": "it()" },
      {
        "package.json": {
          scripts: { test: "mocha -r ts-node/register --timeout 5000 'test/**/*.js'" },
          devDependencies: { mocha: "10" },
        },
      },
      ["mocha -r ts-node/register --timeout 5000 test/a.js"],
    ],
    [
      "node:test with its loader",
      { "a.test.ts": 'import test from "node:test"' },
      { "package.json": { scripts: { test: "node --import tsx --test src/*.test.ts" } } },
      ["node --import tsx --test a.test.ts"],
    ],
    [
      "pytest as the project starts it",
      { "tests/test_a.py": "" },
      {},
      ["uv run pytest tests/test_a.py"],
      "uv run pytest",
    ],
    ["pytest of the machine", { "tests/test_a.py": "" }, {}, ["python3 -m pytest tests/test_a.py"]],
    [
      "go, only what the files have",
      { "pkg/a_test.go": "package a\nfunc TestA(t *testing.T) {}\nfunc helper() {}\nfunc TestB(t *testing.T) {}\n" },
      { "go.mod": "module a" },
      ["go test -run '^(TestA|TestB)$' ./pkg"],
    ],
    ["cargo", { "tests/add.rs": "" }, { "Cargo.toml": "" }, ["cargo test --no-fail-fast --test add"]],
    ["rspec", { "spec/a_spec.rb": "" }, { Gemfile: "" }, ["bundle exec rspec spec/a_spec.rb"]],
    ["none that is known", { "a.test.js": "" }, { "package.json": { scripts: { test: "ava" } } }, []],
  ])("%s", (_what, tests, manifests, expected, command) => expect(runs(tests, manifests, command)).toEqual(expected));

  test("manifests from the test up to the root are asked for", () =>
    expect(manifestsFor(["a/b.test.ts"]).filter((path) => path.endsWith(".json"))).toEqual([
      "a/package.json",
      "package.json",
    ]));
});

describe("what a test imports", () => {
  const before: Record<string, string | null> = {
    "src/math.ts": "export const add = 1;\n",
    "src/fresh.ts": null,
    "src/all.ts": 'export * from "./math.ts";',
  };
  test.each<[string, string | undefined]>([
    ['import { add } from "../src/math.ts";', undefined],
    ['import { add, multiply as times } from "../src/math.js";', "multiply of src/math.ts"],
    ['import {\n  add,\n  type Sum,\n} from "../src/math";', undefined],
    ['import { ad } from "../src/math";', "ad of src/math.ts"],
    ['import { fresh } from "../src/fresh.ts";', "src/fresh.ts"],
    ['import { any } from "../src/all.ts";', undefined],
    ['import { unchanged } from "../src/other.ts";', undefined],
    ['import { test } from "vitest";', undefined],
    ['import * as math from "../src/math.ts";', undefined],
    ['import type { Sum } from "../src/math.ts";', undefined],
  ])("%s", (text, missing) => expect(missingExport("test/a.test.ts", text, (path) => before[path])).toBe(missing));
});

describe("the verdict", () => {
  const report = (...tests: string[]): Report => ({
    tests: tests.map((line): TestResult => {
      const [outcome = "", name = "", ...message] = line.split(" ");
      return { file: "a.test.ts", name, outcome: outcome as "passed", message: message.join(" ") };
    }),
    broken: [],
  });
  const broken = (...texts: string[]): Report => ({ tests: [], broken: texts });
  const judge = (base: Report, work: Report, { again = base, missing = false } = {}) => {
    const first = judgeBase(base, () => missing);
    return "result" in first ? first : judgeContrast(first, again, work);
  };
  const red = report("failed adds expected 3, got 4", "passed other");
  const green = report("passed adds", "passed other");

  test.each<[string, ReturnType<typeof judge>, string, string | null]>([
    ["red before, green after", judge(red, green), "proves", null],
    ["green on both", judge(green, green), "same", null],
    [
      "calls what is not there",
      judge(report("failed adds x.add is not a function"), green),
      "cannot-run",
      "needs the new code",
    ],
    ["imports what is not there", judge(red, green, { missing: true }), "cannot-run", "needs the new code"],
    ["does not load", judge(broken("SyntaxError"), green), "cannot-run", "needs the new code"],
    ["red next to a file that does not load", judge({ ...red, broken: ["no"] }, green), "proves", null],
    ["unlike results", judge(red, green, { again: green }), "cannot-run", "flaky"],
    ["red after, too", judge(red, red), "cannot-run", "it fails with the change, too"],
    ["red only after", judge(green, red), "cannot-run", "it fails with the change, too"],
    ["does not load after", judge(green, broken("no")), "cannot-run", "it does not run with the change"],
    [
      "gone after",
      judge(red, report("passed other")),
      "cannot-run",
      "what is red on the base does not run with the change",
    ],
    ["nothing ran", judge(report("skipped adds"), green), "cannot-run", "the runner reported no test"],
  ])("%s", (_what, { result, reason }, wanted, why) =>
    expect({ result, reason }).toEqual({ result: wanted, reason: why }),
  );

  test("the first lines of the failure are told", () =>
    expect(judge(red, green).firstLines).toBe("adds\nexpected 3, got 4"));
});
