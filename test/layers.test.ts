import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";

/**
 * The order of the house: a folder of `src` imports itself and those before it. Reads the files as text, types count
 * like values. The second half plants one wrong import of each sort in a small tree: each must be reported.
 */

const layers =
  "disposable errors redact log id package-root protocol domain store engine process workspace model tool squad agent check task archive mission webhook http".split(
    " ",
  );

/** What stands beside the layers, and what it may import besides itself. */
const others: Record<string, readonly string[]> = {
  config: ["errors", "protocol"],
  service: [...layers, "config"],
  client: ["protocol"],
  web: ["protocol", "client"],
  cli: ["disposable", "errors", "package-root", "protocol", "client"],
  index: ["disposable", "errors", "log", "protocol", "client", "config", "service"],
};

/** Single files that may do more than their folder. */
const doors: Record<string, readonly string[]> = {
  "cli/main.ts": ["config"],
  "cli/serve.ts": ["config", "log", "service"],
  "cli/demo.ts": ["config"],
  "cli/demo-mission.ts": ["config"],
  "cli/demo-stage.ts": ["config", "log", "service"],
  "cli/doctor.ts": ["config", "log", "model", "service"],
  "cli/model.ts": ["config", "log", "model"],
  // What an archive proves is folded anew from its events.
  "cli/chain.ts": ["domain"],
  "cli/story.ts": ["domain"],
};

/** Folders without a machine under them: `protocol` and `client` also run in browsers, `domain` is pure. */
const portable = new Set(["protocol", "domain", "client"]);

/** Rooms that may open files, and single files elsewhere; those of projects only `workspace` touches. */
const openers = new Set(["store", "process", "workspace", "cli", "service", "config", "index", "package-root"]);
const fileDoors = new Set([
  // Files of the data folder, or in a temporary one.
  "model/cassette.ts",
  "archive/archive.ts",
  "archive/task.ts",
  "archive/zip.ts",
  "tool/apply.ts",
  "http/tasks.ts",
  // The one that writes packages.
  "squad/writer.ts",
  // Whether a repository is there.
  "task/prepare.ts",
  // The product's own files, the socket, the kernel's table of connections.
  "http/static.ts",
  "http/server.ts",
  "http/peer.ts",
]);

const roomOf = (path: string): string => path.split("/")[0]?.replace(/\.ts$/, "") ?? "";

const mayImport = (path: string): readonly string[] | undefined => {
  const room = roomOf(path);
  const at = layers.indexOf(room);
  const below = at >= 0 ? layers.slice(0, at) : others[room];
  return below && [room, ...below, ...(doors[path] ?? [])];
};

/** Text without comments; strings stay. Good enough for our own formatted code: `//` inside a string needs a colon before it. */
const code = (text: string): string =>
  text.replaceAll(/\/\*[\s\S]*?\*\//g, " ").replaceAll(/(^|[^:"'`])\/\/.*$/gm, "$1");

/** Every broken rule of a tree, one line each. */
const scan = (src: string): string[] => {
  const files = readdirSync(src, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(src, join(entry.parentPath, entry.name)))
    .filter((path) => /\.[cm]?[jt]sx?$/.test(path))
    .toSorted();
  return files.flatMap((path) => {
    const allowed = mayImport(path);
    if (allowed === undefined) return [`${path}: "${roomOf(path)}" is no room of the house`];
    const text = code(readFileSync(join(src, path), "utf8"));
    const wrong: string[] = [];
    if (
      path !== "config.ts" &&
      /\bprocess\s*\??\.\s*env\b|\bprocess\[|\benv\b[^;]*\bfrom\s*"node:process"|\{[^}]*\benv\b[^}]*\}\s*=\s*process\b/.test(
        text,
      )
    )
      wrong.push(`${path}: only config.ts reads process.env`);
    if (/\bimport\s*\(\s*[^\s"')]/.test(text)) wrong.push(`${path}: an import must name its file as a plain string`);
    for (const [, specifier = ""] of text.matchAll(/\b(?:from|import)\s*\(?\s*["']([^"'\n]+)["']/g)) {
      if (!specifier.startsWith(".")) {
        if (portable.has(roomOf(path)) && specifier.startsWith("node:"))
          wrong.push(`${path}: ${roomOf(path)} imports no ${specifier}`);
        else if (/^node:fs\b/.test(specifier) && !openers.has(roomOf(path)) && !fileDoors.has(path))
          wrong.push(`${path}: files are opened by workspace and store (${specifier})`);
        continue;
      }
      const target = relative(src, resolve(src, dirname(path), specifier));
      if (target.startsWith("..") || !existsSync(join(src, target))) wrong.push(`${path}: no file ${specifier} in src`);
      else if (!allowed.includes(roomOf(target)))
        wrong.push(`${path}: ${roomOf(path)} may not import ${roomOf(target)} (${specifier})`);
    }
    return wrong;
  });
};

test("every import of src points down", () => {
  expect(scan(resolve(import.meta.dirname, "../src"))).toEqual([]);
});

/** What the page takes from `src`: the client, types, and the words for facts; no Node, no machine. */
const pageMayImport = new Set(["client", "protocol", "domain"]);

const scanPage = (web: string): string[] =>
  readdirSync(web, { recursive: true, encoding: "utf8" })
    .filter((path) => /\.tsx?$/.test(path))
    .flatMap((path) =>
      [
        ...code(readFileSync(join(web, path), "utf8")).matchAll(/\b(?:from|import)\s*\(?\s*["']([^"'\n]+)["']/g),
      ].flatMap(([, specifier = ""]) => {
        if (specifier.startsWith("node:")) return [`${path}: the page imports no ${specifier}`];
        const room = /\/src\/([^/.]+)/.exec(specifier)?.[1];
        return specifier.startsWith(".") && room !== undefined && !pageMayImport.has(room)
          ? [`${path}: the page may not import ${room} (${specifier})`]
          : [];
      }),
    );

test("the page imports the client, the protocol and the domain, and nothing else of src", () => {
  expect(scanPage(resolve(import.meta.dirname, "../web/src"))).toEqual([]);
});

test("control: an import of the page's that reaches further is reported", () => {
  mkdirSync(join(tree, "task"));
  writeFileSync(join(tree, "task/a.tsx"), 'import type { S } from "../../../src/store/store.ts";\nimport "node:fs";');
  expect(scanPage(tree)).toEqual([
    "task/a.tsx: the page may not import store (../../../src/store/store.ts)",
    "task/a.tsx: the page imports no node:fs",
  ]);
});

let tree: string;
beforeEach(() => {
  tree = mkdtempSync(join(tmpdir(), "sortie-layers-"));
});
afterEach(() => rmSync(tree, { recursive: true, force: true }));

const plant = (files: Record<string, string>): string[] => {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(tree, path)), { recursive: true });
    writeFileSync(join(tree, path), text);
  }
  return scan(tree);
};

test("control: a tree in order has no complaint", () => {
  expect(
    plant({
      "errors.ts": "export const a = 1; // import { x } from '../http/app.ts'\n",
      "config.ts": 'import { a } from "./errors.ts"; export const b = [a, process.env["X"]];',
      "store/store.ts": 'import { a } from "../errors.ts"; import { c } from "./sqlite.ts"; export { a, c };',
      "store/sqlite.ts": 'import { readFileSync } from "node:fs"; export const c = readFileSync;',
      "service.ts": 'import { b } from "./config.ts"; import("./store/store.ts"); export { b };',
      "cli/serve.ts": 'import { b } from "../service.ts"; export { b };',
    }),
  ).toEqual([]);
});

test.each<[string, Record<string, string>, string]>([
  [
    "an import upwards",
    { "store/store.ts": 'import { h } from "../http/app.ts";', "http/app.ts": "" },
    "store/store.ts: store may not import http (../http/app.ts)",
  ],
  [
    "an import upwards of a type only",
    { "domain/task.ts": 'import type {\n  S,\n} from "../store/store.ts";', "store/store.ts": "" },
    "domain/task.ts: domain may not import store (../store/store.ts)",
  ],
  [
    "a re-export upwards",
    { "tool/tool.ts": 'export * from "../agent/loop.ts";', "agent/loop.ts": "" },
    "tool/tool.ts: tool may not import agent (../agent/loop.ts)",
  ],
  [
    "a lazy import upwards",
    { "task/run.ts": 'await import("../http/app.ts");', "http/app.ts": "" },
    "task/run.ts: task may not import http (../http/app.ts)",
  ],
  [
    "a lazy import of a computed file",
    { "task/run.ts": "await import(name);" },
    "task/run.ts: an import must name its file as a plain string",
  ],
  [
    "a layer that reaches for the configuration",
    { "model/registry.ts": 'import { c } from "../config.ts";', "config.ts": "" },
    "model/registry.ts: model may not import config (../config.ts)",
  ],
  [
    "a layer that reaches for the composition",
    { "http/app.ts": 'import "../service.ts";', "service.ts": "" },
    "http/app.ts: http may not import service (../service.ts)",
  ],
  [
    "a client that knows the service's inside",
    { "client/client.ts": 'import { t } from "../domain/task.ts";', "domain/task.ts": "" },
    "client/client.ts: client may not import domain (../domain/task.ts)",
  ],
  [
    "a client that needs Node",
    { "client/client.ts": 'import { readFile } from "node:fs/promises";' },
    "client/client.ts: client imports no node:fs/promises",
  ],
  [
    "a command that goes around the client",
    { "cli/run.ts": 'import { s } from "../service.ts";', "service.ts": "" },
    "cli/run.ts: cli may not import service (../service.ts)",
  ],
  [
    "a second reader of the environment",
    { "http/auth.ts": "export const p = process.env.SERVICE_SERVER_PASSWORD;" },
    "http/auth.ts: only config.ts reads process.env",
  ],
  [
    "a second reader of the environment by destructuring",
    { "http/auth.ts": "const { env } = process;" },
    "http/auth.ts: only config.ts reads process.env",
  ],
  [
    "a tool that opens files by itself",
    { "tool/read.ts": 'import { readFile } from "node:fs/promises";' },
    "tool/read.ts: files are opened by workspace and store (node:fs/promises)",
  ],
  ["a folder nobody planned", { "utils/misc.ts": "" }, 'utils/misc.ts: "utils" is no room of the house'],
  ["an import of nothing", { "store/store.ts": 'import "./gone.ts";' }, "store/store.ts: no file ./gone.ts in src"],
])("control: %s is reported", (_name, files, complaint) => {
  expect(plant(files)).toEqual([complaint]);
});
