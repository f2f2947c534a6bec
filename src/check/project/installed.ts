import type { Files } from "../../workspace/file/files.ts";
import { commandsIn, packageIn, scriptsOf } from "./script.ts";

/**
 * What is installed: which program of a project's own command is missing, read from what the command calls without
 * running it; and which folders of packages the project has.
 */

/** Whether a command of the project finds a program of this name. */
export type HasProgram = (name: string) => Promise<boolean>;

/** Looked for in scripts as well. Any other word there may be a shell's own command, or another script's. */
const known = new Set(["npm", "npx", "pnpm", "yarn", "bun", "bunx", "deno"]);

/** Scripts that look for a program themselves, or can do without it. */
const isChoosing = /\|\||\bif\b|\bwhich\b|command -v|\btype\b/;

const maxDepth = 5;

/**
 * The first program that `command` needs and that is missing; undefined: none is known to be missing. `manifest`: the
 * package.json whose scripts it may run.
 */
export const missingProgramOf = async (
  command: string,
  manifest: string,
  has: HasProgram,
): Promise<string | undefined> => {
  const scripts = scriptsOf(manifest);
  const visit = async (text: string, depth: number): Promise<string | undefined> => {
    if (depth > maxDepth || isChoosing.test(text)) return undefined;
    for (const { words, folder } of commandsIn(text, ".")) {
      const [program = ""] = words;
      const isNamed = depth === 0 ? /^[\w.+-]+$/.test(program) : known.has(program);
      if (isNamed && !(await has(program))) return program;
      const called = packageIn(words);
      if (called === undefined || folder !== "." || called.folder !== ".") continue;
      for (const name of [`pre${called.name}`, called.name, `post${called.name}`]) {
        const script = scripts[name];
        const found = script === undefined ? undefined : await visit(script, depth + 1);
        if (found !== undefined) return found;
      }
    }
    return undefined;
  };
  return visit(command, 0);
};

const longestIgnore = 64 * 1024;

/**
 * Folders of installed packages at the root of the user's own files: those of `names` that have a line of their own in
 * the .gitignore there. Starts no process.
 */
export const installedAt = async (files: Files, names: readonly string[]): Promise<string[]> => {
  const ignore = await files.read(".gitignore", longestIgnore).then(
    ({ bytes }) => bytes.toString("utf8"),
    () => "",
  );
  const lines = new Set(ignore.split("\n").map((line) => line.trim().replace(/^\//, "").replace(/\/$/, "")));
  const found = await Promise.all(
    names.map(async (name) => {
      const entry = lines.has(name) ? await files.stat(name).catch(() => undefined) : undefined;
      return entry?.kind === "directory" ? [name] : [];
    }),
  );
  return found.flat();
};
