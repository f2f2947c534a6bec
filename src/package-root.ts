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

/** As the package's `package.json` says. */
export const { version } = JSON.parse(readFileSync(join(packageRoot, "package.json"), "utf8")) as { version: string };

/** The file of a module that is started as a separate process. `name`: its path below `src`, without extension. */
export const entryPoint = (name: string): string => {
  const extension = extname(self);
  return join(packageRoot, extension === ".ts" ? "src" : "dist", `${name}${extension}`);
};

/**
 * What a thread or process of ours needs in its environment to find the code that was compiled before; nothing else.
 */
export const compileCacheEnv = (): Record<string, string> => {
  const folder = getCompileCacheDir();
  // What Node says is a folder of this version within the one that it takes.
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: dirname(folder) };
};
