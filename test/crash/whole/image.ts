import { execFile } from "node:child_process";
import { rm } from "node:fs/promises";
import { promisify } from "node:util";
import { createDisk } from "./disk.ts";

/** A folder as it was, to begin from again. */
export type Image = { restore(): Promise<void> };

const run = promisify(execFile);

/** undefined: somebody wrote while it was copied. */
export const imageOf = async (root: string, at: string): Promise<Image | undefined> => {
  const before = createDisk()(root);
  await run("cp", ["-a", "--", root, at]);
  if (createDisk()(root) !== before || createDisk()(at) !== before) return undefined;
  return {
    async restore() {
      await rm(root, { recursive: true, force: true, maxRetries: 5 });
      await run("cp", ["-a", "--", at, root]);
    },
  };
};
