import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { promisify } from "node:util";
import { inflate } from "node:zlib";
import { errorCode } from "../../error.ts";
import { GitError } from "../git/run.ts";

/**
 * Measures a tree by its loose objects in a folder, before any git walks it: ten trees that name each other can stand
 * for a thousand million files.
 */

/** Most paths in the new part of a tree; the changes of more do not fit into the output of one git process. */
const mostPaths = 2_000_000;

/** Most folders within each other; the names of more do not fit into a path, which has 4,096 bytes. */
const mostFolders = 2048;

/** Bytes of one tree object. */
const largestTree = 64 * 1024 ** 2;

/** Entries that are read before other work gets a turn. */
const entriesAtOnce = 20_000;

const inflated = promisify(inflate);

const refused = (what: string): GitError => new GitError(what, null, "");

/** The type and the bytes of an object; undefined: it is not in this folder. */
const looseAt = async (folder: string, id: string): Promise<{ type: string; body: Buffer } | undefined> => {
  let packed: Buffer;
  try {
    packed = await readFile(join(folder, id.slice(0, 2), id.slice(2)));
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw error;
  }
  try {
    const bytes = await inflated(packed, { maxOutputLength: largestTree });
    return { type: bytes.toString("latin1", 0, bytes.indexOf(0x20)), body: bytes.subarray(bytes.indexOf(0) + 1) };
  } catch {
    throw refused(`Expected a tree of at most ${largestTree} bytes, got a larger object ${id}`);
  }
};

/** The ids of the trees in a tree object (gitformat-pack(5)), and how many other entries it has. */
const entriesOf = async (body: Buffer, idBytes: number): Promise<{ trees: string[]; others: number }> => {
  const trees: string[] = [];
  let others = 0;
  for (let at = 0; at < body.length; ) {
    const end = body.indexOf(0, at);
    if (end === -1) throw refused("Expected entries with an end in a tree, got one without");
    if (body.toString("latin1", at, at + 6) === "40000 ") trees.push(body.toString("hex", end + 1, end + 1 + idBytes));
    else others += 1;
    at = end + 1 + idBytes;
    if ((trees.length + others) % entriesAtOnce === 0) await setImmediate();
  }
  return { trees, others };
};

/**
 * Throws GitError if the object is in the folder but not a tree, or if it stands for too many paths. An object that is
 * not in the folder counts as one path. false: `tree` itself is not in the folder.
 */
export const expectBoundedTree = async (folder: string, tree: string): Promise<boolean> => {
  const known = new Map<string, number>();
  const pathsOf = async (id: string, depth: number): Promise<number> => {
    const before = known.get(id);
    if (before !== undefined) return before;
    if (depth > mostFolders) throw refused(`Expected at most ${mostFolders} folders within each other, got more`);
    const found = await looseAt(folder, id);
    let paths = 1;
    if (found !== undefined) {
      if (found.type !== "tree") throw refused(`Expected a tree at ${id}, got a ${found.type}`);
      const { trees, others } = await entriesOf(found.body, id.length / 2);
      paths += others;
      for (const child of trees) {
        paths += await pathsOf(child, depth + 1);
        if (paths > mostPaths) throw refused(`Expected at most ${mostPaths} paths in the Task's tree, got more`);
      }
    }
    known.set(id, paths);
    return paths;
  };
  await pathsOf(tree, 0);
  return (await looseAt(folder, tree)) !== undefined;
};
