// Builds `dist`: the compiled sources bundled with what they import, declarations, the page (`web`), and the other
// files that the service serves. Bundled, because a start otherwise reads 640 small files, and keeps them in memory
// (docs/decisions/0008). Builds beside and swaps, so that `dist` never holds half a build or a file whose source is
// gone.
//   node scripts/build.mjs [--prepare: not when setup.mjs installs, which builds afterwards itself]
import { spawn } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const dist = join(root, "dist");
/** Its time is the beginning of the build that made `dist`: a file changed meanwhile counts as newer. */
const stamp = join(dist, ".built");

/** Newest change under a path, in ms; folders count too, because that is where a deletion shows. */
const newest = (path) => {
  const { mtimeMs } = statSync(path);
  if (!statSync(path).isDirectory()) return mtimeMs;
  return readdirSync(path).reduce((latest, name) => Math.max(latest, newest(join(path, name))), mtimeMs);
};

/** The page shows them. */
const manuals = () => readdirSync(join(root, "docs")).flatMap((name) => (name.endsWith(".md") ? [`docs/${name}`] : []));

/** Whether `dist` was built from the sources as they are now. */
export const isCurrent = () =>
  existsSync(stamp) &&
  ["src", "web", ...manuals(), "tsconfig.json", "tsconfig.build.json", "package-lock.json", "scripts/build.mjs"].every(
    (path) => newest(join(root, path)) <= statSync(stamp).mtimeMs,
  );

/** What is started or imported from outside, and what runs in a process or a thread of its own. */
const entries = [
  "cli/main",
  "index",
  "client/client",
  "store/sqlite/integrity-check",
  "store/sqlite/reader-thread",
  "workspace/usage/measure",
  "process/runner/main",
  "process/network/bridge",
  "service/thread",
  "check/kind/pixel",
];

/** Native modules, and those that find files of their own or break when bundled. */
const external = [
  /^node:/,
  "better-sqlite3",
  "@vscode/ripgrep",
  "@scalar/api-reference",
  "@dbos-inc/dbos-sdk",
  "pg",
  "pg-native",
  "jsonc-parser",
  "pino",
  "prom-client",
];

/**
 * Node's own modules are fetched, not imported: for an import Node reads each of their exports first, and that of
 * `fetch` in node:http alone loads all of it, for every start and in every service's memory.
 */
const fetchBuiltins = {
  name: "fetch-builtins",
  renderChunk: (code) =>
    code.replaceAll(
      /^import (?:([\w$]+)(?:, )?)?(?:\* as ([\w$]+))?(\{[^}]*\})? from "(node:[\w/]+)";$/gm,
      (_, ...found) => {
        const [whole, all, named, name] = found;
        const parts = [whole, all, named?.replaceAll(" as ", ": ")].filter((part) => part !== undefined);
        return `const ${parts.map((part) => `${part} = globalThis.process.getBuiltinModule("${name}")`).join(", ")};`;
      },
    ),
};

/**
 * V8 keeps the text of a script for good, and takes two bytes for each of its characters once a single one is beyond
 * Latin-1. Escaped, the same characters are written in ASCII.
 */
const asciiOnly = {
  name: "ascii-only",
  generateBundle(_, bundle) {
    for (const { fileName, code, type } of Object.values(bundle)) {
      if (type !== "chunk") continue;
      if (/String\.raw`[^`]*[^\0-\x7f`]/.test(code))
        throw new Error(
          `${fileName}: a raw text with other characters than ASCII, where an escape would be read as written.`,
        );
      bundle[fileName].code = code.replaceAll(
        /[^\0-\x7f]/g,
        (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
      );
    }
  },
};

/** Replaces the compiled modules of a folder by bundles; what is imported on first use stays a chunk of its own. */
const bundle = async (folder) => {
  const { rolldown } = await import("rolldown");
  const modules = files(folder).filter((path) => path.endsWith(".js"));
  const made = await rolldown({
    input: Object.fromEntries(entries.map((name) => [name, join(folder, `${name}.js`)])),
    platform: "node",
    external,
    logLevel: "warn",
    plugins: [fetchBuiltins, asciiOnly],
  });
  // Chunks lie as deep as the modules did, so that paths relative to them hold.
  const { output } = await made.write({
    dir: folder,
    format: "esm",
    // Licences of what is bundled stay; the rest of the comments is for those who read the sources.
    comments: { legal: true, annotation: true, jsdoc: false },
    entryFileNames: "[name].js",
    chunkFileNames: "lib/[name]-[hash].js",
    // What the parser needs for a script grows with its length, and some of it stays with the process.
    codeSplitting: { groups: [{ name: "kysely", test: /\/node_modules\/kysely\// }] },
  });
  await made.close();
  const kept = new Set(output.map(({ fileName }) => join(folder, fileName)));
  for (const path of modules) if (!kept.has(path)) rmSync(path);
};

const files = (folder) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));

/** Runs a tool of node_modules beside others; resolves to its exit code. */
const run = (tool, args) =>
  new Promise((resolve) => {
    const child = spawn(process.execPath, [join(root, "node_modules", tool), ...args], {
      cwd: root,
      stdio: "inherit",
      // Tests build, too, and what they set must not make a page for developers.
      env: { ...process.env, NODE_ENV: "production" },
    });
    child.once("close", (code) => resolve(code ?? 1));
  });

/**
 * Starts the service once, so that V8 has its code from the first start on: compiling costs that a fifth of a second,
 * and the process keeps 14 MB which the compiler took. Where it does not start here, the first start compiles.
 */
const compileAhead = async () => {
  const own = join(root, "node_modules/node/bin/node");
  const folder = join(root, "node_modules/.cache", `sortie-first-${process.pid}`);
  mkdirSync(join(dist, ".compiled"));
  mkdirSync(folder, { recursive: true });
  const { PATH = "" } = process.env;
  const env = { PATH, HOME: folder, SERVICE_DATA_DIR: join(folder, "data"), NODE_NO_WARNINGS: "1" };
  const command = [join(root, "bin/sortie.js"), "serve", "--port", "0"];
  const child = spawn(existsSync(own) ? own : process.execPath, command, { env, stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  const gone = new Promise((resolve) => child.once("error", resolve).once("close", resolve));
  const late = setTimeout(() => child.kill("SIGKILL"), 30_000);
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk) => {
      said += chunk;
      // What was compiled is kept when it ends.
      if (said.includes("listening on")) child.kill("SIGTERM");
    });
  await gone;
  clearTimeout(late);
  rmSync(folder, { recursive: true, force: true });
};

const build = async () => {
  const began = new Date();
  const next = join(root, "node_modules/.cache", `sortie-${process.pid}`);
  const previous = `${next}-previous`;
  const page = `${next}-web`;
  try {
    const codes = await Promise.all([
      run("@typescript/native/bin/tsc", ["-p", "tsconfig.build.json", "--outDir", next]),
      run("vite/bin/vite.js", ["build", "web", "--outDir", page, "--emptyOutDir"]),
    ]);
    const failed = codes.find((code) => code !== 0);
    if (failed !== undefined) return failed;
    await bundle(next);
    renameSync(page, join(next, "web"));
    // The reference page must work without the internet, so its script ships with us.
    const reference = join(next, "static");
    mkdirSync(reference, { recursive: true });
    cpSync(
      join(root, "node_modules/@scalar/api-reference/dist/browser/standalone.js"),
      join(reference, "reference.js"),
    );
    writeFileSync(join(next, ".built"), "");
    utimesSync(join(next, ".built"), began, began);
    if (existsSync(dist)) renameSync(dist, previous);
    renameSync(next, dist);
    await compileAhead();
    return 0;
  } finally {
    for (const path of [next, page, previous]) rmSync(path, { recursive: true, force: true });
  }
};

const waits = process.argv.includes("--prepare") && process.env.SORTIE_SETUP === "1";
if (process.argv[1] === fileURLToPath(import.meta.url) && !waits) process.exitCode = await build();
