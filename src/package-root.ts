import { existsSync } from "node:fs";
import { dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** Finds the package's own files, whether the sources run or the bundle in `dist`. */

const self = fileURLToPath(import.meta.url);

const rootAbove = (folder: string): string =>
  existsSync(join(folder, "package.json")) || dirname(folder) === folder ? folder : rootAbove(dirname(folder));

/** Absolute path of the folder with the package's `package.json`. */
export const packageRoot: string = rootAbove(dirname(self));

/** The file of a module that is started as a separate process. `name`: its path below `src`, without extension. */
export const entryPoint = (name: string): string => {
  const extension = extname(self);
  return join(packageRoot, extension === ".ts" ? "src" : "dist", `${name}${extension}`);
};
