import type { Fixable } from "../grammar/instruction.ts";
import { jsonOf } from "./manifest.ts";
import {
  commandSeconds,
  counted,
  done,
  endOf,
  failed,
  firstFailure,
  linesOf,
  one,
  type Asking,
  type Step,
} from "../step.ts";

/** `fix lint`, `fix format`, `run codemod NAME`: runs a command that changes files, and reports what it changed. */

/** A project uses a tool if one of its `marks` is present; the program must then be in node_modules/.bin or on PATH. */
type Tool = { program: string; marks: RegExp; ecosystem: string } & Partial<Record<Fixable, string>>;

/** For each ecosystem, the first tool that the project uses counts. */
const toolbox: readonly Tool[] = [
  {
    program: "biome",
    ecosystem: "js",
    marks: /^(?:file \.?biome\.jsonc?|dep @biomejs\/biome)$/,
    lint: "biome lint --write .",
    format: "biome format --write .",
  },
  {
    program: "oxlint",
    ecosystem: "js",
    marks: /^(?:file (?:\.oxlintrc\.jsonc?|oxlint\.config\.ts)|dep oxlint)$/,
    lint: "oxlint --fix",
  },
  {
    program: "eslint",
    ecosystem: "js",
    marks: /^(?:file (?:eslint\.config\.[cm]?[jt]s|\.eslintrc(?:\.\w+)?)|dep eslint)$/,
    lint: "eslint --fix .",
  },
  {
    program: "prettier",
    ecosystem: "js",
    marks: /^(?:file (?:\.prettierrc(?:\.\w+)?|prettier\.config\.[cm]?[jt]s)|dep prettier)$/,
    format: "prettier --write .",
  },
  {
    program: "black",
    ecosystem: "python",
    marks: /^table tool\.black$/,
    format: "black .",
  },
  {
    program: "ruff",
    ecosystem: "python",
    marks: /^(?:file \.?ruff\.toml|table tool\.ruff(?:\..*)?)$/,
    lint: "ruff check --fix .",
    format: "ruff format .",
  },
  {
    program: "golangci-lint",
    ecosystem: "go",
    marks: /^file \.golangci\.(?:ya?ml|toml|json)$/,
    lint: "golangci-lint run --fix",
  },
  { program: "gofmt", ecosystem: "go", marks: /^file go\.mod$/, format: "gofmt -l -w ." },
  {
    program: "cargo",
    ecosystem: "rust",
    marks: /^file Cargo\.toml$/,
    lint: "cargo clippy --fix --allow-dirty --allow-staged --allow-no-vcs --all-targets",
    format: "cargo fmt --all",
  },
  {
    program: "rubocop",
    ecosystem: "ruby",
    marks: /^file \.rubocop\.yml$/,
    lint: "rubocop -A",
    format: "rubocop -x",
  },
];

const scripts: Record<Fixable, readonly string[]> = {
  lint: ["lint:fix", "fix:lint", "lint-fix"],
  format: ["format:fix", "format:write", "fix:format", "format", "fmt"],
};
/** Matches scripts that only check and change nothing. */
const looks =
  /(?:^|\s)(?:--check|--list-different|-l|--dry-run)(?:\s|$)|^\s*(?:npx\s+)?biome\s+(?:format|check)\s+(?!.*--(?:write|fix))/;

export function* fix(what: Fixable): Step {
  const seen = yield* marksOf();
  if ("why" in seen) return failed(seen.why);
  const script = scripts[what].find((name) => seen.scripts[name] !== undefined && !looks.test(seen.scripts[name]));
  const chosen = new Map<string, { program: string; command: string }>();
  if (script !== undefined) chosen.set("js", { program: seen.runner, command: `${seen.runner} run ${script}` });
  for (const tool of toolbox) {
    const command = tool[what];
    if (command !== undefined && !chosen.has(tool.ecosystem) && seen.marks.some((mark) => tool.marks.test(mark)))
      chosen.set(tool.ecosystem, { program: tool.program, command });
  }
  if (chosen.size === 0) {
    const known = toolbox.flatMap((tool) => (tool[what] === undefined ? [] : [tool.program]));
    return failed(
      `looked for a script (${scripts[what].join(", ")}) and for the settings of ${known.join(", ")} in the project's root, found none`,
    );
  }
  const reports: string[] = [];
  for (const { program, command } of chosen.values()) {
    const found = yield* one({
      tool: "shell",
      input: { command: `${onPath}\ncommand -v ${program}`, timeoutSeconds: 60 },
    });
    if (found.outcome !== "ok")
      return failed(
        [
          `the project uses ${program}, and it is neither in node_modules/.bin nor on PATH; install it there`,
          ...reports,
        ].join("; "),
      );
    const changed = yield* changing(command);
    if (!changed.ok) return changed;
    reports.push(changed.report);
  }
  return done(reports.join(" "));
}

export function* codemod(name: string, codemods: Readonly<Record<string, string>>): Step {
  const command = Object.hasOwn(codemods, name) ? codemods[name] : undefined;
  if (command !== undefined) return yield* changing(command);
  const known = Object.keys(codemods);
  return failed(
    `the operator has not allowed a codemod "${name}" (${known.length === 0 ? "none is" : `allowed: ${known.join(", ")}`}); it needs \`rules: { codemods: { ${JSON.stringify(name)}: "command" } }\` in the service's config.jsonc`,
  );
}

const onPath = 'export PATH="$PWD/node_modules/.bin:$PATH"';

type Marks = { marks: string[]; scripts: Record<string, string>; runner: string };

/** The project's marks: files in the root, tables of pyproject.toml, dependencies and scripts of package.json. */
function* marksOf(): Asking<Marks | { why: string }> {
  const read = yield* linesOf(
    `for file in .[!.]* *; do if [ -f "$file" ]; then printf 'file %s\\n' "$file"; fi; done\n` +
      `if [ -f pyproject.toml ]; then sed -n 's/^[[:space:]]*\\[\\([^]]*\\)\\].*/table \\1/p' pyproject.toml; fi\n` +
      `echo @manifest\nif [ -f package.json ]; then cat package.json; fi`,
  );
  if ("why" in read) return read;
  const split = read.lines.indexOf("@manifest");
  const marks = read.lines.slice(0, split);
  const manifest = jsonOf(read.lines.slice(split + 1).join("\n"));
  const entries = (key: string): Record<string, string> => {
    const value = manifest[key];
    return typeof value === "object" && value !== null
      ? Object.fromEntries(Object.entries(value).filter(([, text]) => typeof text === "string"))
      : {};
  };
  for (const key of ["dependencies", "devDependencies"])
    marks.push(...Object.keys(entries(key)).map((name) => `dep ${name}`));
  const has = (file: string) => marks.includes(`file ${file}`);
  const runner = has("pnpm-lock.yaml")
    ? "pnpm"
    : has("yarn.lock")
      ? "yarn"
      : has("bun.lock") || has("bun.lockb")
        ? "bun"
        : "npm";
  return { marks, scripts: entries("scripts"), runner };
}

/** Runs a command that must exit 0, and reports the files whose content changed. */
function* changing(command: string): Step {
  const before = yield* sumsOf();
  if ("why" in before) return failed(before.why);
  const ran = yield* one({
    tool: "shell",
    input: { command: `${onPath}\n${command}`, timeoutSeconds: commandSeconds },
  });
  const said = `\`${command}\`, ${endOf(ran)}`;
  if (ran.outcome !== "ok") return failed(`${said} (${firstFailure(ran.output)})`);
  const after = yield* sumsOf();
  if ("why" in after) return failed(after.why);
  if (before.sums === undefined || after.sums === undefined)
    return done(`${said}; it cannot be told which files changed (no Git, or too many).`);
  const [old, fresh] = [before.sums, after.sums];
  const changed = [...new Set([...old.keys(), ...fresh.keys()])]
    .filter((path) => old.get(path) !== fresh.get(path))
    .toSorted();
  if (changed.length === 0) return done(`${said}; no file changed.`);
  const more = changed.length > 20 ? ` and ${changed.length - 20} more` : "";
  return done(`${said}; ${counted(changed.length, "file")} changed: ${changed.slice(0, 20).join(", ")}${more}.`);
}

/** Checksums of the files that differ from the commit. */
function* sumsOf(): Asking<{ sums: Map<string, string> | undefined } | { why: string }> {
  const read = yield* linesOf(
    `if git rev-parse --is-inside-work-tree >/dev/null 2>&1\n` +
      `then git -c core.quotePath=false diff --name-only --relative --diff-filter=d -z HEAD | while IFS= read -r -d '' file; do if [ -f "$file" ]; then printf '%s\\t%s\\n' "$(cksum < "$file")" "$file"; fi; done\n` +
      `git -c core.quotePath=false ls-files -o --exclude-standard -z | while IFS= read -r -d '' file; do if [ -f "$file" ]; then printf '%s\\t%s\\n' "$(cksum < "$file")" "$file"; fi; done\n` +
      `git -c core.quotePath=false ls-files -d\n` +
      `else echo @none; fi`,
  );
  if ("why" in read) return read;
  if (read.lines[0] === "@none") return { sums: undefined };
  if (!read.whole) return { sums: undefined };
  return {
    sums: new Map(
      read.lines.map((line) => {
        const tab = line.indexOf("\t");
        return tab < 0 ? [line, "gone"] : [line.slice(tab + 1), line.slice(0, tab)];
      }),
    ),
  };
}
