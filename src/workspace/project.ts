import { realpathSync, type Stats, statSync } from "node:fs";
import { homedir, userInfo } from "node:os";
import { isAbsolute, resolve } from "node:path";
import { errorCode, ServiceError } from "../error.ts";
import { createGit, type CreateGitOptions } from "./git/git.ts";
import { borrowedBy } from "./git/answer.ts";
import { configStamp } from "./git/git-dir.ts";
import { expectOwnObjects } from "./git/own-objects.ts";
import { statsAt } from "./file/bounded-read.ts";
import { FileRefused } from "./file/folder.ts";
import { decodePath, osPath } from "./file/path.ts";
import { expectFiles, findRepository, headOf, refOf, type Repository } from "./git/repository.ts";
import type { Project } from "./workspace.ts";

/** Which directories may be a project (shared/design/security.md C3), and what kind of project one is. */

export type InspectOptions = {
  dataDir: string;
  projectRoots: readonly string[];
  git: CreateGitOptions;
  /** Also checks each loose object, for callers that are going to work on the repository's objects. */
  loose?: boolean;
};

/** Folders that hold projects but cannot be a project themselves. */
const shelves =
  "/ /home /media /mnt /opt /run /srv /tmp /Users /var /var/cache /var/lib /var/log /var/spool /var/tmp".split(" ");

/** System folders, with everything below them: a file written there may run as another user. */
const system =
  "/bin /boot /etc /lib /lib32 /lib64 /libx32 /sbin /usr /var/spool/at /var/spool/cron /Library /System".split(" ");
/**
 * Folders in system folders whose subfolders belong to users. A root of SERVICE_PROJECT_ROOTS in a system folder opens
 * that folder in the same way.
 */
const own = ["/usr/home", "/usr/local/src", "/usr/src"];
const virtual = ["/dev", "/proc", "/sys"];

const isWithin = (path: string, folder: string) =>
  path === folder || path.startsWith(`${folder === "/" ? "" : folder}/`);

const invalid = (message: string) => new ServiceError("directory_invalid", message);
const refused = (message: string) => new ServiceError("directory_not_allowed", message);

const notAllowed = (message: string) => new ServiceError("repository_not_allowed", message);

const realOf = (path: string): string | undefined => {
  try {
    return decodePath(realpathSync.native(osPath(path), { encoding: "buffer" }));
  } catch {
    return undefined;
  }
};

const fixedPaths = new Map<string, string>();
/** When a missing path is looked for again, by the monotonic clock: each Task asks for some twenty paths. */
const missingUntil = new Map<string, number>();
const missingMs = 1_000;

/** The real path of a folder that stays in its place as long as the service runs; cached once the folder exists. */
const fixed = (path: string): string => {
  const known = fixedPaths.get(path);
  if (known !== undefined) return known;
  const now = performance.now();
  if (now < (missingUntil.get(path) ?? 0)) return resolve(path);
  const real = realOf(path);
  if (real === undefined) missingUntil.set(path, now + missingMs);
  else fixedPaths.set(path, real);
  return real ?? resolve(path);
};

/** Why a folder (a real path) can neither be a project nor hold one; undefined: it can. */
const forbidden = (
  real: string,
  owner: number,
  { dataDir, projectRoots }: Pick<InspectOptions, "dataDir" | "projectRoots">,
): string | undefined => {
  if (isOfSystem(real, projectRoots)) return "a system folder";
  if (isHome(real)) return "the home folder itself";
  const data = fixed(dataDir);
  if (isWithin(real, data) || isWithin(data, real)) return "which contains the service's own data";

  const listed = isListed(real, projectRoots);
  if (projectRoots.length > 0 && !listed) return "which is not below SERVICE_PROJECT_ROOTS";
  const uid = process.getuid?.();
  return !listed && uid !== undefined && uid !== 0 && owner !== uid
    ? `which belongs to another user (uid ${owner}, the service is ${uid})`
    : undefined;
};

/** Many of these are links: /bin to /usr/bin, on macOS /etc to /private/etc. */
const isOfSystem = (real: string, projectRoots: readonly string[]): boolean => {
  const isBelow = (folder: string) => isWithin(real, folder) || isWithin(real, fixed(folder));
  const isItself = (folder: string) => real === folder || real === fixed(folder);
  if (virtual.some(isBelow) || shelves.some(isItself)) return true;
  const folder = system.find(isBelow);
  if (folder === undefined || own.some((one) => isBelow(one) && !isItself(one))) return false;
  const roots = projectRoots.map((root) => realOf(root) ?? resolve(root));
  return !roots.some((root) => isWithin(real, root) && isWithin(root, fixed(folder)) && root !== fixed(folder));
};

/** The home folder of the user's account; HOME may name another folder. */
let account: string | undefined;
const accountHome = (): string => {
  try {
    return (account ??= userInfo().homedir);
  } catch {
    return homedir();
  }
};
const isHome = (real: string): boolean => [homedir(), accountHome()].some((home) => real === fixed(home));

const isListed = (real: string, projectRoots: readonly string[]): boolean =>
  projectRoots.some((root) => isWithin(real, realOf(root) ?? resolve(root)));

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
    throw invalid(`Expected directory to be readable, got ${errorCode(error)} for "${directory}".`);
  }
  if (real === undefined || stats === undefined)
    throw invalid(`Expected directory to be an existing folder, got "${directory}".`);
  if (!real.isWellFormed()) throw invalid(`Expected directory to have a UTF-8 path, got "${real.toWellFormed()}".`);
  if (!stats.isDirectory()) throw invalid(`Expected directory to be a directory, got the file "${directory}".`);

  const why = forbidden(real, stats.uid, { dataDir, projectRoots });
  if (why !== undefined) throw refused(`Expected directory to be a project, got "${directory}", ${why}.`);
  return real;
};

const notAWorktree = (directory: string) =>
  invalid(`Expected directory to be a project's files, got "${directory}", a bare repository or the inside of .git.`);

/** Asks git about a repository with an unusual layout; git's answer must match what was found and judged without it. */
const ask = async (directory: string, found: Repository, options: InspectOptions): Promise<Project> => {
  const git = createGit(directory, { ...options.git, toplevel: found.toplevel, discover: true });
  // HEAD comes last: without a commit git fails there, but has printed the rest.
  const args = ["rev-parse", "--is-inside-work-tree", "--show-cdup", "--path-format=absolute", "--git-common-dir"];
  const { stdout, stderr } = await git.run([...args, "HEAD", "--symbolic-full-name", "HEAD"], { ok: [0, 128] });
  const [inside = "", cdup = "", common = directory, head = "", ref = ""] = decodePath(stdout).split("\n");
  if (inside === "" && /not a git repository/.test(stderr)) return { directory, project: directory, git: undefined };
  if (inside === "false" || /bare repository|must be run in a work tree/.test(stderr)) throw notAWorktree(directory);
  if (inside === "")
    throw invalid(`Expected directory to be a usable Git repository, got: ${stderr.trim().slice(0, 500)}`);
  const toplevel = resolve(directory, cdup);
  const project = realOf(common) ?? common;
  if (toplevel !== found.toplevel || project !== (realOf(found.commonDir) ?? found.commonDir))
    throw notAllowed(
      `Expected the files of the repository of "${directory}" in "${found.toplevel}", where its .git is, got "${toplevel}".`,
    );
  return {
    directory,
    project,
    git: {
      toplevel,
      prefix: directory.slice(toplevel.length).replace(/^\//, ""),
      head: /^[0-9a-f]{40,64}$/.test(head) ? head : null,
      branch: ref.startsWith("refs/heads/") ? ref : null,
    },
  };
};

/**
 * Config stamps that git accepted, by git directory. A changed config is shown to git again, so that a broken or too
 * new repository is refused on inspection.
 */
const read = new Map<string, string>();

/**
 * Throws `repository_not_allowed` if the repository of a directory reaches further than a project may: with its top
 * folder, its Git directories, or the objects that it borrows.
 */
const expectBounds = (
  directory: string,
  { toplevel, gitDir, commonDir }: Repository,
  options: InspectOptions,
): void => {
  const of = `Expected the repository of "${directory}" to be a project's, got`;
  // The directory itself was judged already.
  const why = toplevel === directory ? undefined : forbidden(toplevel, statsAt(toplevel)?.uid ?? -1, options);
  if (why !== undefined)
    throw notAllowed(`${of} "${toplevel}", ${why}. \`git init\` makes the directory one of its own.`);
  const borrowed = borrowedBy(commonDir);
  const data = fixed(options.dataDir);
  const ours = borrowed.find((path) => isWithin(path, data));
  if (ours !== undefined) throw notAllowed(`${of} objects of it in "${ours}", which is the service's own data.`);
  if (options.projectRoots.length === 0) return;
  for (const path of [gitDir, commonDir, ...borrowed]) {
    const real = realOf(path) ?? path;
    if (!isListed(real, options.projectRoots))
      throw notAllowed(`${of} files of it in "${real}", which is not below SERVICE_PROJECT_ROOTS.`);
  }
};

/** Starts no process once git has accepted the repository's config, because every request names a directory. */
export const inspectProject = async (given: string, options: InspectOptions): Promise<Project> => {
  const directory = resolveDirectory(given, options);
  try {
    return await inspectReal(given, directory, options);
  } catch (error) {
    if (!(error instanceof FileRefused)) throw error;
    throw error.kind === "outside"
      ? notAllowed(`${error.message}.`)
      : new ServiceError("repository_unsupported", `${error.message}.`);
  }
};

const inspectReal = async (given: string, directory: string, options: InspectOptions): Promise<Project> => {
  const found = findRepository(directory);
  if (found === "bare") throw notAWorktree(given);
  if (found === "none") return { directory, project: directory, git: undefined };
  expectBounds(directory, found, options);
  expectFiles(found);
  await expectOwnObjects(found.commonDir, { loose: options.loose === true });
  if (found.unusual) return ask(directory, found, options);
  // Read before git is asked, because git would wait for a FIFO in the place of the branch's ref.
  const project = fromFiles(directory, found);
  const stamp = configStamp(found);
  const asked = read.get(found.gitDir) === stamp ? undefined : await ask(directory, found, options);
  if (read.size > 1000) read.clear();
  read.set(found.gitDir, stamp);
  return project ?? asked ?? ask(directory, found, options);
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
