import { existsSync, readFileSync } from "node:fs";
import { getCompileCacheDir } from "node:module";
import { dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** Finds the package's own files, whether the sources run or the bundle in `dist`. */

const self = fileURLToPath(import.meta.url);

const rootAbove = (folder: string): string =>
  existsSync(join(folder, "package.json")) || dirname(folder) === folder ? folder : rootAbove(dirname(folder));

/** Absolute path of the folder with the package's `package.json`. */
export const packageRoot: string = rootAbove(dirname(self));

/** The version in the package's `package.json`. */
export const { version } = JSON.parse(readFileSync(join(packageRoot, "package.json"), "utf8")) as { version: string };

/** The file of a module that is started as a separate process. `name`: its path below `src`, without extension. */
export const entryPoint = (name: string): string => {
  const extension = extname(self);
  return join(packageRoot, extension === ".ts" ? "src" : "dist", `${name}${extension}`);
};

/** The environment variables that a thread or process of ours needs to find previously compiled code; nothing else. */
export const compileCacheEnv = (): Record<string, string> => {
  const folder = getCompileCacheDir();
  // Node reports a folder of its own version, inside the one that the variable names.
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: dirname(folder) };
};
