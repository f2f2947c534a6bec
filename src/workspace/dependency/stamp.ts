import { createHash } from "node:crypto";
import { statSync } from "node:fs";
import { join } from "node:path";
import type { Given } from "../../protocol/event/workspace.ts";

/** Paths that package managers write anew with every installation. */
const manifests = ["", ".package-lock.json", ".yarn-integrity", ".modules.yaml", "pyvenv.cfg", "bin", "lib"];

/** Changes when something is installed into the project's dependency folders, or removed from them. */
export const stampOfDependencies = (toplevel: string, given: readonly Given[]): string => {
  const seen = given.map(({ path, how }) => [
    path,
    how,
    ...manifests.map((name) => {
      const stats = statSync(join(toplevel, path, name), { throwIfNoEntry: false });
      return stats === undefined ? null : [stats.ino, stats.size, stats.mtimeMs];
    }),
  ]);
  return createHash("sha256").update(JSON.stringify(seen)).digest("hex");
};
