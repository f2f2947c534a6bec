import { shellQuote } from "../../shell-quote.ts";
import { readCargoReport } from "./cargo-report.ts";
import { readGoReport } from "./go-report.ts";
import { readJestReport, readMochaReport, readRspecReport } from "./json-report.ts";
import { readJunitReport } from "./junit-report.ts";
import { fieldsOf, parsedJSON, type Report, stringOf } from "./report.ts";
import { readTapReport } from "./tap-report.ts";

/**
 * Finds the runner that a project runs its tests with, and the command that runs some of them and reports each by its
 * name.
 */

export type TestFile = { path: string; text: string };

/**
 * `folder`: where the command runs, relative to the root. `run` writes its report to `$report`; `shown` is the short
 * form for people.
 */
export type TestRun = { folder: string; run: string; shown: string; read: (report: string) => Report | undefined };

export type Project = {
  /** The text of a file in the project; undefined if it is not one of the manifests that were read. */
  manifest: (path: string) => string | undefined;
  /** The project's own test command, such as `uv run pytest`. */
  test: string | undefined;
};

/** The paths of all manifests that can decide on the runner, in every folder from the root to the tests. */
export const manifestsFor = (paths: readonly string[]): string[] => [
  ...new Set(
    paths.flatMap((path) =>
      foldersOf(path).flatMap((folder) => manifests.map((name) => (folder === "" ? name : `${folder}/${name}`))),
    ),
  ),
];
const manifests = ["package.json", "go.mod", "Cargo.toml", "Gemfile"] as const;

/**
 * The commands that run these tests, one for each runner and folder. Tests that no known runner can run are left out.
 */
export const testRunsOf = (tests: readonly TestFile[], project: Project): TestRun[] => {
  const groups = new Map<string, { runner: Runner; folder: string; files: TestFile[] }>();
  for (const test of tests) {
    const found = runnerOf(test, project);
    if (found === undefined) continue;
    const key = `${found.runner} ${found.folder}`;
    const group = groups.get(key) ?? { ...found, files: [] };
    group.files.push({ ...test, path: found.folder === "" ? test.path : test.path.slice(found.folder.length + 1) });
    groups.set(key, group);
  }
  return [...groups.values()].map(({ runner, folder, files }) => ({
    folder,
    ...runners[runner](files, {
      ...project,
      scripts: scriptsOf(project.manifest(folder === "" ? "package.json" : `${folder}/package.json`)),
    }),
  }));
};

type Runner = keyof typeof runners;
type How = Omit<TestRun, "folder">;
type Context = Project & { scripts: string[] };

/** The folders from the root to that of a path, the nearest first. */
const foldersOf = (path: string): string[] => {
  const parts = path.split("/").slice(0, -1);
  return Array.from({ length: parts.length + 1 }, (_, count) => parts.slice(0, parts.length - count).join("/"));
};

const runnerOf = ({ path, text }: TestFile, { manifest }: Project): { runner: Runner; folder: string } | undefined => {
  const at = (name: string) =>
    foldersOf(path).find((folder) => manifest(folder === "" ? name : `${folder}/${name}`) !== undefined);
  const ending = path.slice(path.lastIndexOf(".") + 1);
  switch (ending) {
    case "py":
      return { runner: "pytest", folder: "" };
    case "go":
      return { runner: "go", folder: at("go.mod") ?? "" };
    case "rs":
      return { runner: "cargo", folder: at("Cargo.toml") ?? "" };
    case "rb":
      return path.endsWith("_spec.rb") ? { runner: "rspec", folder: at("Gemfile") ?? "" } : undefined;
    default:
  }
  const own = scriptRunners.find(({ imported }) => imported !== undefined && text.includes(imported))?.runner;
  for (const folder of foldersOf(path)) {
    const known = manifest(folder === "" ? "package.json" : `${folder}/package.json`);
    if (known === undefined) continue;
    const named = own ?? scriptRunners.find((each) => isUsed(each, known))?.runner;
    if (named === "node" || (named !== undefined && known.includes(named))) return { runner: named, folder };
  }
  return own === "node" ? { runner: "node", folder: "" } : undefined;
};

/**
 * In order of precedence. A runner is chosen by what the test imports, otherwise by what the manifest depends on or
 * runs.
 */
const scriptRunners: { runner: "vitest" | "jest" | "mocha" | "node"; imported?: string }[] = [
  { runner: "vitest", imported: "vitest" },
  { runner: "node", imported: "node:test" },
  { runner: "jest", imported: "@jest/globals" },
  { runner: "mocha" },
];

const isUsed = ({ runner }: (typeof scriptRunners)[number], text: string): boolean => {
  const { dependencies, devDependencies } = fieldsOf(parsedJSON(text));
  if (runner === "node") return scriptsOf(text).some((script) => wordsIn(script).includes("--test"));
  return (
    fieldsOf(dependencies)[runner] !== undefined ||
    fieldsOf(devDependencies)[runner] !== undefined ||
    scriptsOf(text).some((script) => wordsIn(script).includes(runner))
  );
};

const scriptsOf = (manifest: string | undefined): string[] =>
  Object.values(fieldsOf(fieldsOf(parsedJSON(manifest ?? ""))["scripts"])).map(stringOf);

const wordsIn = (script: string): string[] =>
  script
    .split(/[\s;&|]/)
    .map((word) => word.replaceAll(/["']/g, ""))
    .filter((word) => word !== "");

/** A shell word, quoted only if it has to be. */
const word = (text: string): string => (/^[\w@%+=:,./-]{1,200}$/.test(text) ? text : shellQuote(text));

const quoted = (files: readonly TestFile[]): string => files.map(({ path }) => word(path)).join(" ");

/**
 * The start of a command for a runner, as the project's own script has it: the variables before the program, and those
 * of its options that say how tests are loaded.
 */
const givenBy = (scripts: readonly string[], program: string, taking: ReadonlySet<string>, flags: RegExp) => {
  for (const script of scripts)
    for (const command of script.split(/&&|\|\||[;|&]/)) {
      const words = wordsIn(command);
      const at = words.findIndex((word) => word === program || word.endsWith(`/${program}`));
      if (at < 0 || (program === "node" && !words.includes("--test"))) continue;
      const env = words.slice(0, at).filter((word) => /^[A-Za-z_]\w*=/.test(word));
      const options: string[] = [];
      for (let index = at + 1; index < words.length; index += 1) {
        const part = words[index] ?? "";
        const [name = ""] = part.split("=");
        if (taking.has(name)) options.push(part, ...(part.includes("=") ? [] : [words[(index += 1)] ?? ""]));
        else if (flags.test(part)) options.push(part);
      }
      return [...env, program, ...options].map((part, place) => (place < env.length ? assigned(part) : word(part)));
    }
  return [program];
};

const assigned = (text: string): string => {
  const at = text.indexOf("=");
  return `${text.slice(0, at)}=${word(text.slice(at + 1))}`;
};

const noFlags = /^$/;

const runners = {
  vitest(files: readonly TestFile[], { scripts }: Context): How {
    const taking = new Set(["--config", "-c", "--root", "-r", "--project", "--environment", "--pool", "--dir"]);
    const start = givenBy(scripts, "vitest", taking, /^--(?:globals|dom|no-isolate)$/);
    const at = start.indexOf("vitest");
    const base = [...start.slice(0, at + 1), "run", ...start.slice(at + 1)].join(" ");
    const shown = `${base} ${quoted(files)}`;
    return {
      run: `${base} --coverage.enabled=false --reporter=json --outputFile="$report" ${quoted(files)}`,
      shown,
      read: readJestReport,
    };
  },
  jest(files: readonly TestFile[], { scripts }: Context): How {
    const taking = new Set(["--config", "-c", "--rootDir", "--env", "--testEnvironment", "--preset"]);
    const modules = scripts.some((script) => script.includes("--experimental-vm-modules"));
    const start = givenBy(scripts, "jest", taking, noFlags).join(" ");
    const base = modules && !start.includes("NODE_OPTIONS") ? `NODE_OPTIONS=--experimental-vm-modules ${start}` : start;
    return {
      run: `${base} --ci --coverage=false --json --outputFile="$report" --runTestsByPath ${quoted(files)}`,
      shown: `${base} ${quoted(files)}`,
      read: readJestReport,
    };
  },
  mocha(files: readonly TestFile[], { scripts }: Context): How {
    const taking = new Set(
      "-r --require --import --loader --experimental-loader -u --ui --config --extension -n --node-option --timeout -t".split(
        " ",
      ),
    );
    const base = givenBy(scripts, "mocha", taking, /^--exit$/).join(" ");
    return {
      run: `${base} --reporter json --reporter-option output="$report" ${quoted(files)}`,
      shown: `${base} ${quoted(files)}`,
      read: readMochaReport,
    };
  },
  node(files: readonly TestFile[], { scripts }: Context): How {
    const taking = new Set(
      "--import --require -r --loader --experimental-loader --env-file --conditions -C".split(" "),
    );
    const base = `${givenBy(scripts, "node", taking, /^--(?:experimental|no)-[\w-]{1,60}$/).join(" ")} --test`;
    return {
      run: `${base} --test-reporter=tap --test-reporter-destination="$report" ${quoted(files)}`,
      shown: `${base} ${quoted(files)}`,
      read: readTapReport,
    };
  },
  pytest(files: readonly TestFile[], { test }: Context): How {
    const base = test?.endsWith("pytest") === true ? test : "python3 -m pytest";
    return {
      run: `${base} -q -p no:cacheprovider --continue-on-collection-errors --junitxml="$report" ${quoted(files)}`,
      shown: `${base} ${quoted(files)}`,
      read: readJunitReport,
    };
  },
  go(files: readonly TestFile[]): How {
    const names = files.flatMap(({ text }) =>
      text.split("\n").flatMap((line) => /^func ((?:Test|Example|Fuzz)\w*)\(/.exec(line)?.[1] ?? []),
    );
    const packages = new Set(files.map(({ path }) => `./${path.split("/").slice(0, -1).join("/")}`));
    const only = names.length === 0 ? "" : ` -run ${word(`^(${names.join("|")})$`)}`;
    const places = [...packages].map(word).join(" ");
    return {
      run: `go test -json -count=1${only} ${places} >"$report" 2>&1`,
      shown: `go test${only} ${places}`,
      read: readGoReport,
    };
  },
  cargo(files: readonly TestFile[]): How {
    const names = files.map(({ path }) => path.slice(path.lastIndexOf("/") + 1, -".rs".length));
    const base = `cargo test --no-fail-fast ${names.map((name) => `--test ${word(name)}`).join(" ")}`;
    return { run: `RUST_BACKTRACE=0 ${base} >"$report" 2>&1`, shown: base, read: readCargoReport };
  },
  rspec(files: readonly TestFile[], { manifest }: Context): How {
    const base = manifest("Gemfile") === undefined ? "rspec" : "bundle exec rspec";
    return {
      run: `${base} --format json --out "$report" ${quoted(files)}`,
      shown: `${base} ${quoted(files)}`,
      read: readRspecReport,
    };
  },
};
