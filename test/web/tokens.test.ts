import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { home } from "../service/document/manual.ts";

/** Sizes and colours stand in `theme.css` alone; what stands beside each other keeps to a grid of four pixels. */

const folder = join(home, "web/src");
const sources = readdirSync(folder, { recursive: true, encoding: "utf8" })
  .filter((name) => /\.(?:tsx?|css)$/.test(name) && name !== "styles/theme.css")
  .map((name) => ({ name, text: readFileSync(join(folder, name), "utf8") }));

/** Lengths that set things apart. Lines, outlines, rings and the offset of an underline are drawn, not set apart. */
const spaced =
  /^\s*(?:padding|margin|gap|inset|top|left|right|bottom|(?:min-|max-)?(?:width|height)|border-radius)[\w-]*:/;

/** What breaks the rules, as `line: what`. `mt-0.5` puts an icon in the middle of its first line. */
const faultsIn = (name: string, text: string): string[] =>
  text.split("\n").flatMap((line, at) => {
    const found: string[] = [];
    for (const [colour] of line.matchAll(/#(?:[0-9a-f]{3,4}){1,2}\b(?=[^\w(])|\b(?:oklch|rgba?|hsla?)\(/gi))
      if (!line.includes("unicode-range")) found.push(`colour ${colour}`);
    if (name.endsWith(".css")) {
      if (/font-size:(?! var\(--text-)/.test(line)) found.push("size of type");
      if (spaced.test(line))
        for (const [, px = ""] of line.matchAll(/(-?[\d.]+)px/g)) if (Number(px) % 4 !== 0) found.push(`${px}px`);
    } else {
      for (const [size] of line.matchAll(/(?<![\w-])text-\[[^\]]*\]/g)) found.push(`size of type ${size}`);
      for (const [step] of line.matchAll(
        /(?<![\w.])-?(?:[mp][trblxyse]?|gap(?:-[xy])?|space-[xy]|size|(?:min-|max-)?[wh]|top|left|right|bottom|inset(?:-[xy])?)-\d+\.5(?![\w.])/g,
      ))
        if (step !== "mt-0.5" && step !== "w-0.5") found.push(step);
      for (const [step, px = ""] of line.matchAll(/(?<![\w-])(?:[mp][trblxyse]?|gap|[wh]|size)-\[(\d+)px\]/g))
        if (Number(px) % 4 !== 0) found.push(step);
    }
    return found.map((what) => `${at + 1}: ${what}`);
  });

test("no file but theme.css has a colour, a size of type or a length off the grid", () => {
  expect(sources.length).toBeGreaterThan(80);
  expect(sources.flatMap(({ name, text }) => faultsIn(name, text).map((fault) => `${name}:${fault}`))).toEqual([]);
});

test("the scale of type has five sizes", () => {
  const theme = readFileSync(join(folder, "styles/theme.css"), "utf8");
  const sizes = [...theme.matchAll(/--text-(\w+): [\d.]+rem;/g)].map(([, size]) => size);
  expect(sizes).toEqual(["xs", "sm", "base", "md", "lg"]);
});

test("control: each kind of fault is found", () => {
  expect(
    faultsIn(
      "a.tsx",
      '<p className="gap-1.5 text-[11px] w-[17px] mt-0.5 text-fail" style={{ color: "#ff0000" }}>\n<b className="gap-2">',
    ),
  ).toEqual(["1: colour #ff0000", "1: size of type text-[11px]", "1: gap-1.5", "1: w-[17px]"]);
  expect(
    faultsIn("a.css", "  padding: 6px 8px;\n  color: oklch(0.5 0 0);\n  font-size: 13px;\n  border: 1px solid;"),
  ).toEqual(["1: 6px", "2: colour oklch(", "3: size of type"]);
});
