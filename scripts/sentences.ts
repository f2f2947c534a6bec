/**
 * Sentences that people read, for a look with fresh eyes: would a native engineer have written this?
 *   node scripts/sentences.ts [--count 60] [--seed N]   drawn at random, as many from each source
 *   node scripts/sentences.ts --all page                every sentence of one source: readme, page, cli, docs
 */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import ts from "typescript";
import { seededRandom } from "../test/harness/random.ts";

type Sentence = { at: string; text: string };

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const filesIn = (folder: string, ending: RegExp): string[] =>
  readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => ending.test(name) && !name.startsWith("decisions/"))
    .toSorted()
    .map((name) => join(folder, name));

const isSentence = (text: string): boolean => text.split(" ").filter((word) => /\p{L}{2}/u.test(word)).length >= 4;
const split = (text: string): string[] =>
  text
    .replaceAll(/\s+/g, " ")
    .split(/(?<=[a-z0-9)`"*]{2}[.!?])\s+(?=[\p{Lu}`*[“"])/u)
    .map((part) => part.trim())
    .filter(isSentence);

/** Paragraphs, list items and the cells of tables; code is left out. */
const inMarkdown = (path: string): Sentence[] =>
  readFileSync(join(root, path), "utf8")
    .replaceAll(/^ *```[^\n]*\n[\s\S]*?^ *```$/gm, "")
    .split(/\n\s*\n|\n(?=\s*(?:[-*|]|\d+\.|#))/)
    .flatMap((block) => (/^\s*\|/.test(block) ? block.split("|") : [block.replace(/^\s*(?:[-*]|\d+\.|#+)\s+/, "")]))
    .flatMap((text) => split(text).map((sentence) => ({ at: path, text: sentence })));

/** The words of an element, with "…" for what is known only when it runs. */
const wordsOf = (node: ts.Node): string => {
  if (ts.isJsxText(node)) return node.text;
  if (ts.isStringLiteralLike(node)) return node.text;
  if (ts.isJsxExpression(node))
    return node.expression !== undefined && ts.isStringLiteralLike(node.expression) ? node.expression.text : "…";
  if (ts.isJsxElement(node)) return node.children.map(wordsOf).join("");
  if (ts.isTemplateExpression(node))
    return node.head.text + node.templateSpans.map(({ literal }) => `…${literal.text}`).join("");
  return "…";
};

const silent = new Set(["className", "d", "viewBox", "to", "href", "id", "key", "type"]);
/** Classes, selectors and the like have few words that are nothing but letters. */
const isProse = (text: string): boolean => {
  const words = text.split(/\s+/).filter((word) => word !== "…");
  const plain = words.filter(
    (word) => /^["'(“‘`]*\p{L}[\p{L}’'-]*[)"'”’`.,:;!?]*$/u.test(word) && !/^[a-z]+-[a-z0-9-]+$/.test(word),
  );
  return words.length > 0 && plain.length / words.length > 0.6 && !/[{};]\s*$|^\s*(?:select|insert) /i.test(text);
};

/** Words of elements, and the strings that read as prose. */
const inSource = (path: string): Sentence[] => {
  const file = ts.createSourceFile(path, readFileSync(join(root, path), "utf8"), ts.ScriptTarget.Latest, true);
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) return;
    if (ts.isJsxAttribute(node) && silent.has(node.name.getText())) return;
    if (ts.isJsxElement(node) && node.children.some((child) => ts.isJsxText(child) && /\p{L}/u.test(child.text)))
      found.push(wordsOf(node));
    if (ts.isStringLiteralLike(node) || ts.isTemplateExpression(node)) found.push(wordsOf(node));
    ts.forEachChild(node, visit);
  };
  visit(file);
  return [...new Set(found)]
    .filter(isProse)
    .flatMap((text) => split(text).map((sentence) => ({ at: path, text: sentence })));
};

const sources: Record<string, () => Sentence[]> = {
  readme: () => inMarkdown("README.md"),
  page: () => filesIn("web/src", /\.tsx?$/).flatMap(inSource),
  cli: () => filesIn("src/cli", /\.ts$/).flatMap(inSource),
  docs: () => filesIn("docs", /\.md$/).flatMap(inMarkdown),
};

const { values } = parseArgs({
  options: {
    count: { type: "string", default: "60" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    all: { type: "string" },
  },
});
const whole = (name: "count" | "seed"): number => {
  const value = values[name];
  if (/^\d{1,9}$/.test(value)) return Number(value);
  console.error(`Expected --${name} to be a whole number of at most nine digits, got "${value}".`);
  process.exit(2);
};
const say = ({ at, text }: Sentence) => console.log(`${at}: ${text}`);
if (values.all === undefined) {
  const { below } = seededRandom(whole("seed"));
  console.log(`seed ${values.seed}`);
  const each = Math.floor(whole("count") / Object.keys(sources).length);
  for (const sentences of Object.values(sources)) {
    const left = sentences();
    for (let count = 0; count < each && left.length > 0; count += 1) left.splice(below(left.length), 1).forEach(say);
  }
} else {
  const all = sources[values.all];
  if (all === undefined) {
    console.error(`Expected --all to be one of ${Object.keys(sources).join(", ")}, got "${values.all}".`);
    process.exit(2);
  }
  all().forEach(say);
}
