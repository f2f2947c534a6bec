import { posix } from "node:path";

/**
 * Reads what a shell command calls, without running it. A heuristic that covers how checks are usually written, in
 * linear time.
 */

export type Called = { words: string[]; folder: string };

/** Words that may precede the command itself. */
const wrappers = new Set(["exec", "env", "time", "command", "nice", "nohup", "sudo", "!", "then", "do", "if", "else"]);
const shells = new Set(["sh", "bash", "dash", "zsh", "ksh", "source", "."]);
const runtimes = new Set(["node", "python", "python3", "ruby", "perl", "php", "deno", "tsx", "ts-node", "bun"]);
const managers = new Set(["npm", "pnpm", "yarn", "bun"]);

/** The simple commands of a line or a script, each with its folder after the `cd` commands before it. */
export const commandsIn = (text: string, from: string): Called[] => {
  let folder = from;
  return text.split(/[;&|\n()]/).flatMap((part) => {
    const all = part
      .split(/\s/)
      .map((word) => word.replaceAll(/["'`]/g, ""))
      .filter((word) => word !== "");
    let at = 0;
    for (let word = all[at]; word !== undefined; word = all[(at += 1)]) {
      if (word === "timeout") at += 1;
      else if (!wrappers.has(word) && !/^[A-Za-z_]\w*=/.test(word)) break;
    }
    const words = all.slice(at);
    const [first = "", to] = words;
    if (first === "cd" && to !== undefined) {
      folder = posix.join(folder, to);
      return [];
    }
    return first === "" ? [] : [{ words, folder }];
  });
};

/** The file that a command runs as a script. */
export const scriptIn = ([first = "", ...rest]: readonly string[]): string | undefined => {
  if (first.includes("/") && !first.startsWith("/")) return first;
  if (!shells.has(first) && !runtimes.has(first)) return undefined;
  const script = rest.find((word) => !word.startsWith("-") && word !== "run");
  return script === undefined || script.startsWith("/") ? undefined : script;
};

const ownWords = ["check", "verify", "validate", "lint", "assert", "smoke", "accept", "ci"];
const scriptFolders = new Set(["scripts", "script", "ci", ".ci", "tools", "hack", ".github"]);

/**
 * Whether a script that a check names is part of the check and not of what is tested: by its name, or because it is in
 * a folder for scripts. Test files are not part of it, because the one who does the work writes them.
 */
export const isOfCheck = (path: string): boolean => {
  const name = posix.basename(path).toLowerCase();
  if (/[._-](?:test|spec)\.\w+$/.test(name) || /^test_.*\.py$/.test(name)) return false;
  if (
    posix
      .dirname(path)
      .split("/")
      .some((folder) => scriptFolders.has(folder))
  )
    return true;
  const words = name.split(/[^a-z]/);
  const shell = name.endsWith(".sh") || !name.includes(".");
  return (
    ownWords.some((own) => words.some((word) => word === own || word === `${own}s`)) ||
    (shell && words.some((word) => word === "test" || word === "tests"))
  );
};

/** The package.json script that a package manager runs, and the folder it looks in. */
export const packageIn = ([first = "", ...rest]: readonly string[]): { name: string; folder: string } | undefined => {
  if (!managers.has(first)) return undefined;
  let folder = ".";
  const args: string[] = [];
  for (let at = 0; at < rest.length; at += 1) {
    const word = rest[at] ?? "";
    if (["--prefix", "-C", "--dir", "--cwd"].includes(word)) folder = rest[(at += 1)] ?? ".";
    else if (word === "--") break;
    else if (!word.startsWith("-")) args.push(word);
  }
  const [verb, name] = args;
  if (verb === "run" || verb === "run-script") return name === undefined ? undefined : { name, folder };
  if (verb === undefined) return undefined;
  if (first === "npm")
    return verb === "test" || verb === "t" || verb === "start"
      ? { name: verb === "t" ? "test" : verb, folder }
      : undefined;
  return { name: verb, folder };
};

export const scriptsOf = (manifest: string): Record<string, string> => {
  try {
    const { scripts } = JSON.parse(manifest) as { scripts?: unknown };
    if (typeof scripts !== "object" || scripts === null) return {};
    return Object.fromEntries(
      Object.entries(scripts).filter((entry): entry is [string, string] => typeof entry[1] === "string"),
    );
  } catch {
    return {};
  }
};

/** The targets that make is called with, and the folder. */
export const makeIn = ([first = "", ...rest]: readonly string[]): { targets: string[]; folder: string } | undefined => {
  if (first !== "make" && first !== "gmake") return undefined;
  const at = rest.findIndex((word) => word === "-C" || word === "--directory");
  const folder = at >= 0 ? (rest[at + 1] ?? ".") : ".";
  const targets = rest.filter(
    (word, index) => !word.startsWith("-") && !word.includes("=") && (at < 0 || index !== at + 1),
  );
  return { targets, folder };
};

/** `lines`: the text, shared by the targets of one rule. `needs`: the prerequisites, for each rule of the target. */
type Rule = { lines: string[]; needs: string[][] };

const wordsOf = (text: string): string[] => text.split(/\s/).filter((name) => name !== "");

const rulesIn = (makefile: string): { rules: Map<string, Rule>; first: string | undefined } => {
  const rules = new Map<string, Rule>();
  let open: string[] | undefined;
  let first: string | undefined;
  for (const line of makefile.split("\n")) {
    const colon = line.indexOf(":");
    const isRule = !/^[\s#]/.test(line) && colon > 0 && line[colon + 1] !== "=" && !line.slice(0, colon).includes("=");
    if (isRule) {
      open = [`${line}\n`];
      const names = wordsOf(line.slice(0, colon));
      const needs = wordsOf(line.slice(colon + 1).split(";")[0] ?? "");
      for (const name of names) {
        const before = rules.get(name)?.needs ?? [];
        before.push(needs);
        rules.set(name, { lines: open, needs: before });
      }
      first ??= names.find((name) => !name.startsWith("."));
      // Prefixes for make itself: do not echo, ignore errors, run always.
    } else if (line.startsWith("\t")) open?.push(`${line.slice(1).replace(/^[@+-]+/, "")}\n`);
    else if (line.trim() !== "" && !line.startsWith("#")) open = undefined;
  }
  return { rules, first };
};

/**
 * The rules of these targets and of their prerequisites, as text; without targets, those of the first one. A rule that
 * several targets share is included and followed once, so that the time grows only with the file.
 */
export const recipesOf = (makefile: string, targets: readonly string[]): string[] => {
  const { rules, first } = rulesIn(makefile);
  const wanted = new Set(targets.length > 0 ? targets : first === undefined ? [] : [first]);
  const followed = new Set<readonly string[]>();
  const recipes = new Set<readonly string[]>();
  // Names that are added during the loop are visited, too.
  for (const name of wanted) {
    const rule = rules.get(name);
    if (rule === undefined) continue;
    recipes.add(rule.lines);
    for (const needs of rule.needs) {
      if (followed.has(needs)) continue;
      followed.add(needs);
      for (const need of needs) wanted.add(need);
    }
  }
  return [...recipes].map((lines) => lines.join(""));
};
