import { common, createLowlight } from "lowlight";
import { type FileData, type HunkTokens, markEdits, type TokenNode, tokenize } from "react-diff-view";
import { rowsOf } from "./files.ts";

/**
 * Colours the lines of a file by its language, and marks the words that differ. Loaded with the first diff that is
 * shown.
 */

const lowlight = createLowlight(common);

const languages: Readonly<Record<string, string>> = {
  cjs: "javascript",
  cts: "typescript",
  htm: "xml",
  html: "xml",
  mjs: "javascript",
  mts: "typescript",
  svelte: "xml",
  toml: "ini",
  vue: "xml",
};

const languageOf = (path: string): string | undefined => {
  const name = path.split("/").at(-1)?.toLowerCase() ?? "";
  const ending = name.includes(".") ? (name.split(".").at(-1) ?? "") : name;
  const language = languages[ending] ?? ending;
  return lowlight.registered(language) ? language : undefined;
};

/** Larger files, and files with longer lines, which nobody reads, are not coloured. */
const mostRows = 3000;
const longestLine = 1000;

const highlighter = {
  highlight: (text: string, language: string): TokenNode[] => lowlight.highlight(language, text).children,
};

export const tokensOf = (file: FileData): HunkTokens | undefined => {
  const long = file.hunks.some(({ changes }) => changes.some(({ content }) => content.length > longestLine));
  if (long || rowsOf(file) > mostRows) return undefined;
  const enhancers = [markEdits(file.hunks, { type: "block" })];
  const language = languageOf(file.type === "delete" ? file.oldPath : file.newPath);
  return language === undefined
    ? tokenize(file.hunks, { highlight: false, enhancers })
    : tokenize(file.hunks, { highlight: true, refractor: highlighter, language, enhancers });
};
