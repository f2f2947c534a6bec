import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";

/**
 * The layout of `src` and `web/src`: what each folder may import, in which order its children stand, how many files it
 * holds. Files are read as text, and types count like values. The second half plants one fault of each kind in a small
 * tree: each must be reported.
 */

/** Folders and files at the top of `src`: each may import itself and those before it. */
const layers =
  "disposable error nearest hash json pace package-root thread redact log id clock async shell-quote outbound protocol domain store engine process workspace repository model tool squad agent check task archive mission webhook forge http".split(
    " ",
  );

/** What stands beside the layers, and what it may import besides itself. */
const others: Record<string, readonly string[]> = {
  config: ["error", "nearest", "protocol"],
  service: [...layers, "config"],
  client: ["protocol"],
  web: ["protocol", "client"],
  cli: ["disposable", "error", "nearest", "shell-quote", "package-root", "protocol", "client"],
  index: ["disposable", "package-root", "error", "log", "protocol", "client", "config", "service"],
};

/** Rooms and files of the command line that may do more than the rest of it. */
const exceptions: Record<string, readonly string[]> = {
  "cli/main.ts": ["config"],
  "cli/serve.ts": ["config", "log", "service"],
  "cli/systemd.ts": ["log"],
  "cli/demo": ["config", "log", "service"],
  "cli/doctor": ["config", "log", "model", "service"],
  "cli/model.ts": ["config", "log", "model"],
  // A package is checked without a service.
  "cli/squad-folder.ts": ["squad", "workspace"],
  // The operator's own hand, on the service's data.
  "cli/trust.ts": ["config", "service", "tool"],
  // What an archive proves is folded anew from its events.
  "cli/verify": ["domain"],
};

/**
 * The order of the children of a folder: each imports only itself and those before it. Folders without a line may be in
 * any order, as long as their children form no cycle.
 */
const orders: Record<string, string> = {
  protocol:
    "text field slow limit check error remedy issue attachment task overview squad mission event stage service webhook route",
  "protocol/event": "source mission slice conversation workspace event frame",
  domain: "event agent attachment contrast state permission session evidence task mission conversation view",
  store:
    "webhook-queue node running store disk unavailable outage lock claimed-stream blob redacted-store check-result ended-session feed sql batch sqlite postgres open",
  process: "plain-text seccomp network sandbox process image runner command service",
  workspace:
    "file usage git object tree workspace error record project dependency tamper worktree checkout landing rebase service",
  model: "model provider-kind circuit-breaker rate-limit replay provider registry local-server test-call builtin",
  "model/builtin": "step grammar report change role builtin",
  tool: "tool result argument file edit command web output mcp task registry",
  squad: "squad package catalog revision production install",
  agent: "session deadline prompt permission loop external",
  check: "check shell port pattern browser kind run project diagnostic",
  repository:
    "words repository fetched address mirror-folder credential forge token remote-git exchange fill mirror unused service sweep",
  "repository/forge": "forge call octokit app place propose github gitlab gitea open",
  task: "environment tasks run saved-request clone-remote wake-mission tell-mission unreported-end budget-reservation directory-queue usual-duration repository-place checkpoint query workspace operation service session step worker",
  archive: "archive entry zip text blob artifact execution-flow log project untracked task mission service",
  mission:
    "missions run plan repository branch head service-task merge verify verdict whole-checks delivery wake service tool worker",
  webhook: "target signature message attempt retry follower sender service",
  forge: "event github-shape signature github gitlab gitea read settings reply intake listen",
  http: "response guard request stream handler page mcp peer router openapi metrics app listen",
  config: "bucket environment file program edit config caller",
  service:
    "machine trust grant-words secret vault thread forge config-check health model-key project node engine compose service",
  cli: "terminal flag connection target resolve-id context verify task mission webhook squad-folder squad node model heap systemd trust serve demo doctor completion main",
  "web/src":
    "place api format settings search title live component project model home shell task mission squad webhook service router main",
};

/** A fifteenth file in one folder is a story that wants a room of its own. */
const maxFiles = 14;

/** Folders that run without a machine under them: `protocol` and `client` also in browsers, `domain` is pure. */
const portable = new Set(["protocol", "domain", "client"]);

/** Rooms that may open files, and single files elsewhere; those of projects only `workspace` and `repository` touch. */
const openers = new Set([
  "store",
  "process",
  "workspace",
  "repository",
  "cli",
  "service",
  "config",
  "index",
  "package-root",
]);
const fileExceptions = new Set([
  // Files of the data folder, or in a temporary one.
  "model/replay/cassette.ts",
  "archive/service.ts",
  "archive/task.ts",
  "archive/zip.ts",
  "tool/edit/patch-apply.ts",
  "http/handler/answer.ts",
  // The one that writes packages.
  "squad/install/writer.ts",
  // Which browser is installed.
  "check/browser/find.ts",
  // Whether a repository is there.
  "task/workspace/tamper.ts",
  // The product's own files, the socket, the kernel's table of connections.
  "http/page/page.ts",
  "http/page/reference.ts",
  "http/listen.ts",
  "http/guard/peer-user.ts",
]);

/** Who starts programs: `process` all that agents and checks ask for, these one of our own or of the user's machine. */
const starters = new Set([
  // The check of the database file, and ripgrep.
  "store/sqlite/integrity.ts",
  "tool/file/ripgrep.ts",
  // Mounts and copies of dependencies, before there is a sandbox to start them in.
  "workspace/dependency/overlay.ts",
  "workspace/dependency/copy.ts",
]);

const roomOf = (path: string): string => path.split("/")[0]?.replace(/\.ts$/, "") ?? "";

const mayImport = (path: string): readonly string[] | undefined => {
  const room = roomOf(path);
  const at = layers.indexOf(room);
  const below = at >= 0 ? layers.slice(0, at) : others[room];
  const more = Object.entries(exceptions).find(([place]) => path === place || path.startsWith(`${place}/`))?.[1];
  return below && [room, ...below, ...(more ?? [])];
};

/**
 * Text without comments; strings stay. Good enough for our own formatted code: `//` inside a string needs a colon
 * before it.
 */
const code = (text: string): string =>
  text.replaceAll(/\/\*[\s\S]*?\*\//g, " ").replaceAll(/(^|[^:"'`])\/\/.*$/gm, "$1");

const specifiers = (text: string): string[] =>
  [...text.matchAll(/\b(?:from|import)\s*\(?\s*["']([^"'\n]+)["']/g)].map(([, specifier = ""]) => specifier);

/** Every source file below a folder, by its path in it; what a generator wrote is left out. */
const sources = (folder: string): Map<string, string> =>
  new Map(
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && /\.[cm]?[jt]sx?$/.test(entry.name))
      .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
      .filter((path) => !path.startsWith("client/gen/"))
      .toSorted()
      .map((path) => [path, code(readFileSync(join(folder, path), "utf8"))]),
  );

/** Relative imports of each file, as paths in the same folder. */
const importsOf = (folder: string, files: ReadonlyMap<string, string>): Map<string, string[]> =>
  new Map(
    [...files].map(([path, text]) => [
      path,
      specifiers(text)
        .filter((specifier) => specifier.startsWith("."))
        .map((specifier) => relative(folder, resolve(folder, dirname(path), specifier)))
        .filter((target) => files.has(target)),
    ]),
  );

/** The cycles of a graph, each as its members in the graph's order; a node that imports itself is none. */
const cyclesOf = (graph: ReadonlyMap<string, readonly string[]>): string[][] => {
  const index = new Map<string, number>();
  const low = new Map<string, number>();
  const stack: string[] = [];
  const found: string[][] = [];
  const visit = (node: string): void => {
    index.set(node, index.size);
    low.set(node, index.get(node) ?? 0);
    stack.push(node);
    for (const next of graph.get(node) ?? []) {
      if (!index.has(next)) visit(next);
      if (stack.includes(next)) low.set(node, Math.min(low.get(node) ?? 0, low.get(next) ?? 0));
    }
    if (low.get(node) !== index.get(node)) return;
    const members = new Set(stack.splice(stack.indexOf(node)));
    if (members.size > 1) found.push([...graph.keys()].filter((each) => members.has(each)));
  };
  for (const node of graph.keys()) if (!index.has(node)) visit(node);
  return found;
};

/** Every broken rule of the rooms of a tree, one line each; `orders` by folder, "" for the tree itself. */
const scanRooms = (folder: string, rules: Readonly<Record<string, string>> = {}): string[] => {
  const files = sources(folder);
  const imports = importsOf(folder, files);
  const wrong = cyclesOf(imports).map((cycle) => `import cycle: ${cycle.join(", ")}`);
  const rooms = new Map<string, string[]>();
  for (const path of files.keys()) {
    const room = dirname(path) === "." ? "" : dirname(path);
    for (let at = room; ; at = at.includes("/") ? at.slice(0, at.lastIndexOf("/")) : "") {
      rooms.set(at, rooms.get(at) ?? []);
      if (at === "") break;
    }
    rooms.get(room)?.push(path);
  }
  for (const [room, own] of rooms) {
    if (own.length > maxFiles) wrong.push(`${room || "."}: ${own.length} files, at most ${maxFiles}`);
    const base = room === "" ? "" : `${room}/`;
    const childOf = (path: string) =>
      path
        .slice(base.length)
        .split("/")[0]
        ?.replace(/\.tsx?$/, "") ?? "";
    const children = new Map<string, string[]>();
    const order = rules[room]?.split(" ");
    for (const [path, targets] of imports) {
      if (!path.startsWith(base)) continue;
      const child = childOf(path);
      const others = targets.filter((target) => target.startsWith(base) && childOf(target) !== child);
      children.set(child, [...(children.get(child) ?? []), ...others.map(childOf)]);
      if (order === undefined) continue;
      if (!order.includes(child)) wrong.push(`${path}: "${child}" has no place in the order of ${room || "."}`);
      for (const target of others)
        if (order.indexOf(childOf(target)) > order.indexOf(child))
          wrong.push(`${path}: in ${room || "."}, ${child} may not import ${childOf(target)} (${target})`);
    }
    // Files in a cycle are reported already.
    if (order === undefined)
      for (const cycle of cyclesOf(children))
        if (!wrong.some((line) => line.startsWith("import cycle: ")))
          wrong.push(`${room || "."}: children in a cycle: ${cycle.join(", ")}`);
  }
  return wrong;
};

/** Every broken rule of a tree, one line each. */
const scan = (src: string): string[] => {
  return [...sources(src)].flatMap(([path, text]) => {
    const allowed = mayImport(path);
    if (allowed === undefined) return [`${path}: "${roomOf(path)}" is not a folder of src`];
    const wrong: string[] = [];
    if (
      roomOf(path) !== "config" &&
      /\bprocess\s*\??\.\s*env\b|\bprocess\[|\benv\b[^;]*\bfrom\s*"node:process"|\{[^}]*\benv\b[^}]*\}\s*=\s*process\b/.test(
        text,
      )
    )
      wrong.push(`${path}: only config reads process.env`);
    if (/\bimport\s*\(\s*[^\s"')]/.test(text)) wrong.push(`${path}: an import must name its file as a plain string`);
    for (const specifier of specifiers(text)) {
      if (!specifier.startsWith(".")) {
        if (portable.has(roomOf(path)) && specifier.startsWith("node:"))
          wrong.push(`${path}: ${roomOf(path)} imports no ${specifier}`);
        else if (/^node:fs\b/.test(specifier) && !openers.has(roomOf(path)) && !fileExceptions.has(path))
          wrong.push(`${path}: files are opened by ${[...openers].join(", ")} (${specifier})`);
        else if (
          specifier === "node:child_process" &&
          !["process", "cli"].includes(roomOf(path)) &&
          !starters.has(path)
        )
          wrong.push(`${path}: programs are started by process`);
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

const src = resolve(import.meta.dirname, "../src");
const page = resolve(import.meta.dirname, "../web/src");

test("every import of src points down", () => {
  expect(scan(src)).toEqual([]);
});

test("rooms: no import cycle, types included; children in their order; few files in a folder", () => {
  expect(scanRooms(src, orders)).toEqual([]);
  expect(scanRooms(page, { "": orders["web/src"] ?? "" })).toEqual([]);
  const rooms = readdirSync(src, { recursive: true, withFileTypes: true }).filter((entry) => entry.isDirectory());
  const known = rooms.map((entry) => relative(src, join(entry.parentPath, entry.name)));
  expect(Object.keys(orders).filter((room) => room !== "web/src" && !known.includes(room))).toEqual([]);
});

/** What the page takes from `src`: the client, types, and the words for facts; no Node, no machine. */
const pageMayImport = new Set(["client", "protocol", "domain"]);

const scanPage = (web: string): string[] =>
  readdirSync(web, { recursive: true, encoding: "utf8" })
    .filter((path) => /\.tsx?$/.test(path))
    .flatMap((path) =>
      specifiers(code(readFileSync(join(web, path), "utf8"))).flatMap((specifier) => {
        if (specifier.startsWith("node:")) return [`${path}: the page imports no ${specifier}`];
        const room = /\/src\/([^/.]+)/.exec(specifier)?.[1];
        return specifier.startsWith(".") && room !== undefined && !pageMayImport.has(room)
          ? [`${path}: the page may not import ${room} (${specifier})`]
          : [];
      }),
    );

test("the page imports the client, the protocol and the domain, and nothing else of src", () => {
  expect(scanPage(page)).toEqual([]);
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
      "error.ts": "export const a = 1; // import { x } from '../http/app.ts'\n",
      "config/config.ts": 'import { a } from "../error.ts"; export const b = [a, process.env["X"]];',
      "store/store.ts": 'import { a } from "../error.ts"; import { c } from "./sqlite.ts"; export { a, c };',
      "store/sqlite.ts": 'import { readFileSync } from "node:fs"; export const c = readFileSync;',
      "service/service.ts": 'import { b } from "../config/config.ts"; import("../store/store.ts"); export { b };',
      "cli/serve.ts": 'import { b } from "../service/service.ts"; export { b };',
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
    { "model/registry.ts": 'import { c } from "../config/config.ts";', "config/config.ts": "" },
    "model/registry.ts: model may not import config (../config/config.ts)",
  ],
  [
    "a layer that reaches for the composition",
    { "http/app.ts": 'import "../service/service.ts";', "service/service.ts": "" },
    "http/app.ts: http may not import service (../service/service.ts)",
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
    { "cli/run.ts": 'import { s } from "../service/service.ts";', "service/service.ts": "" },
    "cli/run.ts: cli may not import service (../service/service.ts)",
  ],
  [
    "a second reader of the environment",
    { "http/auth.ts": "export const p = process.env.SERVICE_SERVER_PASSWORD;" },
    "http/auth.ts: only config reads process.env",
  ],
  [
    "a second reader of the environment by destructuring",
    { "http/auth.ts": "const { env } = process;" },
    "http/auth.ts: only config reads process.env",
  ],
  [
    "a tool that opens files by itself",
    { "tool/read.ts": 'import { readFile } from "node:fs/promises";' },
    `tool/read.ts: files are opened by ${[...openers].join(", ")} (node:fs/promises)`,
  ],
  [
    "a tool that starts programs by itself",
    { "tool/count.ts": 'import { spawn } from "node:child_process";' },
    "tool/count.ts: programs are started by process",
  ],
  ["a folder nobody planned", { "utils/misc.ts": "" }, 'utils/misc.ts: "utils" is not a folder of src'],
  ["an import of nothing", { "store/store.ts": 'import "./gone.ts";' }, "store/store.ts: no file ./gone.ts in src"],
])("control: %s is reported", (_name, files, complaint) => {
  expect(plant(files)).toEqual([complaint]);
});

/** A small tree, and what is reported of its rooms. */
const plantRooms = (files: Record<string, string>, rules?: Record<string, string>): string[] => {
  plant(files);
  return scanRooms(tree, rules);
};

test("control: rooms in order have no complaint", () => {
  const files = {
    "a/port.ts": "export type P = 1;",
    "a/b/x.ts": 'import type { P } from "../port.ts"; export type X = P;',
    "a/b/y.ts": 'import type { X } from "./x.ts"; export type Y = X;',
    "a/c.ts": 'import type { Y } from "./b/y.ts"; export type C = Y;',
  };
  expect(plantRooms(files, { a: "port b c" })).toEqual([]);
});

test("control: a cycle of types between three files is reported, and one through a lazy import", () => {
  expect(
    plantRooms({
      "a/x.ts": 'import type { Y } from "./y.ts"; export type X = Y;',
      "a/y.ts": 'import { type Z } from "../b/z.ts"; export type Y = Z;',
      "b/z.ts": 'export type { X as Z } from "../a/x.ts";',
      "c/one.ts": 'export const two = () => import("./two.ts");',
      "c/two.ts": 'import { two } from "./one.ts"; export { two };',
    }),
  ).toEqual(["import cycle: a/x.ts, a/y.ts, b/z.ts", "import cycle: c/one.ts, c/two.ts"]);
});

test("control: rooms in a cycle are reported, although no files are", () => {
  const files = {
    "a/b/x.ts": 'import type { Y } from "../c/y.ts"; export type X = Y;',
    "a/b/z.ts": "export type Z = 1;",
    "a/c/y.ts": "export type Y = 1;",
    "a/c/w.ts": 'import type { Z } from "../b/z.ts"; export type W = Z;',
  };
  expect(plantRooms(files)).toEqual(["a: children in a cycle: b, c"]);
});

test("control: an import against the order of a room, and a child without a place in it, are reported", () => {
  const files = {
    "a/first.ts": 'import type { L } from "./last.ts"; export type F = L;',
    "a/last.ts": "export type L = 1;",
    "a/extra.ts": "",
  };
  expect(plantRooms(files, { a: "first last" })).toEqual([
    'a/extra.ts: "extra" has no place in the order of a',
    "a/first.ts: in a, first may not import last (a/last.ts)",
  ]);
});

test("control: one file too many in a folder is reported", () => {
  const files = Object.fromEntries(Array.from({ length: maxFiles + 1 }, (_, n) => [`a/f${n}.ts`, ""]));
  expect(plantRooms(files)).toEqual([`a: ${maxFiles + 1} files, at most ${maxFiles}`]);
});
