/**
 * Finds names that a test imports and the base does not have. Some runners load such a file all the same, with the name
 * undefined: the failures then say nothing about how the base behaves.
 */

/** The text of a changed file before the change; null: the file did not exist; undefined: the file was not changed. */
export type Before = (path: string) => string | null | undefined;

const endings = [
  "",
  ".ts",
  ".tsx",
  ".mts",
  ".cts",
  ".js",
  ".jsx",
  ".mjs",
  ".cjs",
  "/index.ts",
  "/index.tsx",
  "/index.js",
];

/** Describes the first missing name or file; undefined if none can be seen. */
export const missingExport = (path: string, text: string, before: Before): string | undefined => {
  for (const { names, from } of importsIn(text)) {
    const target = join(path.split("/").slice(0, -1), from);
    const found = candidatesOf(target).find((candidate) => before(candidate) !== undefined);
    if (found === undefined) continue;
    const was = before(found);
    if (was === null) return found;
    if (was === undefined || was.includes("export *") || was.includes("module.exports")) continue;
    const lost = names.find((name) => !hasWord(was, name));
    if (lost !== undefined) return `${lost} of ${found}`;
  }
  return undefined;
};

const candidatesOf = (target: string): string[] => {
  const source = target.replace(/\.([cm]?)js(x?)$/, ".$1ts$2");
  return [...endings.map((ending) => `${target}${ending}`), ...(source === target ? [] : [source])];
};

/** Imports by relative paths, with the names that they import: `import { a, b as c } from "./d"`. */
const importsIn = (text: string): { names: string[]; from: string }[] => {
  const parts = text.split(/\bfrom\s{0,9}["']/);
  return parts.slice(1).flatMap((rest, index) => {
    const from = rest.slice(0, rest.search(/["']/));
    if (!from.startsWith(".")) return [];
    const clause = parts[index] ?? "";
    const begin = clause.lastIndexOf("import");
    const open = clause.indexOf("{", begin);
    if (begin < 0 || clause.startsWith("import type", begin)) return [];
    const list = open < 0 ? "" : (clause.slice(open + 1).split("}")[0] ?? "");
    const names = list
      .split(",")
      .map((name) => name.trim())
      .filter((name) => name !== "" && !name.startsWith("type "))
      .map((name) => name.split(/\s/)[0] ?? "");
    return [{ names: names.filter((name) => name !== "default"), from }];
  });
};

const join = (folder: readonly string[], path: string): string => {
  const parts = [...folder];
  for (const part of path.split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "." && part !== "") parts.push(part);
  }
  return parts.join("/");
};

const isWord = (character: string | undefined): boolean => character !== undefined && /[\w$]/.test(character);

const hasWord = (text: string, word: string): boolean => {
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1))
    if (!isWord(text[at - 1]) && !isWord(text[at + word.length])) return true;
  return false;
};
