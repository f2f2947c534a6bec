import { expect, test } from "vitest";
import { createLedger } from "../../src/check/diagnostic/checker.ts";
import { createDiagnostics, createCheckerSlots } from "../../src/check/diagnostic/diagnostics.ts";
import { finding, findingsIn, findingsText } from "../../src/check/diagnostic/finding.ts";
import { createFinder } from "../../src/check/diagnostic/find-checker.ts";
import { createFiles } from "../../src/workspace/file/files.ts";
import type { CommandResult } from "../../src/process/process.ts";
import type { Workspace } from "../../src/workspace/workspace.ts";
import { temporary, writeFiles } from "../harness/project.ts";

/** What is read from what checkers print, what of it is new, and that nothing is started where nothing is found. */

test("findings in the forms that checkers print, and nothing else", () => {
  const text = [
    "src/app/(group)/a.ts(3,5): error TS2322: Type 'number' is not assignable.",
    "  Type 'x' is not assignable to type 'y'.",
    "pkg/a.py:4:1: error: Bad  [misc]",
    "pkg/a.py:4: note: See elsewhere",
    "# example.org/x",
    "vet: ./p/p.go:7:2: undefined: y",
    "  /box/b.py:9:3 - error: No",
    "/elsewhere/c.py:1:1: error: Outside",
    "../up.py:1:1: error: Outside",
    `${"x".repeat(3000)}:1:1: error: Long`,
    "Found 3 errors.",
  ].join("\n");
  expect(findingsIn(text, "", "/box").map(({ path, line, column, text: said }) => [path, line, column, said])).toEqual([
    ["src/app/(group)/a.ts", 3, 5, "error TS2322: Type 'number' is not assignable."],
    ["pkg/a.py", 4, 1, "error: Bad  [misc]"],
    ["p/p.go", 7, 2, "undefined: y"],
    ["b.py", 9, 3, "error: No"],
  ]);
  expect(findingsIn("a.ts(1,1): error X: y", "web", "/box")[0]?.path).toBe("web/a.ts");
});

test("what was there before is never new; what was told is, once it had gone", () => {
  const ledger = createLedger();
  const old = finding("a.ts", 1, 1, "old");
  const moved = finding("a.ts", 9, 1, "old");
  const fresh = finding("a.ts", 2, 1, "fresh");
  const takes = (...now: (typeof old)[]) => {
    ledger.found(now);
    return ledger.take().findings.map(({ text }) => text);
  };
  expect(takes(old)).toEqual([]);
  expect(takes(moved, fresh)).toEqual(["fresh"]);
  expect(takes(moved, fresh)).toEqual([]);
  expect(takes()).toEqual([]);
  expect(takes(moved)).toEqual([]);
  expect(takes(moved, fresh)).toEqual(["fresh"]);
  expect(takes(old, moved, fresh)).toEqual(["old"]);
});

test("what came before anything was known is told of the edited file alone, as not sure", () => {
  const ledger = createLedger();
  ledger.touch(["a.ts"]);
  ledger.found([finding("a.ts", 1, 1, "here"), finding("b.ts", 1, 1, "there")]);
  expect(ledger.take()).toMatchObject({ findings: [{ path: "a.ts" }], unsure: true });
});

test("few are told, those of the edited files first", () => {
  const many = Array.from({ length: 30 }, (_, at) => finding(`f${at}.ts`, 1, 1, "x".repeat(5000)));
  const words = findingsText(many, new Set(["f29.ts"]));
  expect(words.startsWith("f29.ts:1:1 ")).toBe(true);
  expect(words.endsWith("and 22 more")).toBe(true);
  expect(words.length).toBeLessThan(3000);
});

const exit: CommandResult = { exitCode: 0, output: "", stdout: "", dropped: 0, ended: "exit", durationMs: 1 };

test.each([
  ["nothing that is known", { "a.ts": "", "a.go": "" }, 0],
  ["settings without the program", { "tsconfig.json": "{}", "a.ts": "", "a.go": "" }, 0],
  ["a module, the control", { "go.mod": "", "a.ts": "", "a.go": "" }, 2],
])("%s", async (_, files, expected) => {
  using folder = temporary();
  writeFiles(folder.path, files);
  const commands: string[] = [];
  const workspace = {
    root: folder.path,
    rootInSandbox: folder.path,
    run: async ({ run }: { run: string }) => {
      commands.push(run);
      return exit;
    },
  } as unknown as Workspace;
  const find = createFinder({ files: createFiles(folder.path), onPath: (name) => name.startsWith("go") });
  const diagnostics = createDiagnostics(() => ({ find }), createCheckerSlots(1));
  const started = performance.now();
  expect(
    await diagnostics.after(
      workspace,
      ["a.ts", "a.go"].map((path) => ({ path, before: Buffer.from("") })),
    ),
  ).toBeUndefined();
  expect(performance.now() - started).toBeLessThan(1000);
  expect(commands).toHaveLength(expected);
  await diagnostics.end();
});

test("there is room for so many that stay, and for one more when one has gone", () => {
  const room = createCheckerSlots(2);
  const one = room();
  room();
  expect(room()).toBeUndefined();
  one?.[Symbol.dispose]();
  one?.[Symbol.dispose]();
  expect(room()).toBeDefined();
  expect(room()).toBeUndefined();
});
