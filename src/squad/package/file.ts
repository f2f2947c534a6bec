import { isUtf8 } from "node:buffer";
import {
  findNodeAtLocation,
  getNodeValue,
  type Node,
  type ParseError,
  parseTree,
  printParseErrorCode,
} from "jsonc-parser";
import { isMap, isNode, isScalar, LineCounter, parseDocument } from "yaml";
import type { z } from "zod";
import { messageOf } from "../../error.ts";
import { isNestedWithin, isTextNestedWithin } from "../../json.ts";
import { issuesOf } from "../../protocol/issue.ts";
import { hiddenIn, hiddenWithin } from "./hidden.ts";
import type { Issue, PackageFile } from "./package.ts";

/**
 * Reads JSON, and Markdown with YAML front matter, and validates it with a schema; every issue has a line and column.
 */

export type ReadResult<T> =
  | { ok: true; value: T; lineOf: (path: readonly PropertyKey[]) => Place }
  | { ok: false; issues: Issue[] };
type Place = { line: number; column: number };

/** Offset of a value, or of an unknown key. */
type Locate = (path: readonly PropertyKey[]) => number | undefined;

/** The text of a file, or why it is not acceptable text. */
export const textOf = ({ path, bytes }: PackageFile): { ok: true; text: string } | { ok: false; issues: Issue[] } => {
  const no = (code: string, message: string, at?: Place) => ({
    ok: false as const,
    issues: [{ file: path, ...at, code, message }],
  });
  if (!isUtf8(bytes)) return no("not_utf8", "Expected text in UTF-8, got other bytes");
  const text = bytes.toString("utf8").replace(/^\uFEFF/, "");
  const found = hiddenIn(text);
  if (found !== undefined)
    return no("hidden_character", `Expected visible text, got ${found.code}`, placesOf(text)(found.index));
  return { ok: true, text };
};

const placesOf = (text: string) => {
  const starts = [0];
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) starts.push(at + 1);
  return (offset: number): Place => {
    const after = starts.findIndex((start) => start > offset);
    const line = after < 0 ? starts.length : after;
    return { line, column: offset - (starts[line - 1] ?? 0) + 1 };
  };
};

/** No schema of a package is nested this deeply. */
const mostLevels = 32;

/** A JSON file; comments, trailing commas and duplicate keys are refused. */
export const readJson = <T>(file: PackageFile, schema: z.ZodType<T>): ReadResult<T> => {
  const read = textOf(file);
  if (!read.ok) return read;
  const { text } = read;
  const placed = placesOf(text);
  const no = (offset: number, message: string): ReadResult<T> => ({
    ok: false,
    issues: [{ file: file.path, ...placed(offset), code: "invalid_json", message }],
  });
  const errors: ParseError[] = [];
  let tree: Node | undefined;
  if (!isTextNestedWithin(text, mostLevels)) return no(0, `Expected JSON nested at most ${mostLevels} deep, got more`);
  try {
    tree = parseTree(text, errors, { disallowComments: true, allowTrailingComma: false });
  } catch (error) {
    return no(0, `Expected JSON that is not nested as deeply: ${messageOf(error)}`);
  }
  const [first] = errors;
  if (first !== undefined) return no(first.offset, `Expected valid JSON, got ${printParseErrorCode(first.error)}`);
  if (tree === undefined) return no(0, "Expected a JSON object, got nothing");
  const twice = repeated(tree);
  if (twice !== undefined)
    return no(twice.offset, `Expected the key ${JSON.stringify(twice.value)} once, got it twice`);
  const locate: Locate = (path) => {
    const node = findNodeAtLocation(tree, path as (string | number)[]);
    return node?.parent?.type === "property" ? node.parent.offset : node?.offset;
  };
  return checked(file.path, getNodeValue(tree), schema, locate, placed);
};

const repeated = (node: Node): Node | undefined => {
  const keys = new Set<unknown>();
  for (const child of node.children ?? []) {
    const key = node.type === "object" ? child.children?.[0] : undefined;
    if (key !== undefined && keys.has(key.value)) return key;
    if (key !== undefined) keys.add(key.value);
    const below = repeated(child);
    if (below !== undefined) return below;
  }
  return undefined;
};

/** In bytes: YAML is slow to parse. */
const mostFrontMatter = 8 * 1024;

const fence = /^---[ \t]*\r?\n([\s\S]*?)(?:^|\r?\n)---[ \t]*(?:\r?\n|$)/;

/** Front matter between two lines of `---`, and the text below it, which must not be empty. */
export const readMarkdown = <T>(file: PackageFile, schema: z.ZodType<T>): ReadResult<T & { body: string }> => {
  const read = textOf(file);
  if (!read.ok) return read;
  const { text } = read;
  const no = (code: string, message: string, at: Place = { line: 1, column: 1 }): ReadResult<T & { body: string }> => ({
    ok: false,
    issues: [{ file: file.path, ...at, code, message }],
  });
  const parts = fence.exec(text);
  if (parts === null) return no("no_front_matter", "Expected front matter between two lines of ---");
  const [whole, yaml = ""] = parts;
  const size = Buffer.byteLength(yaml);
  if (size > mostFrontMatter)
    return no("front_matter_too_long", `Expected front matter of at most ${mostFrontMatter} bytes, got ${size}`);
  const counter = new LineCounter();
  // The front matter begins on the second line.
  const placed = (offset: number): Place => {
    const { line, col } = counter.linePos(offset);
    return { line: line + 1, column: col };
  };
  try {
    const document = parseDocument(yaml, { lineCounter: counter, prettyErrors: false });
    const [error] = document.errors;
    if (error !== undefined)
      return no("invalid_yaml", `Expected valid YAML: ${error.message.split("\n")[0]}`, placed(error.pos[0]));
    const value: unknown = document.toJS({ maxAliasCount: 0 });
    if (!isNestedWithin(value, mostLevels))
      return no("invalid_yaml", `Expected YAML nested at most ${mostLevels} deep, got more`);
    const locate: Locate = (path) => {
      const [key, ...rest] = path;
      const contents = document.contents;
      if (key === undefined || !isMap(contents)) return 0;
      const pair = contents.items.find((item) => isScalar(item.key) && item.key.value === key);
      const node = rest.length === 0 ? pair?.key : document.getIn(path, true);
      return isNode(node) ? node.range?.[0] : undefined;
    };
    const head = checked(file.path, value, schema, locate, placed);
    if (!head.ok) return head;
    const body = text.slice(whole.length).trim();
    if (body === "")
      return no("empty", "Expected a text below the front matter, got none", placesOf(text)(text.length));
    return { ...head, value: { ...head.value, body } };
  } catch (error) {
    return no(
      "invalid_yaml",
      `Expected YAML without aliases and not nested as deeply: ${messageOf(error).split("\n")[0]}`,
    );
  }
};

const checked = <T>(
  file: string,
  value: unknown,
  schema: z.ZodType<T>,
  locate: Locate,
  placed: (offset: number) => Place,
): ReadResult<T> => {
  /** The position of the value, or of the nearest enclosing one that exists. */
  const lineOf = (path: readonly PropertyKey[]): Place => {
    for (let length = path.length; length > 0; length -= 1) {
      const offset = locate(path.slice(0, length));
      if (offset !== undefined) return placed(offset);
    }
    return { line: 1, column: 1 };
  };
  const found = hiddenWithin(value);
  if (found !== undefined) {
    const message = `Expected visible text, got ${found.code} by an escape`;
    return { ok: false, issues: [{ file, ...lineOf(found.path), code: "hidden_character", message }] };
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) return { ok: true, value: parsed.data, lineOf };
  const issues = parsed.error.issues.flatMap((issue) => {
    const keys = issue.code === "unrecognized_keys" ? issue.keys : [undefined];
    return issuesOf([issue], schema, value, "").map(({ path, message, code }, index) => {
      const key = keys[index];
      const field = path.replace(/^\./, "");
      return {
        file,
        ...lineOf(key === undefined ? issue.path : [...issue.path, key]),
        code,
        message: field === "" ? message : `${field}: ${message}`,
      };
    });
  });
  return { ok: false, issues };
};
