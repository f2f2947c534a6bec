import { execFile } from "node:child_process";
import { lstat, readdir, readlink, rename } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import type { Given } from "../../protocol/event/workspace.ts";
import type { Limits } from "../../protocol/limit.ts";
import { openFolder } from "../file/folder.ts";
import { isWithin } from "../../process/sandbox/system-mount.ts";
import { removeTree } from "../file/remove-tree.ts";

/**
 * Copies a dependency folder, where nothing can be mounted over the Task's tree, but only if the folder provably refers
 * to nothing outside: a link or an absolute path into the project would make the Task's commands use the user's files
 * instead of its own. Programs read and copy the files, so that this process stays responsive.
 */

export type CopyRequest = {
  toplevel: string;
  worktree: string;
  path: string;
  /** Where the copy is made, before it is renamed into place. */
  scratch: string;
  /** The search path for `grep` and `cp`. */
  programs: string;
  limits: Pick<Limits, "dependencyFiles" | "dependencyBytes">;
};

export const copyFolder = async (request: CopyRequest): Promise<Given> => {
  const { toplevel, worktree, path, scratch, programs } = request;
  const reason = await whyNot(request).catch(() => "it could not be read completely");
  if (reason !== undefined) return { path, how: "left-out", reason };
  await removeTree(scratch);
  try {
    // Shares blocks with the original where the file system can.
    const how = process.platform === "linux" ? ["-a", "--reflink=auto"] : ["-a"];
    const copied = await execute("cp", [...how, "--", join(toplevel, path), scratch], programs);
    if (copied.code !== 0) return { path, how: "left-out", reason: "it could not be copied" };
    using parent = openFolder(worktree, path.split("/").slice(0, -1));
    await rename(scratch, parent.at(basename(path)));
    return { path, how: "copied" };
  } catch {
    return { path, how: "left-out", reason: "it could not be copied" };
  } finally {
    await removeTree(scratch);
  }
};

/** Why a folder cannot be copied; undefined: nothing in it refers to a path outside. */
const whyNot = async ({ toplevel, path, programs, limits }: CopyRequest): Promise<string | undefined> => {
  const root = join(toplevel, path);
  const shown = (file: string) => file.slice(toplevel.length + 1);
  const folders = [root];
  let count = 0;
  let bytes = 0;
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    const files: string[] = [];
    for (const entry of await readdir(folder, { withFileTypes: true })) {
      const file = join(folder, entry.name);
      count += 1;
      if (count > limits.dependencyFiles) return `it contains more than ${limits.dependencyFiles} files`;
      if (entry.isDirectory()) folders.push(file);
      else if (entry.isFile()) files.push(file);
      else if (!entry.isSymbolicLink()) return `${shown(file)} is not a regular file`;
      else {
        const target = await readlink(file);
        if (target.startsWith("/") || !isWithin(root, resolve(dirname(file), target)))
          return `${shown(file)} is a link that leads out of it`;
      }
    }
    for (const { size } of await Promise.all(files.map((file) => lstat(file)))) bytes += size;
    if (bytes > limits.dependencyBytes) return `it contains more than ${limits.dependencyBytes} bytes`;
  }
  const found = await execute("grep", ["-rlF", "--", toplevel, root], programs);
  const [first = ""] = found.output.split("\n");
  if (found.code === 0) return `${shown(first)} contains the project's absolute path`;
  // grep's 1 means no match; any other code means that it did not read everything.
  return found.code === 1 ? undefined : "it could not be read completely";
};

const execute = (file: string, args: string[], path: string): Promise<{ code: number; output: string }> =>
  new Promise((done) => {
    const options = { env: { PATH: path, LC_ALL: "C" }, timeout: 10 * 60_000, maxBuffer: 64 * 1024 * 1024 };
    execFile(file, args, options, (error, output) =>
      done({ code: error === null ? 0 : typeof error.code === "number" ? error.code : -1, output }),
    );
  });
