import { isWholly, plainWords } from "../../domain/permission/plain-command.ts";
import type { BaseFiles } from "../../workspace/workspace.ts";
import { findRedefined, type Redefined } from "./redefined.ts";
import { makeIn, packageIn, recipesOf, scriptsOf } from "./script.ts";

/**
 * Decides whether a command that starts a server comes only from the project or the operator: only such a server gets
 * secrets.
 */

/** The names under which projects start their servers. A caller of the service may name these, and no other script. */
const serves = /^(?:start|dev|serve|preview)$/;

export type Server = {
  start: string;
  cwd?: string | undefined;
  env?: Readonly<Record<string, string>> | undefined;
};

/**
 * The files to lay over the work, so that the server is the one that the base commit defines. undefined: the command is
 * neither a script or target of the base that serves, nor wholly what a rule of the operator names. `shell`: these
 * rules, as `isWholly` reads them. Arguments, variables and a folder of its own are refused: they are the caller's.
 */
export const ownServer = async (
  { start, cwd = ".", env = {} }: Server,
  shell: readonly string[],
  before: BaseFiles,
): Promise<Redefined | undefined> => {
  if (cwd !== "." || Object.keys(env).length > 0) return undefined;
  const named = shell.some((rule) => isWholly(rule, start)) || (await isOnBase(start, before));
  return named ? findRedefined(start, ".", before) : undefined;
};

const isOnBase = async (start: string, before: Pick<BaseFiles, "text">): Promise<boolean> => {
  const words = plainWords(start) ?? [];
  const called = packageIn(words);
  if (called !== undefined) {
    const plain = words.slice(1).filter((word) => word !== "run" && word !== "run-script");
    if (plain.length !== 1 || plain[0] !== called.name || !serves.test(called.name)) return false;
    return scriptsOf((await before.text("package.json")) ?? "")[called.name] !== undefined;
  }
  const [target = "", ...more] = makeIn(words)?.targets ?? [];
  if (words.length !== 2 || words[1] !== target || more.length > 0 || !serves.test(target)) return false;
  // In the order in which `make` itself chooses.
  for (const name of ["GNUmakefile", "makefile", "Makefile"]) {
    const text = await before.text(name);
    if (text !== undefined) return recipesOf(text, [target]).length > 0;
  }
  return false;
};
