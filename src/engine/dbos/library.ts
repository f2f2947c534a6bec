import { createRequire } from "node:module";

/**
 * DBOS Transact, loaded only when it is used, because it is large. Its configuration and registry are static, so a
 * second service in the same process gets a copy of its own.
 */

export type Library = typeof import("@dbos-inc/dbos-sdk")["DBOS"];

const name = "@dbos-inc/dbos-sdk";
const require = createRequire(import.meta.url);
let free: Library | undefined;
let isLoaded = false;

/** Give it back with `freeLibrary` after shutting it down. */
export const takeLibrary = (): Library => {
  if (free !== undefined) {
    const taken = free;
    free = undefined;
    return taken;
  }
  if (isLoaded)
    for (const file of Object.keys(require.cache)) if (file.includes(`/${name}/`)) delete require.cache[file];
  isLoaded = true;
  return (require(name) as { DBOS: Library }).DBOS;
};

export const freeLibrary = (library: Library): void => {
  free = library;
};
