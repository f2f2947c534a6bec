import { parseShell } from "../permission/shell-command.ts";

/**
 * Decides which of an agent's commands are evidence: those that the project's manifest, or a check of the Task, names.
 * The same program counts whatever precedes, follows or wraps it: `CI=1 npx vitest --run a | tail -5` where a script
 * has `vitest`.
 */

/** Common tools: a script that calls them says nothing about a command. */
const common = new Set(
  `[ [[ : awk basename bg break cat cd chmod chown clear continue cp curl cut date declare df diff dirname du echo egrep
   env exit export false fg fgrep file find git grep head hostname id jobs jq kill less ln local ls mkdir mktemp more mv
   open paste pgrep pkill popd printf ps pushd pwd read readlink realpath return rg rm rmdir rsync sed seq set shift
   shopt sleep sort ssh stat tac tail tar tee test times touch tr tree true type uname uniq unset unzip wait wc wget which
   whoami xargs xxd yes zip`.split(/\s+/),
);

/** Programs whose first word after the options says what they do. */
const withVerb = new Set(
  "bazel buck cabal cargo dart deno docker dotnet elixir flutter go gradle just mix mvn nim nx ng pants rake sbt stack swift task turbo zig".split(
    " ",
  ),
);

const managers = new Set(["npm", "pnpm", "yarn", "bun", "composer"]);

/** Programs that run a file. */
const runtimes = new Set(
  "node python python2 python3 ruby perl php tsx ts-node sh bash dash zsh ksh fish source .".split(" "),
);

/** Wrappers that precede the actual command, with the number of their own arguments that are not options. */
const wrappers: Readonly<Record<string, number>> = {
  npx: 0,
  bunx: 0,
  "cross-env": 0,
  env: 0,
  command: 0,
  exec: 0,
  nice: 0,
  nohup: 0,
  setsid: 0,
  stdbuf: 0,
  time: 0,
  xargs: 0,
  "xvfb-run": 0,
  timeout: 1,
};

/** Pairs of words that run the rest of the command: `uv run pytest`. */
const runPairs = new Set(
  "uv run,poetry run,pdm run,hatch run,rye run,pipenv run,pnpm exec,pnpm dlx,npm exec,yarn exec,yarn dlx,bundle exec,bun x,mise exec,nix develop".split(
    ",",
  ),
);

/** Other names of the same program. */
const same: Readonly<Record<string, string>> = {
  gradlew: "gradle",
  mvnw: "mvn",
  gmake: "make",
  "py.test": "pytest",
  python3: "python",
  python2: "python",
};

/** Keys that identify the commands of a shell text; none for common tools. */
export const commandKeys = (text: string): string[] =>
  parseShell(withoutHereDocuments(text)).flatMap((command) => keysOf(command.text.split(" ")));

/** Whether one of the commands in a text is among those with these keys. */
export const isNamed = (text: string, keys: ReadonlySet<string>): boolean =>
  commandKeys(text).some((key) => keys.has(key));

const keysOf = (all: readonly string[]): string[] => {
  const words = unwrapped(all);
  const [program = "", ...rest] = words;
  const name = same[program] ?? program;
  if (name === "" || common.has(name)) return [];
  const first = rest.find((word) => !word.startsWith("-"));
  if (managers.has(name)) {
    const verb = first === "run" || first === "run-script" ? rest[rest.indexOf(first) + 1] : first;
    return verb === undefined ? [] : [`script ${verb === "t" ? "test" : verb}`];
  }
  if (name === "make") {
    const targets = rest.filter((word) => !word.startsWith("-") && !word.includes("="));
    return targets.length === 0 ? ["make"] : targets.map((target) => `make ${target}`);
  }
  if (withVerb.has(name)) return first === undefined ? [] : [`${name} ${first}`];
  if (!runtimes.has(program)) return [name];
  if (rest.includes("--test")) return ["node --test"];
  const module = rest.indexOf("-m");
  if (name === "python" && module >= 0) return keysOf(rest.slice(module + 1));
  // A command in a string (`-c`): its words follow.
  const inner = rest.findIndex((word) => /^-\w*c$/.test(word));
  if (inner >= 0) return keysOf(rest.slice(inner + 1));
  const script = rest.find((word) => /\.\w+$/.test(word) || word.includes("/")) ?? first;
  if (script === undefined || rest.some((word) => word === "-e" || word === "-p")) return [];
  return [script.slice(script.lastIndexOf("/") + 1)];
};

/** The command without the words that only start it. */
const unwrapped = (all: readonly string[]): readonly string[] => {
  let words = all;
  for (let steps = 0; steps < 8; steps += 1) {
    const [first = "", second = ""] = words;
    const own = wrappers[first];
    if (runPairs.has(`${first} ${second}`)) words = words.slice(2);
    else if (own !== undefined) words = words.slice(1);
    else return words;
    let rest = own ?? 0;
    while (
      words.length > 0 &&
      (rest > 0 || (words[0] ?? "").startsWith("-") || /^[A-Za-z_]\w*=/.test(words[0] ?? ""))
    ) {
      if (!(words[0] ?? "").startsWith("-") && !/^[A-Za-z_]\w*=/.test(words[0] ?? "")) rest -= 1;
      words = words.slice(1);
    }
    const [program = ""] = words;
    words = [program.slice(program.lastIndexOf("/") + 1), ...words.slice(1)];
  }
  return words;
};

/** Removes here-documents: they are input of a command, not commands. */
const withoutHereDocuments = (text: string): string => {
  if (!text.includes("<<")) return text;
  const kept: string[] = [];
  const ends: string[] = [];
  for (const line of text.split("\n")) {
    const [end] = ends;
    if (end !== undefined) {
      if (line.trimStart() === end) ends.shift();
      continue;
    }
    kept.push(line);
    for (const part of line.split("<<").slice(1)) {
      if (part.startsWith("<")) continue;
      const word = /^-?\s*["'\\]?([A-Za-z_]\w*)/.exec(part)?.[1];
      if (word !== undefined) ends.push(word);
    }
  }
  return kept.join("\n");
};

/** How many characters of each end of a command are shown. */
const end = 300;

/** A command as one line, with both of its ends. */
export const shownCommand = (command: string): string => {
  const line = command
    .split("\n")
    .map((part) => part.trim())
    .filter((part) => part !== "")
    .join(" ⏎ ");
  return line.length <= 2 * end ? line : `${line.slice(0, end)} … ${line.slice(-end)}`;
};
