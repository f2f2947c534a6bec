import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { TestService } from "../../harness/service.ts";

/**
 * What the manual's tests need: the fenced blocks of a page, its curl commands as requests (so that no curl is needed),
 * and a comparison by shape. Blocks carry their part in the info string:
 * `bash run=NAME`, with `as=slow` on a Task that does not end, `wait` until the Task has ended, `phase=` until it is
 * there, `early` right after the first Task, `status=` where no answer is shown; `json answer=NAME status=N`, with
 * `same=NAME` and `replayed`; `text frames=NAME`; `text zip=NAME`.
 */

export const home = fileURLToPath(new URL("../../../", import.meta.url));
export const page = (path: string): string => readFileSync(join(home, path), "utf8");

export type Block = { lang: string; info: Record<string, string>; text: string; line: number };

export const blocksOf = (page: string): Block[] => {
  const blocks: Block[] = [];
  let open: { fence: string; block: Block } | undefined;
  for (const [index, line] of page.split("\n").entries()) {
    const fence = /^(`{3,})(.*)$/.exec(line);
    if (open !== undefined) {
      if (line === open.fence) open = undefined;
      else open.block.text += `${line}\n`;
    } else if (fence !== null) {
      const [lang = "", ...words] = (fence[2] ?? "").trim().split(/\s+/);
      const info = Object.fromEntries(
        words.map((word) => {
          const [name = "", ...value] = word.split("=");
          return [name, value.join("=")];
        }),
      );
      const block = { lang, info, text: "", line: index + 1 };
      blocks.push(block);
      open = { fence: fence[1] ?? "", block };
    }
  }
  return blocks;
};

export type Curl = { method: string; url: string; headers: Record<string, string>; body: string | undefined };

/** The curl commands of a shell text. Understands what the manual uses; anything else is an error, not a guess. */
export const curlsOf = (shell: string, variables: Record<string, string>): Curl[] =>
  commandsOf(shell, variables)
    .filter(([name]) => name === "curl")
    .map((words) => requestOf(words.slice(1)));

/** Words of each command: quotes, line continuations, comments and `$NAME` as a shell reads them. */
const commandsOf = (shell: string, variables: Record<string, string>): string[][] => {
  const commands: string[][] = [[]];
  let word: string | undefined;
  const end = () => {
    if (word !== undefined) commands.at(-1)?.push(word);
    word = undefined;
  };
  const valueOf = (name: string): string => {
    const value = variables[name];
    if (value === undefined) throw new Error(`The manual uses $${name}, which this test does not know.`);
    return value;
  };
  const token = /'([^']*)'|"((?:[^"\\]|\\.)*)"|\\\n|\\(.)|\$(\w+)|(#[^\n]*)|(\n)|([ \t]+)|([^\s'"\\$#]+|[$#])/g;
  for (const [, single, double, escaped, name, comment, newline, space, plain] of shell.matchAll(token))
    if (single !== undefined) word = (word ?? "") + single;
    else if (double !== undefined)
      word = (word ?? "") + double.replace(/\$(\w+)/g, (_, key: string) => valueOf(key)).replace(/\\(["\\$`])/g, "$1");
    else if (escaped !== undefined) word = (word ?? "") + escaped;
    else if (name !== undefined) word = (word ?? "") + valueOf(name);
    else if (comment !== undefined) end();
    else if (newline !== undefined) {
      end();
      commands.push([]);
    } else if (space !== undefined) end();
    else if (plain !== undefined) word = (word ?? "") + plain;
  end();
  return commands;
};

const requestOf = (words: string[]): Curl => {
  const request: Curl = { method: "", url: "", headers: {}, body: undefined };
  const rest = [...words];
  const value = (flag: string): string => {
    const next = rest.shift();
    if (next === undefined) throw new Error(`curl ${flag} without a value`);
    return next;
  };
  for (let word = rest.shift(); word !== undefined; word = rest.shift())
    if (word === "-H") {
      const header = value(word);
      const colon = header.indexOf(":");
      request.headers[header.slice(0, colon).toLowerCase()] = header.slice(colon + 1).trim();
    } else if (word === "-d") request.body = value(word);
    else if (word === "-X") request.method = value(word);
    else if (word === "-u") request.headers["authorization"] = `Basic ${Buffer.from(value(word)).toString("base64")}`;
    else if (/^-[sSNi]*o$/.test(word)) value(word);
    else if (/^-[sSNi]+$/.test(word)) continue;
    else if (word.startsWith("-")) throw new Error(`curl ${word} is not understood by this test`);
    else request.url = word;
  request.method ||= request.body === undefined ? "GET" : "POST";
  return request;
};

export const localAddress = "http://127.0.0.1:7878";

/** Sends the request to the test's service instead of the address that the manual names. */
export const send = async ({ method, url, headers, body }: Curl, service: TestService): Promise<Response> => {
  if (!url.startsWith(localAddress)) throw new Error(`Expected an address at ${localAddress}, got ${url}`);
  return fetch(service.url + url.slice(localAddress.length), {
    method,
    headers,
    ...(body === undefined ? {} : { body }),
    signal: AbortSignal.timeout(15_000),
  });
};

// ---- comparison ----------------------------------------------------------------------------------------------------

/** Numbers that no two runs share. */
const measured = new Set(["durationMs", "eventID", "lastEventID", "id", "updated", "nextAfter", "bytes", "read"]);

const shapeOf = (text: string, places: Record<string, string>): string => {
  let shape = text;
  for (const [path, name] of Object.entries(places)) shape = shape.replaceAll(path, name);
  return shape
    .replace(/req_[0-9a-z]{26}-\d+/g, "<req>")
    .replace(/(task|ses|msg|call|ask|slice|art|hook|dlv|evt)_[0-9a-hjkmnp-tv-z]{26}/g, "<$1>")
    .replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, "<time>")
    .replace(/\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g, "<uuid>")
    .replace(/\b(?:[0-9a-f]{64}|[0-9a-f]{40})\b/g, "<hash>")
    .replace(/\b\d+(?:\.\d+)? ?ms\b/g, "<ms>");
};

const typed = (value: unknown, places: Record<string, string>): unknown =>
  typeof value === "string" ? shapeOf(value, places) : value;

/**
 * Where the answer differs from what the manual shows; empty = nowhere. In the manual `"…"` as a key, or as the last
 * element, stands for more of the same, and at the end of a text for the rest of it.
 */
export const differences = (shown: unknown, got: unknown, places: Record<string, string>, at = "answer"): string[] => {
  if (Array.isArray(shown) && Array.isArray(got)) {
    const open = shown.at(-1) === "…";
    const items = open ? shown.slice(0, -1) : shown;
    if (open ? got.length < items.length : got.length !== items.length)
      return [`${at}: shown ${items.length} elements, got ${got.length}`];
    return items.flatMap((item, index) => differences(item, got[index], places, `${at}[${index}]`));
  }
  if (isObject(shown) && isObject(got)) {
    const keys = Object.keys(shown).filter((key) => key !== "…");
    const extra = "…" in shown ? [] : Object.keys(got).filter((key) => !(key in shown));
    return [
      ...extra.map((key) => `${at}.${key}: not shown, got ${JSON.stringify(got[key])}`),
      ...keys.flatMap((key) => {
        if (!(key in got)) return [`${at}.${key}: shown, but absent`];
        const [one, other] = [shown[key], got[key]];
        if (measured.has(key) && typeof one === "number" && typeof other === "number") return [];
        return differences(one, other, places, `${at}.${key}`);
      }),
    ];
  }
  const [one, other] = [typed(shown, places), typed(got, places)];
  if (typeof one === "string" && typeof other === "string" && one.endsWith("…") && other.startsWith(one.slice(0, -1)))
    return [];
  return Object.is(one, other) ? [] : [`${at}: shown ${JSON.stringify(one)}, got ${JSON.stringify(other)}`];
};

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

// ---- event streams and tables --------------------------------------------------------------------------------------

/** Frames of an event stream as text; live ones left out, for they may be dropped. */
export const framesOf = (stream: string): unknown[] =>
  stream
    .split("\n\n")
    .flatMap((frame) => {
      const data = /^data: (.*)$/m.exec(frame)?.[1];
      const id = /^id: (\d+)$/m.exec(frame)?.[1];
      return data === undefined ? [] : [{ durable: id !== undefined, ...(JSON.parse(data) as { type: string }) }];
    })
    .filter(({ type }) => !["message.delta", "reasoning.delta", "tool.output"].includes(type));

/** Rows of the first table below a heading: cells of each row, back-ticks kept. */
export const tableOf = (page: string, heading: string): string[][] => {
  const lines = page.split("\n");
  const from = lines.findIndex((line) => /^#+ /.test(line) && line.replace(/^#+ /, "") === heading);
  if (from < 0) throw new Error(`The manual has no section "${heading}".`);
  const start = lines.findIndex((line, index) => index > from && line.startsWith("|"));
  const next = lines.findIndex((line, index) => index > from && /^#+ /.test(line));
  if (start < 0 || (next >= 0 && next < start)) throw new Error(`The section "${heading}" has no table.`);
  const length = lines.slice(start).findIndex((line) => !line.startsWith("|"));
  return lines.slice(start + 2, length < 0 ? undefined : start + length).map((line) =>
    line
      .slice(1, -1)
      .split(/(?<!\\)\|/)
      .map((cell) => cell.trim()),
  );
};

/** The names in back-ticks of a cell. */
export const namesIn = (cell: string | undefined): string[] =>
  [...(cell ?? "").matchAll(/`([^`]+)`/g)].map(([, name]) => name as string);

/** The first column's names. */
export const firstNames = (rows: string[][]): string[] => rows.flatMap(([cell]) => namesIn(cell));
