import { ServiceError } from "../../error.ts";
import { createFiles } from "../../workspace/file/files.ts";
import { createGit, GitError } from "../../workspace/git/git.ts";
import { createCommitReader, listCommitFiles } from "../../workspace/object/commit-file.ts";
import type { Project } from "../../workspace/workspace.ts";
import { type Contents, readFolder } from "../package/folder.ts";
import { packageLimits } from "../package/manifest.ts";
import { checkListed, type Listed, type PackageFile } from "../package/package.ts";
import { readZip } from "../package/zip.ts";

/** Reads a package to install from its source. Nothing in it is run, and no work tree is created from it. */

export type Source = {
  path?: string | undefined;
  zip?: string | undefined;
  git?: { path: string; ref: string } | undefined;
  /** Files from within this service, unchanged. */
  files?: readonly PackageFile[] | undefined;
};

/** Validates a folder that a caller named; refuses with directory_*. */
export type Inspect = (directory: string) => Promise<Project>;

export const readSource = async (
  { path, zip, git, files }: Source,
  inspect: Inspect,
  gitPath?: string,
): Promise<Contents> => {
  if (files !== undefined) return { ok: true, files: [...files] };
  if (path !== undefined) {
    const { directory } = await inspect(path);
    return (
      (await readFolder(
        createFiles(directory, () => false),
        "",
      )) ?? nothingThere
    );
  }
  if (git !== undefined) return readTree(await inspect(git.path), git.ref, gitPath);
  const bytes = Buffer.from(zip ?? "", "base64");
  if (bytes.toString("base64") !== zip) {
    const message = "Expected canonical base64, got other text";
    const issues = [{ path: "body.zip", message, code: "custom" }];
    throw new ServiceError("invalid_request", `body.zip: ${message}`, { issues });
  }
  return readZip(bytes);
};

const nothingThere: Contents = {
  ok: false,
  issues: [{ file: "", code: "missing", message: "Expected a folder, got nothing there" }],
};

/** The folder as of a commit, read from the object store. */
const readTree = async ({ directory, git }: Project, ref: string, path: string | undefined): Promise<Contents> => {
  if (git === undefined)
    throw new ServiceError("not_a_git_worktree", `${directory} is not a Git worktree. Give path instead of git.`);
  const run = createGit(git.toplevel, path === undefined ? {} : { path });
  const no = (message: string): Contents => ({ ok: false, issues: [{ file: "", code: "not_readable", message }] });
  const never = new AbortController().signal;
  try {
    const args = ["rev-parse", "--verify", "--quiet", "--end-of-options", `${ref}^{commit}`];
    const { exitCode, stdout } = await run.run(args, { ok: [0, 1, 128] });
    if (exitCode !== 0) return no(`Expected a branch, a tag or a commit of the repository, got "${ref}"`);
    const entries = await listCommitFiles(run, stdout.toString("latin1").trim(), git.prefix, never);
    const issues = checkListed(
      entries.map((entry) => ({ path: entry.path, kind: kindOf(entry.mode), bytes: entry.bytes ?? 0 })),
    );
    if (issues.length > 0) return { ok: false, issues };
    using reader = createCommitReader(run, entries, never);
    const files: PackageFile[] = [];
    for (const entry of entries) {
      const found = await reader.read(entry, packageLimits.fileBytes);
      if (found.kind !== "bytes") return no(`Expected ${entry.path} in the repository, got nothing`);
      files.push({ path: entry.path, bytes: Buffer.from(found.bytes) });
    }
    return { ok: true, files };
  } catch (error) {
    if (error instanceof GitError) return no(`Expected a folder that the commit has: ${error.message.slice(0, 300)}`);
    throw error;
  }
};

const kindOf = (mode: string): Listed["kind"] =>
  mode === "120000" ? "link" : mode === "100644" || mode === "100755" ? "file" : "other";
