import { messageOf } from "../../error.ts";
import { FileRefused, type Files } from "../../workspace/file/files.ts";
import { packageLimits } from "./manifest.ts";
import { checkListed, type Issue, type Listed, type PackageFile, tooManyFiles } from "./package.ts";

/** Reads a package from a folder, through the confined files of a project, the data folder or the product. */

export type Contents = { ok: true; files: PackageFile[] } | { ok: false; issues: Issue[] };

/** skills/<name>/SKILL.md is the deepest allowed path. */
const depth = 3;
/** Other folders are listed too, as entries that are not allowed. */
const folders = /^(?:agents|skills|skills\/[^/]+)$/;

/** undefined: there is no such folder. */
export const readFolder = async (files: Files, folder: string): Promise<Contents | undefined> => {
  try {
    const { entries, truncated } = await files.list(folder, { depth, limit: 4 * packageLimits.files });
    const prefix = folder === "" ? 0 : folder.length + 1;
    const listed = entries.flatMap(({ path: whole, kind, bytes }): Listed[] => {
      const path = whole.slice(prefix);
      if (kind !== "directory") return [{ path, kind, bytes }];
      return folders.test(path) ? [] : [{ path, kind: "other", bytes: 0 }];
    });
    const issues = truncated ? [tooManyFiles] : checkListed(listed);
    if (issues.length > 0) return { ok: false, issues };
    const read: PackageFile[] = [];
    for (const { path } of listed)
      read.push({
        path,
        bytes: (await files.read(folder === "" ? path : `${folder}/${path}`, packageLimits.fileBytes)).bytes,
      });
    return { ok: true, files: read };
  } catch (error) {
    if (error instanceof FileRefused && error.kind === "missing") return undefined;
    return { ok: false, issues: [{ file: "", code: "not_readable", message: reasonOf(error) }] };
  }
};

/** The message without this machine's paths, which file system errors contain. */
export const reasonOf = (error: unknown): string =>
  !(error instanceof FileRefused) && error instanceof Error && "code" in error
    ? `Expected to be able to read it, got ${String(error.code)}`
    : messageOf(error);
