import { isWithin } from "../../process/sandbox/system-mount.ts";
import { FileRefused } from "../file/folder.ts";
import type { Files } from "../file/files.ts";
import { repositoryOf } from "../git/repository.ts";
import { createIndexes } from "./indexes.ts";
import { emptyLook, outermost } from "./node.ts";
import { lookAt } from "./watch.ts";

/** Files and folders below the directory that git takes orders from, because the user's settings or links name them. */
const ordersIn = (directory: string): string[] => {
  const found = repositoryOf(directory);
  if (found === undefined) return [];
  const root = outermost(found.commonDir);
  const options = { root, nested: [], writable: directory, indexes: createIndexes() };
  return [...lookAt(options, emptyLook, true).named].filter((path) => path !== directory && isWithin(directory, path));
};

/**
 * The files of an agent that works in place, where nothing stands between what it writes and the user's next git
 * command: paths that git takes orders from can be read, but not changed.
 */
export const protectGitInputs = (files: Files): Files => {
  const orders = ordersIn(files.root);
  if (orders.length === 0) return files;
  const check = (path: string): void => {
    const full = `${files.root}/${files.inside(path)}`.replaceAll(/\/(?:\.?\/)+/g, "/");
    if (orders.some((order) => isWithin(order, full)))
      throw new FileRefused(
        "protected",
        `Expected a file that git takes no orders from, got "${path}": this repository's settings include it or have ` +
          "hooks there, so it would count at the user's next git command. Say what should be changed instead",
      );
  };
  return {
    ...files,
    async write(path, bytes, options) {
      check(path);
      return files.write(path, bytes, options);
    },
    async remove(path) {
      check(path);
      return files.remove(path);
    },
  };
};
