import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readSync, writeFileSync } from "node:fs";
import { link, mkdir, readdir, rename, stat } from "node:fs/promises";
import { join } from "node:path";
import { deflateSync } from "node:zlib";
import { isTested, rustTests } from "../../domain/contrast/selection.ts";
import { messageOf } from "../../error.ts";
import { pace } from "../../pace.ts";
import { openRegular } from "../file/bounded-read.ts";
import { removeTree } from "../file/remove-tree.ts";
import type { Git } from "../git/git.ts";
import type { Author } from "../git/hardened.ts";
import { partsIn } from "../git/output.ts";
import { GitDied, GitError, type GitOptions } from "../git/run.ts";
import type { Commit } from "./commit.ts";
import { expectBoundedTree } from "./loose-tree.ts";

/**
 * Takes a tree that a git in a sandbox made into the project's repository. Of what that git says, only a tree id and a
 * pack are used. The pack is unpacked beside the project's objects and checked, the changes are judged, and the commit
 * is made here, from the service's own base and message. Only then do the objects become the project's.
 */

export type TakeOverRequest = {
  /** git on the project's objects, which reads no work tree. */
  git: Git;
  /** Real path of the project's objects. */
  objects: string;
  /** Name of the folder beside them, unique to the tree. */
  key: string;
  base: { commit: string; tree: string };
  tree: string;
  /** The file with the pack; an agent may have written it. */
  pack: string;
  author: Author;
  message: string;
};

export type TakenOver = Omit<Commit, "omitted"> & {
  /** Checks that the project has all objects, and adds those again that a `git gc` removed before a ref held them. */
  confirm: () => Promise<void>;
};

/** Bytes. A pack holds the changes of one Task, compressed. */
const longestPack = 8 * 1024 ** 3;

/** Each becomes a file in the project's objects. */
const mostObjects = 1_000_000;

/** Bounds what git allocates, at once and in all: a pack may unpack to far more than its own size. */
const bounded = { env: { GIT_ALLOC_LIMIT: "512m" }, dataBytes: 1024 ** 3, timeoutMs: 10 * 60_000 };

/** Stricter than `--strict`: git itself writes no such modes, and with them the same files would have two ids. */
const strict = "--strict=badFilemode=error";

/** Most attempts; another one follows if git dies, or a `git gc` of the user's removes the folder. */
const attempts = 3;

export const takeOver = async (request: TakeOverRequest): Promise<TakenOver> => {
  // git removes folders of this name later, in case the service does not.
  const folder = join(request.objects, `tmp_objdir-sortie-${request.key}`);
  const clear = () => removeTree(folder);
  for (let left = attempts; ; left -= 1) {
    await clear();
    mkdirSync(folder, { mode: 0o700 });
    try {
      return await takeInto(folder, request, clear);
    } catch (error) {
      const again = left > 1 && (error instanceof GitDied || !existsSync(folder));
      await clear();
      if (!again) throw error;
    }
  }
};

const takeInto = async (folder: string, request: TakeOverRequest, clear: () => Promise<void>): Promise<TakenOver> => {
  const { git, objects, base, tree, author, message } = request;
  const quoted = /[":\n]/.test(objects) ? JSON.stringify(objects) : objects;
  const env = { ...bounded.env, GIT_OBJECT_DIRECTORY: folder, GIT_ALTERNATE_OBJECT_DIRECTORIES: quoted };
  const within = { ...bounded, env };
  const packed = await unpack(request, within);
  if (!(await expectBoundedTree(folder, tree))) await expectTree(git, tree, within);
  const args = ["diff-tree", "-r", "-M", "-z", "--raw", "--numstat", base.tree, tree];
  const { rust, ...counted } = await judged((await git.run(args, within)).stdout);
  const tested = counted.tested === true || (await hasUnitTests(git, tree, rust, within));
  const counts = { ...counted, ...(tested ? { tested: true as const } : {}) };
  const commit = writeCommit(folder, { tree, parent: base.commit, author, message });
  const names = await publish(folder, objects);
  return {
    commit,
    tree,
    parent: base.commit,
    ...counts,
    async confirm() {
      try {
        for (let left = 10; left > 0 && (await missing(objects, names)); left -= 1) await republish(folder, objects);
        // Objects that the project had before, and that no ref holds, are not among `names`.
        if (packed >= names.length)
          await git.run(["rev-list", "--quiet", "--objects", commit, `^${base.commit}`], {
            timeoutMs: bounded.timeoutMs,
          });
      } finally {
        await clear();
      }
    },
  };
};

/** Opens the pack, which must be a regular file: an agent may have put something else in its place. */
const openPack = (path: string): ReturnType<typeof openRegular> => {
  try {
    return openRegular(path, longestPack);
  } catch (error) {
    throw new GitError(`Expected the pack that git made: ${messageOf(error)}`, 1, "");
  }
};

/** Unpacks into the folder that `within` names; returns how many objects the pack has. */
const unpack = async ({ git, pack: path }: TakeOverRequest, within: GitOptions): Promise<number> => {
  using pack = openPack(path);
  const header = Buffer.alloc(12);
  readSync(pack.fd, header, 0, header.length, 0);
  const count = header.readUInt32BE(8);
  if (header.toString("latin1", 0, 4) === "PACK" && count > mostObjects)
    throw new GitError(`Expected at most ${mostObjects} objects in the Task's pack, got ${count}`, null, "");
  await git.run(["unpack-objects", "-q", strict], { ...within, input: pack.fd });
  return count;
};

/**
 * Throws if an object that the project already had is not a tree: git would take a commit or tag for the tree that it
 * leads to.
 */
const expectTree = async (git: Git, id: string, within: GitOptions): Promise<void> => {
  const type = (await git.run(["cat-file", "-t", id], within)).stdout.toString("latin1").trim();
  if (type !== "tree") throw new GitError(`Expected a tree at ${id}, got a ${type}`, null, "");
};

const fileModes = new Set(["100644", "100755", "120000"]);

/**
 * Whether one of these Rust files holds unit tests: they are in the files that they test, so paths do not tell. One
 * process, and only where such files changed and no other tests did.
 */
const hasUnitTests = async (git: Git, tree: string, paths: readonly string[], within: GitOptions): Promise<boolean> => {
  if (paths.length === 0) return false;
  const args = ["grep", "--quiet", "--fixed-strings", "-e", rustTests, tree, "--", ...paths];
  return (await git.run(args, { ...within, ok: [0, 1] })).exitCode === 0;
};

/** Most changed Rust files that are searched for tests. */
const mostRust = 300;

/** `rust`: Rust files that may hold tests; empty where the path of a changed file already says that tests changed. */
type Judged = Pick<Commit, "files" | "insertions" | "deletions" | "tested"> & { rust: string[] };

/** Counts the changes. Throws if an entry is of a kind that the service does not land, such as a nested repository. */
const judged = async (bytes: Buffer): Promise<Judged> => {
  const counts = { files: 0, insertions: 0, deletions: 0 };
  const [present, gone]: [string[], string[]] = [[], []];
  const parts = partsIn(bytes);
  const next = (): string => parts.next().value ?? "";
  for (let at = parts.next(); at.done !== true; at = parts.next()) {
    const part = at.value;
    await pace();
    if (part.startsWith(":")) {
      const [before = "", after = "", , , status = ""] = part.slice(1).split(" ");
      const renamed = /^[RC]/.test(status);
      const paths = renamed ? [next(), next()] : [next()];
      const path = paths.at(-1) ?? "";
      if (after !== "000000" && !fileModes.has(after))
        throw new GitError(`Expected files and links in the Task's tree, got mode ${after} at "${path}"`, null, "");
      if (before === "160000")
        throw new GitError(
          `Expected the project's submodules to stay as they are, got a change at "${path}"`,
          null,
          "",
        );
      const own = paths.find(isServiceSetting);
      if (own !== undefined) throw new GitError(`Expected no change below .sortie, got one at "${own}"`, null, "");
      counts.files += 1;
      if (counts.files <= mostSorted) (after === "000000" ? gone : present).push(path);
      continue;
    }
    const [added = "", deleted = "", name = ""] = part.split("\t");
    // A rename has an empty name, followed by its two paths.
    if (name === "") {
      next();
      next();
    }
    counts.insertions += Number(added) || 0;
    counts.deletions += Number(deleted) || 0;
  }
  return isTested(present, gone)
    ? { ...counts, tested: true, rust: [] }
    : { ...counts, rust: present.filter((path) => path.endsWith(".rs")).slice(0, mostRust) };
};

/** Files beyond this number are not looked at for tests. */
const mostSorted = 5000;

/**
 * Whether a path is below `.sortie`, which holds the service's settings for the project. Ignores case, as some file
 * systems do.
 */
export const isServiceSetting = (path: string): boolean => /(?:^|\/)\.sortie(?:\/|$)/i.test(path);

/** Writes a commit object; returns its id. */
const writeCommit = (
  folder: string,
  { tree, parent, author, message }: { tree: string; parent: string; author: Author; message: string },
): string => {
  const person = `${plain(author.name)} <${plain(author.email)}> ${Math.floor(Date.now() / 1000)} +0000`;
  const text = `tree ${tree}\nparent ${parent}\nauthor ${person}\ncommitter ${person}\n\n${message.replaceAll("\0", "")}`;
  const body = Buffer.from(text.endsWith("\n") ? text : `${text}\n`);
  const bytes = Buffer.concat([Buffer.from(`commit ${body.length}\0`), body]);
  const id = createHash(tree.length === 64 ? "sha256" : "sha1")
    .update(bytes)
    .digest("hex");
  const part = join(folder, id.slice(0, 2));
  // Does not make `folder` again, which somebody may have removed meanwhile.
  if (!existsSync(part)) mkdirSync(part);
  const path = join(part, id.slice(2));
  if (!existsSync(path)) writeFileSync(path, deflateSync(bytes), { mode: 0o444 });
  return id;
};

/** A name without the characters that git leaves out. */
const plain = (name: string): string => name.replace(/[<>\n\0]/g, "").trim();

/** Objects that are linked at the same time. */
const mostAtOnce = 100;

/** Links the unpacked objects into the project's; returns their names, such as `ab/cdef…`. */
const publish = async (folder: string, objects: string): Promise<string[]> => {
  const names: string[] = [];
  for (const part of await readdir(folder)) {
    if (!/^[0-9a-f]{2}$/.test(part)) continue;
    await mkdir(join(objects, part), { recursive: true });
    const files = await readdir(join(folder, part));
    for (let at = 0; at < files.length; at += mostAtOnce)
      await Promise.all(
        files.slice(at, at + mostAtOnce).map(async (file) => {
          const name = join(part, file);
          names.push(name);
          await link(join(folder, name), join(objects, name)).catch(async (error: NodeJS.ErrnoException) => {
            if (error.code === "EEXIST") return;
            // A file system without hard links.
            await rename(join(folder, name), join(objects, name));
          });
        }),
      );
  }
  return names;
};

/** Like `publish`; throws GitError if the folder itself is gone. */
const republish = async (folder: string, objects: string): Promise<void> => {
  if (!existsSync(folder))
    throw new GitError("Expected the Task's objects in the project, got none: git gc took them", 1, "");
  await publish(folder, objects);
};

const missing = async (objects: string, names: readonly string[]): Promise<boolean> => {
  for (const name of names)
    if (
      !(await stat(join(objects, name)).then(
        () => true,
        () => false,
      ))
    )
      return true;
  return false;
};
