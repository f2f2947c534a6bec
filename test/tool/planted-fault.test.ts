import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { readDiff, showDiff } from "../../src/domain/evidence/diff.ts";
import { briefOf } from "../../src/domain/evidence/review-brief.ts";
import { makeToolLab } from "./fixture.ts";

/**
 * Twelve faults that reviewers missed or could not see: each can be seen from the brief, or with two look-ups at the tree
 * that would land.
 */

const lab = makeToolLab();
afterAll(() => lab[Symbol.asyncDispose]());

type Look = { tool: "search" | "read" | "list"; input: object; shows: RegExp };
type Fault = {
  base: Record<string, string>;
  /** null: deleted. */
  change: Record<string, string | null>;
  later?: string[];
  acceptance?: string[];
  /** What of the brief gives the fault away, or leads to a look. */
  sees: RegExp[];
  /** What a sound change would have had. */
  lacks?: RegExp;
  looks?: Look[];
};

const math = { "math.js": "export const add = (a, b) => a + b;\n" };
const lines = (count: number, of: (at: number) => string): string =>
  Array.from({ length: count }, (_, at) => `${of(at)}\n`).join("");

const faults: Record<string, Fault> = {
  "a weakened test": {
    base: { ...math, "math.test.js": "assert.equal(add(1, 2), 3);\nassert.equal(add(-1, 1), 0);\n" },
    change: {
      "math.js": "export const add = (a, b) => Math.abs(a + b);\n",
      "math.test.js": "assert.equal(add(1, 2), 3);\nassert.ok(add(-1, -1));\n",
    },
    sees: [/^-assert\.equal\(add\(-1, 1\), 0\);$/m, /^\+assert\.ok\(add\(-1, -1\)\);$/m],
  },
  "a skipped test": {
    base: { "a.test.js": "test('adds', () => check());\n" },
    change: { "a.test.js": "test.skip('adds', () => check());\n" },
    sees: [/^\+test\.skip\('adds'/m],
  },
  "a requirement of a follow-up that was missed": {
    base: math,
    change: { "math.js": "// Adds.\nexport const add = (a, b) => a + b;\n" },
    later: [
      `${"Write comments as the Node documentation has them. ".repeat(15)}The most important part: add pow(a, b).`,
    ],
    sees: [/later words win[\s\S]*The most important part: add pow\(a, b\)\./],
    lacks: /^\+.*pow/m,
  },
  "a correction that was ignored": {
    base: math,
    change: { "math.js": "export const plus = (a, b) => a + b;\n" },
    later: ["No, call it sum."],
    sees: [/later words win[\s\S]*No, call it sum\./, /^\+export const plus/m],
    lacks: /^\+export const sum/m,
  },
  "a line of the phase's acceptance that nothing meets": {
    base: { "storage.js": "export const load = () => [];\n" },
    change: { "storage.js": "export const load = (text) => text.split('\\n').map(JSON.parse);\n" },
    acceptance: ["`npm test` passes", "A torn last line is skipped"],
    sees: [/criterion of its own[\s\S]*- A torn last line is skipped/, /^\+.*JSON\.parse/m],
    lacks: /^\+.*(catch|torn)/m,
  },
  "a caller outside of the diff that breaks": {
    base: { ...math, "src/app.js": 'import { add } from "../math.js";\nconsole.log(add(1, 2));\n' },
    change: { "math.js": "export const add = ([a, b]) => a + b;\n" },
    sees: [/^\+export const add = \(\[a, b\]\)/m],
    looks: [{ tool: "search", input: { pattern: "add\\(" }, shows: /src\/app\.js[\s\S]*add\(1, 2\)/ }],
  },
  "a deleted file that is still imported": {
    base: { "old.js": "export const x = 1;\n", "src/app.js": 'import { x } from "../old.js";\n' },
    change: { "old.js": null },
    sees: [/^ old\.js \| deleted, \+0 -1$/m],
    looks: [{ tool: "search", input: { pattern: "old\\.js" }, shows: /src\/app\.js/ }],
  },
  "an error that is swallowed": {
    base: { "io.js": "export const read = (path) => readFileSync(path);\n" },
    change: { "io.js": "export const read = (path) => {\n  try {\n    return readFileSync(path);\n  } catch {}\n};\n" },
    sees: [/^\+ {2}\} catch \{\}$/m],
  },
  "a check that always passes, in a file that is no code": {
    base: { ...math, "package.json": '{ "scripts": { "test": "node --test" } }\n' },
    change: { "package.json": '{ "scripts": { "test": "node --test || true" } }\n' },
    sees: [/^\+\{ "scripts": \{ "test": "node --test \|\| true" \} \}$/m],
  },
  "a line of code beside 345 KB that a program wrote, and a lock file": {
    base: { ...math, "package-lock.json": "{}\n", ".gitattributes": "gen/** linguist-generated\n", "gen/api.ts": "\n" },
    change: {
      "math.js": "export const add = (a, b) => a - b;\n",
      "package-lock.json": lines(3000, (at) => `"entry-${at}": "1.0.0",`),
      "gen/api.ts": lines(12_000, (at) => `export const call${at} = ${at};`),
    },
    sees: [
      /^\+export const add = \(a, b\) => a - b;$/m,
      /^ gen\/api\.ts \| \+12000 -1, generated, not shown$/m,
      /^ package-lock\.json \| \+3000 -1, lock file, not shown$/m,
    ],
    lacks: /call17/,
  },
  "a fault in what the diff had no room for": {
    base: math,
    change: {
      "table.js": lines(4000, (at) => (at === 3500 ? "eval(process.argv[2]);" : `export const value${at} = ${at};`)),
    },
    sees: [/^ table\.js \| new, \+4000 -0, cut: the beginning of its first hunk shown, \d+ lines left out$/m],
    lacks: /eval/,
    looks: [
      {
        tool: "read",
        input: { path: "table.js", offset: 3495, limit: 10 },
        shows: /3501\teval\(process\.argv\[2\]\);/,
      },
    ],
  },
  "a header that would take a file out of the review": {
    base: { ...math, "gen.js": "// @generated\nexport const g = 1;\n" },
    change: {
      "math.js": "// @generated by protoc. DO NOT EDIT.\nexport const add = (a, b) => a * b;\n",
      "gen.js": "// @generated\nexport const g = 2;\n",
    },
    sees: [/^\+export const add = \(a, b\) => a \* b;$/m, /^ gen\.js \| \+1 -1, generated, not shown$/m],
  },
};

describe("a fault that was planted can be seen", () => {
  test.each(Object.keys(faults))("%s", async (name) => {
    const { base, change, later = [], acceptance = [], sees, lacks, looks = [] } = faults[name] as Fault;
    const place = await lab.open(base);
    for (const [path, text] of Object.entries(change))
      if (text === null) rmSync(join(place.root, path));
      else place.put(path, text);
    const { workspace } = place.context;
    const files = readDiff(await workspace.diff(null));
    const before = files.flatMap(({ how, path }) => (how === "new" ? [] : [path]));
    const { list, text } = showDiff(files, await workspace.generated(before), 48_000);
    const brief = briefOf([], {
      request: "Do it.",
      later,
      rounds: [],
      phase: acceptance.length === 0 ? null : { title: "Storage", objective: "Codes are kept.", acceptance },
      files: list,
      diff: text,
      looks: 5,
    });
    for (const pattern of sees) expect(brief).toMatch(pattern);
    if (lacks !== undefined) expect(brief.slice(brief.indexOf("# The diff"))).not.toMatch(lacks);
    expect(looks.length).toBeLessThanOrEqual(2);
    for (const { tool, input, shows } of looks) expect((await place.call(tool, input)).output).toMatch(shows);
  });
});
