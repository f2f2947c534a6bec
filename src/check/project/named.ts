import { posix } from "node:path";
import { recipesOf, scriptsOf } from "./script.ts";

/** The commands that a project's manifests name, word for word: a run of any of them is evidence. */

const mostManifests = 10;
const mostCommands = 300;
const longest = 2000;

/** `paths`: files at the root and a little below it; `detected`: the commands found for the project as a whole. */
export const namedCommands = async (
  paths: readonly string[],
  detected: readonly string[],
  text: (path: string) => Promise<string>,
): Promise<string[]> => {
  const manifests = paths.filter((path) => readers[posix.basename(path)] !== undefined).slice(0, mostManifests);
  const read = await Promise.all(
    manifests.map(async (path) => readers[posix.basename(path)]?.(await text(path)) ?? []),
  );
  return [...new Set([...detected, ...read.flat()])].slice(0, mostCommands).map((command) => command.slice(0, longest));
};

const inScripts = (manager: string) => (manifest: string) =>
  Object.entries(scriptsOf(manifest)).flatMap(([name, script]) => [`${manager} run ${name}`, script]);

const inMakefile = (makefile: string): string[] => {
  const targets = makefile.split("\n").flatMap((line) => /^([A-Za-z0-9][\w.-]*)[ \t]*:(?!=)/.exec(line)?.[1] ?? []);
  return [...targets.map((target) => `make ${target}`), ...recipesOf(makefile, targets)];
};

/** The tools that a Python manifest mentions. pytest is the runner of most such projects, whatever else starts it. */
const inPython = (manifest: string): string[] =>
  ["pytest", "ruff", "mypy", "tox", "nox", "pyright", "black", "flake8"].filter((tool) => manifest.includes(tool));

const readers: Readonly<Record<string, (text: string) => string[]>> = {
  "package.json": inScripts("npm"),
  "composer.json": inScripts("composer"),
  Makefile: inMakefile,
  makefile: inMakefile,
  GNUmakefile: inMakefile,
  "pyproject.toml": inPython,
  "setup.cfg": inPython,
  "tox.ini": inPython,
  Gemfile: (text) => ["rspec", "rubocop", "rake", "minitest"].filter((tool) => text.includes(tool)),
  "go.mod": () => ["go test", "go build", "go vet"],
  "Cargo.toml": () => ["cargo test", "cargo build", "cargo check", "cargo clippy"],
};
