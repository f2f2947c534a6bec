import type { Facts } from "../../model/model.ts";
import { namesWithin, shown } from "../../tool/result.ts";
import type { Entry, Files } from "../../workspace/file/files.ts";
import { type HasProgram, missingProgramOf } from "./installed.ts";
import { namedCommands } from "./named.ts";
import { scriptsOf } from "./script.ts";

/**
 * Detects what a project is from its files alone: languages, package managers, commands, layout. Bounded, and it starts
 * no process. Where several manifests define a command, the last entry of `detectors` wins.
 */

type Commands = Facts["detected"];
type Found = { language?: string; manager?: string; commands: Commands };
export type Detected = {
  detected: Commands;
  /** The commands that cannot run here, each with the program that is missing. */
  missing: { [K in keyof Commands]: string };
  project: NonNullable<Facts["project"]>;
  /** Every command that a manifest names, also those below the root. */
  named: string[];
};

/**
 * `names`: entries at the project's root. `lockfiles`: these and the entries at the repository's top, where a
 * workspace's lockfile is.
 */
type Look = {
  names: ReadonlySet<string>;
  lockfiles: ReadonlySet<string>;
  text: (path: string) => Promise<string>;
  has: HasProgram;
};

const kinds = ["test", "build", "lint", "typecheck"] as const;
const maxManifest = 1024 * 1024;
const rootEntries = 300;
/** Most characters of the names of the root's entries that are shown. */
const layoutRoom = 300;
const folders = 8;
const folderEntries = 60;

/** Folders that say nothing about the project. */
const others = /^(\.(?!github$)|node_modules$|vendor$|target$|dist$|build$|out$|coverage$|venv$|__pycache__$)/;

/** `has`: without it, every program counts as installed. */
export const detectProject = async (
  files: Files,
  top: Files = files,
  has: HasProgram = () => Promise.resolve(true),
): Promise<Detected> => {
  const root = await entriesOf(files, "", rootEntries);
  const names = new Set(root.map(({ path }) => path));
  const above = top.root === files.root ? [] : await entriesOf(top, "", rootEntries);
  const lockfiles = new Set([...root, ...above].map(({ path }) => path));
  const text = (path: string) =>
    files.read(path, maxManifest).then(
      ({ bytes }) => bytes.toString("utf8"),
      () => "",
    );
  const found = (
    await Promise.all(detectors.map(async (detector) => detector({ names, lockfiles, text, has })))
  ).flat();

  const below: Entry[] = [];
  for (const { path } of root
    .filter(({ kind, path: name }) => kind === "directory" && !others.test(name))
    .slice(0, folders))
    below.push(...(await entriesOf(files, path, folderEntries)));
  const detected = Object.assign({}, ...found.map(({ commands }) => commands)) as Commands;
  return {
    detected,
    missing: await missingOf(detected, names.has("package.json") ? await text("package.json") : "", has),
    named: await namedCommands(
      [...root, ...below].map(({ path }) => path),
      Object.values(detected),
      text,
    ),
    project: {
      languages: [
        ...new Set([...found.flatMap(({ language }) => language ?? []), ...spoken([...root, ...below])]),
      ].slice(0, 6),
      managers: [...new Set(found.flatMap(({ manager }) => manager ?? []))],
      layout: layoutOf(root),
      nested: below.map(({ path }) => path).filter((path) => path.endsWith("/AGENTS.md")),
    },
  };
};

const missingOf = async (detected: Commands, manifest: string, has: HasProgram): Promise<Detected["missing"]> => {
  const missing: Detected["missing"] = {};
  for (const kind of kinds) {
    const command = detected[kind];
    const program = command === undefined ? undefined : await missingProgramOf(command, manifest, has);
    if (program !== undefined) missing[kind] = program;
  }
  return missing;
};

const entriesOf = (files: Files, path: string, limit: number): Promise<Entry[]> =>
  files.list(path, { depth: path === "" ? 1 : 2, limit }).then(
    ({ entries }) => entries,
    () => [],
  );

const layoutOf = (root: readonly Entry[]): string => {
  const own = root.filter(({ path }) => path !== ".git");
  const names = own
    .filter(({ path }) => !path.startsWith("."))
    .toSorted((a, b) => Number(b.kind === "directory") - Number(a.kind === "directory"))
    .map(({ path, kind }) => shown(kind === "directory" ? `${path}/` : path));
  const hidden = own.length - names.length;
  return `${namesWithin(names, layoutRoom, " ")}${hidden > 0 ? ` (and ${hidden} hidden)` : ""}`.trim();
};

/** A language followed by its extensions. */
const languages =
  "TypeScript ts tsx,JavaScript js mjs cjs jsx,Python py,Go go,Rust rs,Java java,Kotlin kt,Ruby rb,PHP php,Elixir ex exs,C c h,C++ cpp cc hpp,C# cs,Swift swift,Scala scala,Shell sh,SQL sql,HTML html,CSS css";
const extensions = new Map(
  languages.split(",").flatMap((line) => {
    const [language = "", ...endings] = line.split(" ");
    return endings.map((ending): [string, string] => [ending, language]);
  }),
);

/** The languages of the files, the most frequent first. */
const spoken = (entries: readonly Entry[]): string[] => {
  const counts = new Map<string, number>();
  for (const { path, kind } of entries) {
    const language = kind === "file" ? extensions.get(/\.(\w+)$/.exec(path)?.[1] ?? "") : undefined;
    if (language !== undefined) counts.set(language, (counts.get(language) ?? 0) + 1);
  }
  return [...counts].toSorted((a, b) => b[1] - a[1]).map(([language]) => language);
};

const fromMake = async ({ names, text }: Look): Promise<Found[]> => {
  const path = ["Makefile", "makefile", "GNUmakefile"].find((name) => names.has(name));
  if (path === undefined) return [];
  const makefile = await text(path);
  const targets = kinds.filter((kind) => new RegExp(`^${kind}[ \\t]*:`, "m").test(makefile));
  return [{ manager: "make", commands: Object.fromEntries(targets.map((kind) => [kind, `make ${kind}`])) }];
};

const fromMix = ({ names }: Look): Found[] =>
  names.has("mix.exs")
    ? [{ language: "Elixir", manager: "mix", commands: { test: "mix test", build: "mix compile" } }]
    : [];

const fromComposer = async ({ names, text }: Look): Promise<Found[]> => {
  if (!names.has("composer.json")) return [];
  const scripts = scriptsOf(await text("composer.json"));
  const commands: Commands = {};
  if (names.has("phpunit.xml") || names.has("phpunit.xml.dist")) commands.test = "vendor/bin/phpunit";
  for (const kind of kinds) if (scripts[kind] !== undefined) commands[kind] = `composer run ${kind}`;
  return [{ language: "PHP", manager: "composer", commands }];
};

const fromMaven = ({ names }: Look): Found[] => {
  if (!names.has("pom.xml")) return [];
  const run = names.has("mvnw") ? "./mvnw" : "mvn";
  return [{ language: "Java", manager: "maven", commands: { test: `${run} -q test`, build: `${run} -q package` } }];
};

const fromGradle = ({ names }: Look): Found[] => {
  if (!["build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"].some((name) => names.has(name)))
    return [];
  const run = names.has("gradlew") ? "./gradlew" : "gradle";
  return [{ manager: "gradle", commands: { test: `${run} test`, build: `${run} build` } }];
};

const fromCargo = ({ names }: Look): Found[] =>
  names.has("Cargo.toml")
    ? [
        {
          language: "Rust",
          manager: "cargo",
          commands: { test: "cargo test", build: "cargo build", typecheck: "cargo check" },
        },
      ]
    : [];

const fromGo = ({ names }: Look): Found[] =>
  names.has("go.mod")
    ? [
        {
          language: "Go",
          manager: "go",
          commands: { test: "go test ./...", build: "go build ./...", lint: "go vet ./..." },
        },
      ]
    : [];

const fromPython = async ({ names, lockfiles, text }: Look): Promise<Found[]> => {
  const manifest = names.has("pyproject.toml") ? await text("pyproject.toml") : undefined;
  const tests = ["pytest.ini", "tox.ini", "setup.py", "setup.cfg"].some((name) => names.has(name));
  if (manifest === undefined && !tests) return [];
  const has = (table: string) => manifest?.includes(`[tool.${table}`) === true;
  const [manager, run] =
    lockfiles.has("uv.lock") || has("uv")
      ? ["uv", "uv run "]
      : lockfiles.has("poetry.lock") || has("poetry")
        ? ["poetry", "poetry run "]
        : lockfiles.has("pdm.lock") || has("pdm")
          ? ["pdm", "pdm run "]
          : ["pip", "python3 -m "];
  const tox = names.has("tox.ini") || has("tox");
  return [
    {
      language: "Python",
      manager,
      commands: {
        test: tox && manager === "pip" ? "tox" : `${run}pytest`,
        ...(has("ruff") || names.has("ruff.toml") ? { lint: `${run}ruff check .` } : {}),
        ...(has("mypy") || names.has("mypy.ini") ? { typecheck: `${run}mypy .` } : {}),
      },
    },
  ];
};

const fromPackage = async ({ names, lockfiles, text, has }: Look): Promise<Found[]> => {
  if (!names.has("package.json")) return [];
  const manifest = await text("package.json");
  const scripts = scriptsOf(manifest);
  const manager = nodeManager(manifest, lockfiles);
  const runner = manager === "npm" || (await has(manager)) || !(await has("npm")) ? manager : "npm";
  const commands: Commands = {};
  for (const kind of kinds) {
    const script = [kind, ...(kind === "typecheck" ? ["type-check", "check-types"] : [])].find(
      (name) => scripts[name] !== undefined && !/no test specified/.test(scripts[name]),
    );
    // `bun test` is Bun's own test runner, not the script.
    if (script !== undefined)
      commands[kind] = script === "test" && runner !== "bun" ? `${runner} test` : `${runner} run ${script}`;
  }
  const workspaces = names.has("pnpm-workspace.yaml") || /"workspaces"\s*:/.test(manifest);
  const named = workspaces ? `${manager} (workspaces)` : manager;
  return [{ manager: runner === manager ? named : `${named}, not installed here: npm runs its scripts`, commands }];
};

const nodeManager = (manifest: string, lockfiles: ReadonlySet<string>): string => {
  const named = /"packageManager"\s*:\s*"(npm|pnpm|yarn|bun)@/.exec(manifest)?.[1];
  if (named !== undefined) return named;
  if (lockfiles.has("pnpm-lock.yaml") || lockfiles.has("pnpm-workspace.yaml")) return "pnpm";
  if (lockfiles.has("yarn.lock")) return "yarn";
  return lockfiles.has("bun.lock") || lockfiles.has("bun.lockb") ? "bun" : "npm";
};

const detectors: readonly ((look: Look) => Found[] | Promise<Found[]>)[] = [
  fromMake,
  fromMix,
  fromComposer,
  fromMaven,
  fromGradle,
  fromCargo,
  fromGo,
  fromPython,
  fromPackage,
];
