import { posix } from "node:path";
import type { BaseFiles, FileOverride } from "../../workspace/workspace.ts";
import { commandsIn, isOfCheck, makeIn, packageIn, recipesOf, scriptIn, scriptsOf } from "./script.ts";

/**
 * Finds the files that define what a check's command does and that the work changed: scripts that the command names,
 * package.json scripts and Makefile targets that it calls. Running the check with their earlier versions keeps the work
 * from passing by redefining the check. What the check tests (sources, tests, data) is for the work to change.
 */

export type Redefined = {
  /** The earlier versions, to be written over the tree. */
  laid: FileOverride[];
  /** What was changed, for people: `package.json (scripts.test)`. */
  names: string[];
};

/** How deep scripts that call scripts are followed. */
const maxDepth = 5;

const makefiles = ["GNUmakefile", "makefile", "Makefile"];

export const findRedefined = async (command: string, cwd: string, before: BaseFiles): Promise<Redefined> => {
  const laid = new Map<string, FileOverride>();
  const names = new Set<string>();
  /** Scripts to restore, by the path of their package.json. */
  const scripts = new Map<string, Record<string, string>>();

  const visit = async (text: string, from: string, depth: number): Promise<void> => {
    if (depth > maxDepth) return;
    for (const { words, folder } of commandsIn(text, from)) {
      const script = scriptIn(words);
      if (script !== undefined) await visitFile(posix.normalize(posix.join(folder, script)));
      const called = packageIn(words);
      if (called !== undefined) await visitPackage(posix.join(folder, called.folder), called.name, depth);
      const made = makeIn(words);
      if (made !== undefined) await visitMake(posix.join(folder, made.folder), made.targets, depth);
    }
  };

  const visitFile = async (path: string): Promise<void> => {
    if (!isOfCheck(path)) return;
    const was = await before.changed(path);
    if (was === undefined) return;
    laid.set(path, { path, ...was });
    names.add(path);
  };

  const visitPackage = async (from: string, name: string, depth: number): Promise<void> => {
    const path = await nearest(from, ["package.json"], before);
    if (path === undefined) return;
    const old = scriptsOf((await before.text(path)) ?? "");
    const now = scriptsOf((await before.now(path)) ?? "");
    for (const key of [`pre${name}`, name, `post${name}`]) {
      const was = old[key];
      if (was === undefined) continue;
      if (now[key] !== was) {
        names.add(`${path} (scripts.${key})`);
        scripts.set(path, { ...scripts.get(path), [key]: was });
      }
      await visit(was, posix.dirname(path), depth + 1);
    }
  };

  const visitMake = async (from: string, targets: readonly string[], depth: number): Promise<void> => {
    for (const makefile of makefiles) {
      const path = posix.normalize(posix.join(from, makefile));
      const text = await before.text(path);
      if (text === undefined) continue;
      const was = await before.changed(path);
      const old = recipesOf(text, targets);
      const now = was === undefined ? old : recipesOf((await before.now(path)) ?? "", targets);
      if (was !== undefined && old.join("\n") !== now.join("\n")) {
        names.add(path);
        laid.set(path, { path, ...was });
      }
      for (const recipe of old) await visit(recipe, from, depth + 1);
      return;
    }
  };

  await visit(command, cwd, 0);
  for (const [path, kept] of scripts) laid.set(path, await packageWith(path, kept, before));
  return { laid: [...laid.values()], names: [...names] };
};

/** The file in this folder, otherwise in the nearest folder above. */
const nearest = async (from: string, files: readonly string[], before: BaseFiles): Promise<string | undefined> => {
  for (let folder = posix.normalize(from); ; folder = posix.dirname(folder)) {
    if (folder.startsWith("..")) return undefined;
    for (const file of files) {
      const path = posix.join(folder, file);
      if ((await before.text(path)) !== undefined) return path;
    }
    if (folder === "." || folder === "/") return undefined;
  }
};

/**
 * The current package.json with these scripts restored; the whole earlier file when the current one is not valid JSON.
 */
const packageWith = async (path: string, kept: Record<string, string>, before: BaseFiles): Promise<FileOverride> => {
  const whole = async (): Promise<FileOverride> => {
    const was = await before.changed(path);
    return { path, bytes: was?.bytes ?? Buffer.from((await before.text(path)) ?? ""), executable: false };
  };
  try {
    const now = JSON.parse((await before.now(path)) ?? "") as { scripts?: object };
    const text = JSON.stringify({ ...now, scripts: { ...now.scripts, ...kept } }, null, 2);
    return { path, bytes: Buffer.from(`${text}\n`), executable: false };
  } catch {
    return whole();
  }
};
