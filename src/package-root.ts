import { existsSync } from "node:fs";
import { dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** Where the package's own files are, whether its sources run or the bundle in `dist`. */

const self = fileURLToPath(import.meta.url);

const rootAbove = (folder: string): string =>
  existsSync(join(folder, "package.json")) || dirname(folder) === folder ? folder : rootAbove(dirname(folder));

/** The folder of the package's `package.json`, absolute. */
export const packageRoot: string = rootAbove(dirname(self));

/** A module that starts as a process of its own, by its path below `src` without an extension. */
export const entryPoint = (name: string): string => {
  const extension = extname(self);
  return join(packageRoot, extension === ".ts" ? "src" : "dist", `${name}${extension}`);
};
