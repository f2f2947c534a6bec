import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { parseAst } from "rolldown/parseAst";
import { hidden } from "../../src/squad/package/hidden.ts";
import { matchesPattern } from "../../src/check/pattern.ts";
import { night } from "../harness/night.ts";
import { cpuMs, slowness } from "../harness/pace.ts";

/**
 * T19: every regular expression of the sources, found by parsing them, against eight texts of a megabyte that are made
 * of what it looks for. A new one is covered as soon as it stands there; one that is put together at run time must be
 * told of here.
 */

type Found = { file: string; source: string; regex: RegExp | undefined };

/** What is put together from values that only a run knows, and why no text of a stranger's makes it slow. */
const atRunTime: Record<string, string> = {
  "check/browser/visit.ts: mark": "hex of our own in two; below, with some",
  "check/project/detect.ts: kind": "one of our own words; below, with one of them",
  "model/builtin/role/squad-author.ts: name": "a field of our own; below, with one of them",
  "squad/package/hidden.ts: allowed, unseen": "constants of its file; below, as it is",
  "protocol/check.ts: text": "a caller's: compiled to see that it is one, never run here",
  "task/saved-request.ts: key": "one of our own words; below, with one of them",
  "tool/output/schema.ts: pattern": "a caller's: run with a bound in time alone (test/service/task/output.test.ts)",
};

/** The file, and the names whose values only a run knows. */
const partsOf = ({ file, source }: Found): string => {
  const inserted = [...source.matchAll(/\$\{(\w+)/g)].map(([, name]) => name);
  return `${file}: ${inserted.length > 0 ? inserted.join(", ") : (/\((\w+)/.exec(source)?.[1] ?? source)}`;
};

const src = resolve(import.meta.dirname, "../../src");

type Node = { type: string; start: number; end: number; [field: string]: unknown };

/** The constants of a file that regular expressions are put together from, as code. */
const constantsOf = (code: string, ast: Node): string =>
  (ast["body"] as Node[])
    .filter((statement) => statement.type === "VariableDeclaration")
    .map((statement) => code.slice(statement.start, statement.end))
    .filter(
      (text) => /=\s*(?:\/|`|String\.)/.test(text) && !text.includes("=>") && !/:\s*\w/.test(text.split("=")[0] ?? ""),
    )
    .join("\n");

const regexesIn = (file: string, code: string): Found[] => {
  const found: Found[] = [];
  const ast = parseAst(code, { lang: "ts" }, file) as unknown as Node;
  const visit = (value: unknown): void => {
    if (Array.isArray(value)) return value.forEach(visit);
    if (typeof value !== "object" || value === null) return;
    const node = value as Node;
    const literal = node["regex"] as { pattern: string; flags: string } | undefined;
    const source = code.slice(node.start, node.end);
    if (node.type === "Literal" && literal !== undefined)
      found.push({ file, source, regex: new RegExp(literal.pattern, literal.flags) });
    const callee = node["callee"] as Node | undefined;
    if ((node.type === "NewExpression" || node.type === "CallExpression") && callee?.["name"] === "RegExp") {
      let regex: RegExp | undefined;
      try {
        // oxlint-disable-next-line no-implied-eval -- our own sources: the constants, and the expression they make
        regex = new Function(`${constantsOf(code, ast)}; return ${source};`)() as RegExp;
      } catch {}
      found.push({ file, source, regex });
    }
    Object.values(node).forEach(visit);
  };
  visit(ast);
  return found;
};

const samples = ["a", "0", "-", " ", ".", "_", "/", ":", "=", "+", "A", "\n", '"', "'", "\\", "!", ",", "\u001b", "ä"];

/** The pieces of an expression: its characters, and for each class one that belongs to it. */
const piecesOf = (regex: RegExp): string[] => {
  const parts =
    regex.source.match(
      /\[\^?\]?(?:\\.|[^\]\\])*\]|\\[pPu]\{[^}]*\}|\\u[0-9a-f]{4}|\\x[0-9a-f]{2}|\\.|\(\?<?[:=!]?|\{\d*,?\d*\}|./gis,
    ) ?? [];
  return parts.flatMap((part) => {
    if (/^[(){}|*+?^$]|^\\[bB]$/.test(part)) return [];
    if (/^\\[^\w\s]$/.test(part)) return [part.slice(1)];
    try {
      const one = new RegExp(`^(?:${part})$`, regex.flags.replaceAll(/[gy]/g, ""));
      const sample = part.length === 1 && part !== "." ? part : samples.find((character) => one.test(character));
      return sample === undefined ? [] : [sample];
    } catch {
      return [];
    }
  });
};

const shapesOf = (regex: RegExp, size: number): Record<string, string> => {
  const fill = (text: string, end = "") => text.repeat(Math.ceil(size / text.length)).slice(0, size - end.length) + end;
  const pieces = piecesOf(regex);
  const own = pieces.join("") || "x";
  const half = pieces.slice(0, Math.ceil(pieces.length / 2)).join("") || "x";
  const counts = new Map<string, number>();
  for (const piece of pieces) counts.set(piece, (counts.get(piece) ?? 0) + 1);
  const [first = "a", second = " ", third = "0"] = [...counts].toSorted((a, b) => b[1] - a[1]).map(([piece]) => piece);
  // None of the classes of ours holds it, so what came before has to be given back.
  const odd = "\u{1F980}";
  return {
    marks: fill("a\"'\\/=:,;.-_[]{}()<>`*#@$%&|0 \n"),
    blanks: fill(`a${" ".repeat(5000)}b\n`),
    own: fill(own),
    half: fill(half, odd),
    "half, then a run": half + fill(own.at(-1) ?? "a", odd),
    [`run of ${JSON.stringify(first)}`]: fill(first, odd),
    [`run of ${JSON.stringify(second)} in the middle`]: half + fill(second, odd),
    [`run of ${JSON.stringify(third)}`]: fill(third, odd),
  };
};

const once = (regex: RegExp, text: string): number =>
  cpuMs(() => {
    if (regex.global) text.replace(regex, "");
    else regex.exec(text);
    regex.lastIndex = 0;
  }, 1);

/**
 * On the end of a text, more and more of it: what is not linear shows long before a megabyte, which it would not
 * survive.
 */
const took = (regex: RegExp, text: string): number => {
  for (let length = 16; length < text.length; length = Math.ceil(length * 1.4)) {
    const part = text.slice(-length);
    const ms = once(regex, part);
    if (ms > limitMs / 10 && Math.min(once(regex, part), once(regex, part)) > limitMs / 10 && length < 65_536)
      return ms * (text.length / length);
  }
  return Math.min(once(regex, text), once(regex, text));
};

/**
 * A run that is looked through again and again is often one behind a certain beginning, such as `[` before spaces. So
 * every beginning of an expression, and behind it a run of each of its pieces: on twice as much, what is linear takes
 * twice as long.
 */
const slowRun = (regex: RegExp): string | undefined => {
  const pieces = piecesOf(regex);
  const beginnings = new Set(
    Array.from({ length: Math.min(pieces.length, 12) + 1 }, (_, at) => pieces.slice(0, at).join("")),
  );
  const runs = new Set([...pieces, " ", "\n", "a"]);
  for (const beginning of beginnings)
    for (const run of runs)
      for (const end of ["\u{1F980}", "\n"]) {
        const msOf = (length: number) => once(regex, beginning + run.repeat(length) + end);
        for (let length = 250; length <= 4000; length *= 2) {
          if (msOf(length) < 1) continue;
          const [ms, twice] = [length, 2 * length].map((each) => Math.min(msOf(each), msOf(each), msOf(each)));
          if (ms !== undefined && twice !== undefined && ms > 0.3 && twice > 2.7 * ms)
            return `a run of ${JSON.stringify(run)} behind ${JSON.stringify(beginning)}: ${length} take ${ms.toFixed(1)} ms, twice as many ${twice.toFixed(1)}`;
        }
      }
  return undefined;
};

const slowRuns = (found: readonly Found[]): string[] =>
  found.flatMap(({ file, source, regex }) => {
    const slow = regex && slowRun(regex);
    return slow === undefined ? [] : [`${file} ${source}: ${slow}`];
  });

/** At night a megabyte; else a part on which what is not linear takes seconds. */
const size = night ? 1 << 20 : 1 << 16;
const limitMs = night ? 50 : 25;

const slowOnes = (found: readonly Found[]): string[] =>
  found.flatMap(({ file, source, regex }) => {
    if (regex === undefined) return [];
    const name = `${file} ${source}`;
    return Object.entries(shapesOf(regex, size)).flatMap(([shape, text]) => {
      const ms = took(regex, text);
      return ms > limitMs && ms > limitMs * slowness() ? [`${name}: ${shape}, ${Math.round(ms)} ms`] : [];
    });
  });

describe("T19 regular expressions", () => {
  const all = readdirSync(src, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts"))
    .flatMap((path) => regexesIn(path, readFileSync(join(src, path), "utf8")));

  test("each of ours takes less than 50 ms for a megabyte of the worst", () => {
    console.log(`T19: ${all.length} expressions, ${size} characters each, MODE ${process.env["MODE"]}`);
    expect(all.length).toBeGreaterThan(150);
    expect(slowOnes(all)).toEqual([]);
    expect(
      slowOnes([
        { file: "check/browser/visit.ts", source: "exit", regex: /0f3a server (\d+)/ },
        { file: "check/browser/visit.ts", source: "marks", regex: /^0f3a .*\n/gm },
        { file: "check/project/detect.ts", source: "test", regex: /^test[ \t]*:/m },
        { file: "model/builtin/role/squad-author.ts", source: "field", regex: /^- squad: (.+)$/m },
        { file: "squad/package/hidden.ts", source: "hidden", regex: hidden },
        { file: "task/saved-request.ts", source: "line", regex: /^description:[ \t]*(.*)$/m },
      ]),
    ).toEqual([]);
  }, 120_000);

  test("none of ours looks through the same run again and again", () => {
    expect(slowRuns(all)).toEqual([]);
  }, 120_000);

  test.each([
    String.raw`/^\s*\[([^\]"]*(?:"[^"]*")?)\s*\](.*)$/`,
    String.raw`/^\s*filemode\s*=\s*no$/m`,
    String.raw`/\(\s*after\s+([\d,\s]+?)\s*\)/`,
  ])("control: of %s it is found", (source) => {
    expect(slowRuns(regexesIn("x.ts", `const x = ${source};`))).toHaveLength(1);
  });

  test("what is put together at run time is known here", () => {
    const unknown = all.filter(({ regex }) => regex === undefined).map(partsOf);
    expect([...new Set(unknown)].toSorted()).toEqual(Object.keys(atRunTime).toSorted());
  });

  test.each([String.raw`/\s+$/`, "/(a+)+$/", "/[.!]+$/", String.raw`/(\d+\.?)+x/`])(
    "control: %s is found to be slow",
    (source) => {
      expect(slowOnes(regexesIn("x.ts", `const x = ${source};`)).length).toBeGreaterThan(0);
    },
  );
});

describe("T19 a caller's regular expression", () => {
  test("finds what it finds", async () => {
    expect(await matchesPattern("^ok \\d+$", "not ok\nok 12\n")).toBe(true);
    expect(await matchesPattern("^ok$", "not ok\n")).toBe(false);
    expect(await matchesPattern("(", "x")).toMatch(/^could not be searched \(Invalid regular expression/);
  });

  test("that would take for ever is ended, and meanwhile the service goes on", async () => {
    let ticks = 0;
    const timer = setInterval(() => (ticks += 1), 10);
    const answer = await matchesPattern("^(a+)+$", `${"a".repeat(60)}!`, 400);
    clearInterval(timer);
    expect(answer).toBe("took longer than 0.4 s to search for");
    expect(ticks).toBeGreaterThan(10);
  });
});
