import { realpathSync, type Stats, statSync } from "node:fs";
import { homedir } from "node:os";
import { isAbsolute, resolve } from "node:path";
import { ServiceError } from "../error.ts";
import { createGit, type CreateGitOptions } from "./git/git.ts";
import { configStamp, locateGit } from "./git/git-dir.ts";
import { decodePath, osPath } from "./file/path.ts";
import { findRepository, headOf, refOf, type Repository } from "./git/repository.ts";
import type { Project } from "./workspace.ts";

/** Which directories may be a project (shared/design/security.md C3), and what kind of project one is. */

export type InspectOptions = {
  dataDir: string;
  projectRoots: readonly string[];
  git: CreateGitOptions;
};

/** System folders: refused themselves. Those in `virtual` are refused with everything below them. */
const system = new Set([
  "/",
  "/etc",
  "/usr",
  "/bin",
  "/sbin",
  "/lib",
  "/lib32",
  "/lib64",
  "/libx32",
  "/boot",
  "/var",
  "/tmp",
]);
const virtual = ["/proc", "/sys", "/dev"];

const isWithin = (path: string, folder: string) =>
  path === folder || path.startsWith(`${folder === "/" ? "" : folder}/`);

const invalid = (message: string) => new ServiceError("directory_invalid", message);
const refused = (message: string) => new ServiceError("directory_not_allowed", message);

const realOf = (path: string): string | undefined => {
  try {
    return decodePath(realpathSync.native(osPath(path), { encoding: "buffer" }));
  } catch {
    return undefined;
  }
};

/** The real path of a directory that may be a project; throws `ServiceError(directory_*)`. */
export const resolveDirectory = (directory: string, { dataDir, projectRoots }: InspectOptions): string => {
  if (!isAbsolute(directory)) throw invalid(`Expected directory to be an absolute path, got "${directory}".`);
  if (directory.includes("\0")) throw invalid("Expected directory to be a path without NUL bytes.");
  let real: string | undefined;
  let stats: Stats | undefined;
  try {
    real = realOf(directory);
    stats = real === undefined ? undefined : statSync(osPath(real));
  } catch (error) {
    throw invalid(
      `Expected directory to be readable, got ${(error as NodeJS.ErrnoException).code} for "${directory}".`,
    );
  }
  if (real === undefined || stats === undefined)
    throw invalid(`Expected directory to exist, got "${directory}", where there is nothing.`);
  if (!real.isWellFormed()) throw invalid(`Expected directory to have a UTF-8 path, got "${real.toWellFormed()}".`);
  if (!stats.isDirectory()) throw invalid(`Expected directory to be a directory, got the file "${directory}".`);

  const forbidden = (why: string) => refused(`Expected directory to be a project, got "${directory}", ${why}.`);
  if (system.has(real) || virtual.some((folder) => isWithin(real, folder))) throw forbidden("a folder of the system");
  if (real === realOf(homedir())) throw forbidden("the home folder itself");
  const data = realOf(dataDir) ?? resolve(dataDir);
  if (isWithin(real, data) || isWithin(data, real)) throw forbidden("which holds the service's own data");

  const roots = projectRoots.map((root) => realOf(root) ?? resolve(root));
  const listed = roots.some((root) => isWithin(real, root));
  if (roots.length > 0 && !listed) throw forbidden("which is not below SERVICE_PROJECT_ROOTS");
  const uid = process.getuid?.();
  if (!listed && uid !== undefined && uid !== 0 && stats.uid !== uid)
    throw forbidden(`which belongs to another user (uid ${stats.uid}, the service is ${uid})`);
  return real;
};

const notAWorktree = (directory: string) =>
  invalid(`Expected directory to be a project's files, got "${directory}", a bare repository or the inside of .git.`);

/** Asks git about a repository with an unusual layout. */
const ask = async (directory: string, options: InspectOptions): Promise<Project> => {
  const git = createGit(directory, { ...options.git, discover: true });
  // HEAD comes last: without a commit git fails there, but has printed the rest.
  const args = ["rev-parse", "--is-inside-work-tree", "--show-cdup", "--path-format=absolute", "--git-common-dir"];
  const { stdout, stderr } = await git.run([...args, "HEAD", "--symbolic-full-name", "HEAD"], { ok: [0, 128] });
  const [inside = "", cdup = "", common = directory, head = "", ref = ""] = decodePath(stdout).split("\n");
  if (inside === "" && /not a git repository/.test(stderr)) return { directory, project: directory, git: undefined };
  if (inside === "false" || /bare repository|must be run in a work tree/.test(stderr)) throw notAWorktree(directory);
  if (inside === "")
    throw invalid(`Expected directory to be a usable Git repository, got: ${stderr.trim().slice(0, 500)}`);
  const toplevel = resolve(directory, cdup);
  return {
    directory,
    project: realOf(common) ?? common,
    git: {
      toplevel,
      prefix: directory.slice(toplevel.length).replace(/^\//, ""),
      head: /^[0-9a-f]{40,64}$/.test(head) ? head : null,
      branch: ref.startsWith("refs/heads/") ? ref : null,
    },
  };
};

/** Config stamps that git accepted, by git directory. Thus a broken or too new repository is refused on inspection. */
const read = new Map<string, string>();

/** Starts no process once git has accepted the repository's config, because every request names a directory. */
export const inspectProject = async (given: string, options: InspectOptions): Promise<Project> => {
  const directory = resolveDirectory(given, options);
  const found = findRepository(directory);
  if (found === "bare") throw notAWorktree(given);
  if (found === "none") return { directory, project: directory, git: undefined };
  if (found === "ask") return ask(directory, options);
  const stamp = configStamp(found);
  const asked = read.get(found.gitDir) === stamp ? undefined : await ask(directory, options);
  if (read.size > 1000) read.clear();
  read.set(found.gitDir, stamp);
  return fromFiles(directory, found) ?? asked ?? ask(directory, options);
};

const fromFiles = (directory: string, { toplevel, prefix, gitDir, commonDir }: Repository): Project | undefined => {
  const head = headOf(gitDir);
  if (head === undefined) return undefined;
  const project = realOf(commonDir) ?? commonDir;
  const commit = head.ref === null ? head.oid : refOf(commonDir, head.ref);
  if (commit === undefined) return undefined;
  const branch = head.ref?.startsWith("refs/heads/") ? head.ref : null;
  return { directory, project, git: { toplevel, prefix, head: commit, branch } };
};

/** The git directory of the project's own files, which has their index and HEAD. */
export const gitDirOf = (toplevel: string): string => locateGit(toplevel).gitDir;
