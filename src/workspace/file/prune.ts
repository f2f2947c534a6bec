import { rmdirSync } from "node:fs";
import { openFolder } from "./folder.ts";

/** Removes a folder and those above it, up to the root, as far as they are empty. Follows no link. */
export const pruneFolders = (root: string, path: string): void => {
  const components = path.split("/");
  for (let depth = components.length; depth > 0; depth -= 1)
    try {
      using above = openFolder(root, components.slice(0, depth - 1));
      rmdirSync(above.at(components[depth - 1] ?? ""));
    } catch {
      return;
    }
};
