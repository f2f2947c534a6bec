import { statSync } from "node:fs";
import { createFiles } from "../workspace/file/files.ts";
import { digestOf } from "../squad/package/package.ts";
import { readFolder } from "../squad/package/folder.ts";
import { parsePackage } from "../squad/package/parse.ts";
import { readZip } from "../squad/package/zip.ts";

/** A package as it is on this machine, for `sortie squad validate` where no service answers. */

/**
 * undefined: nothing is there. `zip`: its bytes in base64, or the path of a folder. External agents are the
 * configuration's, and not looked up.
 */
export const checkHere = async (source: { path: string } | { zip: string }, scope: "user" | "project") => {
  if ("path" in source && statSync(source.path, { throwIfNoEntry: false }) === undefined) return undefined;
  const read =
    "zip" in source ? await readZip(Buffer.from(source.zip, "base64")) : await readFolder(createFiles(source.path), "");
  if (read === undefined) return undefined;
  const parsed = read.ok ? parsePackage(read.files, { scope, external: "any", servers: "any" }) : read;
  return read.ok && parsed.ok
    ? { valid: true, squad: { ...parsed.squad, digest: digestOf(read.files) }, issues: [] }
    : { valid: false, squad: null, issues: parsed.ok ? [] : parsed.issues };
};
