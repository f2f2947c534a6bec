import { shellQuote } from "../../shell-quote.ts";
import type { Checker, Place } from "./checker.ts";
import { type Finding, finding, findingsIn, relative } from "./finding.ts";
import { createFileChecker, createProjectChecker, type FileProgram, quoted } from "./one-shot.ts";
import { createWatcher } from "./watcher.ts";

/** The checkers that are known: what shows that a project uses one, and how it is asked. */

export type Kind = {
  program: string;
  /** Settings files that show that the project uses it, and the text that has to be in them. */
  marks: readonly { file: string; has?: string }[];
  covers: RegExp;
  /** Where the program is looked for; `node`: only among the project's packages. */
  from: "node" | "path";
  make: (program: string, place: Place, room: () => Disposable | undefined) => Checker;
};

const typescript = /\.[cm]?tsx?$/;
const script = /\.[cm]?[jt]sx?$/;
const python = /\.pyi?$/;
const web = /\.(?:[cm]?[jt]sx?|jsonc?|css)$/;
const text = /\.(?:[cm]?[jt]sx?|jsonc?|s?css|md|ya?ml|html|vue)$/;
const go = /\.go$/;

const coversOf = (pattern: RegExp) => (path: string) => pattern.test(path);

/** The watch writes nothing: build files that the settings ask for would become part of the change. */
const tscFlags =
  "--noEmit --watch --preserveWatchOutput --pretty false --incremental false --composite false --tsBuildInfoFile null";

export const tsc =
  (project: string): Kind["make"] =>
  (program, place, room) =>
    createWatcher(
      {
        name: "tsc",
        run: `exec ${program} --project ${shellQuote(project)} ${tscFlags}`,
        begins: (line) => /^\d[\d:]{1,10}\S* .{0,8}- (?:Starting compilation|File change detected)/.test(line),
        ends: (line) => line.endsWith(". Watching for file changes."),
        covers: coversOf(typescript),
      },
      place,
      room,
    );

const inBareLines =
  (words: string) =>
  (output: string, folder: string, root: string): Finding[] =>
    output.split("\n").flatMap((line) => {
      const text = line.trim();
      if (text === "") return [];
      const known = findingsIn(text, folder, root);
      if (known.length > 0 || text.includes(": ")) return known;
      const path = relative(text, folder, root);
      return path === undefined ? [] : [finding(path, 1, 1, words)];
    });

type EslintMessage = { message?: string; line?: number; column?: number; ruleId?: string | null };

const ofEslint = (output: string, folder: string, root: string): Finding[] => {
  const start = output.indexOf("[{");
  try {
    const files = JSON.parse(output.slice(start)) as { filePath: string; messages: EslintMessage[] }[];
    return files.flatMap(({ filePath, messages }) => {
      const path = relative(filePath, folder, root);
      return path === undefined
        ? []
        : messages.map(({ message = "", line = 1, column = 1, ruleId }) =>
            finding(path, line, column, `${message}${ruleId ? ` (${ruleId})` : ""}`),
          );
    });
  } catch {
    return [];
  }
};

const ofBiome = (output: string, folder: string, root: string): Finding[] =>
  output.split("\n").flatMap((each) => {
    const [, title = "", file, line, column, said = ""] =
      /^::(?:error|warning) title=([^,]*),file=([^,]*),line=(\d+),[^:]*?col=(\d+)[^:]*::(.*)$/.exec(
        each.slice(0, 2000),
      ) ?? [];
    const path = file === undefined ? undefined : relative(file, folder, root);
    if (path === undefined) return [];
    const words = title === "format" ? "is not formatted as the project's biome does it" : `${said} (${title})`;
    return [finding(path, Number(line), Number(column), words)];
  });

/** For a program that looks at single files, and exits with 1 where it finds something. */
const byFile =
  (
    name: string,
    covers: RegExp,
    asked: (program: string) => Pick<FileProgram, "run" | "stdin" | "read">,
  ): Kind["make"] =>
  (program, place) =>
    createFileChecker({ name, covers: coversOf(covers), codes: [0, 1], ...asked(program) }, place);

export const kinds: Readonly<Record<string, Kind>> = {
  tsc: {
    program: "tsc",
    marks: [{ file: "tsconfig.json" }],
    covers: typescript,
    from: "node",
    make: tsc("tsconfig.json"),
  },
  eslint: {
    program: "eslint",
    marks: ["js", "mjs", "cjs", "ts"].map((end) => ({ file: `eslint.config.${end}` })),
    covers: script,
    from: "node",
    make: byFile("eslint", script, (program) => ({
      run: (paths) => `${program} --format json --no-warn-ignored ${quoted(paths)}`,
      stdin: (path) => `${program} --format json --no-warn-ignored --stdin --stdin-filename ${shellQuote(path)}`,
      read: ofEslint,
    })),
  },
  oxlint: {
    program: "oxlint",
    marks: [{ file: ".oxlintrc.json" }, { file: "oxlint.config.ts" }],
    covers: script,
    from: "node",
    make: byFile("oxlint", script, (program) => ({
      run: (paths) => `${program} --format unix ${quoted(paths)}`,
      stdin: undefined,
    })),
  },
  biome: {
    program: "biome",
    marks: [{ file: "biome.json" }, { file: "biome.jsonc" }],
    covers: web,
    from: "node",
    make: byFile("biome", web, (program) => ({
      run: (paths) => `${program} check --reporter=github --no-errors-on-unmatched ${quoted(paths)}`,
      stdin: undefined,
      read: ofBiome,
    })),
  },
  prettier: {
    program: "prettier",
    marks: [".prettierrc", ".prettierrc.json", ".prettierrc.yaml", ".prettierrc.yml", "prettier.config.js"].map(
      (file) => ({ file }),
    ),
    covers: text,
    from: "node",
    make: byFile("prettier", text, (program) => ({
      run: (paths) => `${program} --list-different --ignore-unknown ${quoted(paths)} 2>/dev/null`,
      stdin: (path) => `${program} --list-different --stdin-filepath ${shellQuote(path)} 2>/dev/null`,
      read: inBareLines("is not formatted as the project's prettier does it"),
    })),
  },
  ruff: {
    program: "ruff",
    marks: [{ file: "ruff.toml" }, { file: ".ruff.toml" }, { file: "pyproject.toml", has: "[tool.ruff" }],
    covers: python,
    from: "path",
    make: byFile("ruff", python, (program) => ({
      run: (paths) => `${program} check --output-format concise --no-cache ${quoted(paths)}`,
      stdin: (path) => `${program} check --output-format concise --no-cache --stdin-filename ${shellQuote(path)} -`,
    })),
  },
  mypy: {
    program: "mypy",
    marks: [
      { file: "mypy.ini" },
      { file: ".mypy.ini" },
      { file: "pyproject.toml", has: "[tool.mypy" },
      { file: "setup.cfg", has: "[mypy" },
    ],
    covers: python,
    from: "path",
    make: (program, place) =>
      createProjectChecker(
        {
          name: "mypy",
          run: `${program} --cache-dir "\${TMPDIR:-/tmp}/sortie-mypy" --no-error-summary --no-pretty --show-column-numbers .`,
          covers: coversOf(python),
          codes: [0, 1],
        },
        place,
      ),
  },
  pyright: {
    program: "pyright",
    marks: [{ file: "pyrightconfig.json" }, { file: "pyproject.toml", has: "[tool.pyright" }],
    covers: python,
    from: "path",
    make: (program, place, room) =>
      createWatcher(
        {
          name: "pyright",
          run: `exec ${program} --watch`,
          begins: undefined,
          ends: (line) => line.startsWith("Watching for file changes"),
          covers: coversOf(python),
          // Pyright waits a second for further changes.
          delayMs: 600,
          noticeMs: 1600,
        },
        place,
        room,
      ),
  },
  go: {
    program: "go",
    marks: [{ file: "go.mod" }],
    covers: go,
    from: "path",
    make: (_, place) =>
      createProjectChecker({ name: "go vet", run: "go vet ./...", covers: coversOf(go), codes: [0, 1, 2] }, place),
  },
  gofmt: {
    program: "gofmt",
    marks: [{ file: "go.mod" }],
    covers: go,
    from: "path",
    make: (_, place) =>
      createFileChecker(
        {
          name: "gofmt",
          // The compiler reports files that gofmt cannot read.
          run: (paths) => `gofmt -l ${quoted(paths)} 2>/dev/null`,
          stdin: () => "gofmt -l 2>/dev/null",
          read: inBareLines("is not formatted as gofmt does it"),
          covers: coversOf(go),
        },
        place,
      ),
  },
};
