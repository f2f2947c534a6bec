import { messageOf } from "../../../error.ts";
import { componentsOf } from "../../../workspace/file/files.ts";

/** Checks the text of paths in requests. */

export const normal = (path: string): string => componentsOf(path).join("/");

/** Why a path cannot be in the project, by its text alone; the tools check the disk. undefined: it can. */
export const pathProblem = (path: string): string | undefined => {
  if (/^~(\/|$)|^[A-Za-z]:[\\/]|\\/.test(path)) return `expected a path inside the project with "/", got "${path}"`;
  try {
    return componentsOf(path).length === 0 ? "expected a path below the project's root, got the root" : undefined;
  } catch (error) {
    const message = messageOf(error);
    return message.charAt(0).toLowerCase() + message.slice(1);
  }
};

export const globProblem = (glob: string): string | undefined =>
  /[{}]|^!/.test(glob) ? `expected a glob of *, ** and ?, got "${glob}"` : pathProblem(glob);
