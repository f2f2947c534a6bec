import { statSync } from "node:fs";
import { createFiles } from "../workspace/file/files.ts";
import { digestOf } from "../squad/package/package.ts";
import { readFolder } from "../squad/package/folder.ts";
import { parsePackage } from "../squad/package/parse.ts";
import { readZip } from "../squad/package/zip.ts";

/** Checks a package on this machine, for `sortie squad validate` when no service answers. */

/**
 * Validates a package in a folder (`path`) or a ZIP file (`zip`: its bytes in base64). undefined: nothing exists
 * at the path. Names of external agents and MCP servers are not checked, because they are in the service's
 * configuration.
 */
export const validateLocally = async (source: { path: string } | { zip: string }, scope: "user" | "project") => {
  if ("path" in source && statSync(source.path, { throwIfNoEntry: false }) === undefined) return undefined;
  const read =
    "zip" in source ? await readZip(Buffer.from(source.zip, "base64")) : await readFolder(createFiles(source.path), "");
  if (read === undefined) return undefined;
  const parsed = read.ok ? parsePackage(read.files, { scope, external: "any", servers: "any" }) : read;
  return read.ok && parsed.ok
    ? { valid: true, squad: { ...parsed.squad, digest: digestOf(read.files) }, issues: [] }
    : { valid: false, squad: null, issues: parsed.ok ? [] : parsed.issues };
};
