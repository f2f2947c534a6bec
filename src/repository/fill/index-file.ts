import { randomUUID } from "node:crypto";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { decodePath, encodePath } from "../../workspace/file/path.ts";
import type { Git, GitResult } from "../../workspace/git/git.ts";
import { splitNul } from "../../workspace/git/output.ts";

/** Makes a tree from another one by changing entries, in an index without files. */

/** `object`: null removes what is at the path. */
export type Entry = { path: string; mode: string; object: string | null };

export type IndexFile = Disposable & {
  run(args: readonly string[], input?: string | Uint8Array): Promise<GitResult>;
  set(entries: readonly Entry[]): Promise<void>;
  /** The paths, of those given, that the tree's own `.gitattributes` assign to large file storage. */
  large(paths: readonly string[]): Promise<Set<string>>;
  write(): Promise<string>;
};

const timeoutMs = 10 * 60_000;

/** `folder`: the folder for the index file. */
export const openIndex = async (git: Git, tree: string, folder: string, signal: AbortSignal): Promise<IndexFile> => {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const path = join(folder, randomUUID());
  const run: IndexFile["run"] = (args, input) =>
    git.run(args, { env: { GIT_INDEX_FILE: path }, signal, timeoutMs, ...(input === undefined ? {} : { input }) });
  const index: IndexFile = {
    run,
    async set(entries) {
      if (entries.length === 0) return;
      const lines = entries.flatMap(({ path: at, mode, object }) => [
        Buffer.from(object === null ? `0 ${"0".repeat(tree.length)}\t` : `${mode} ${object}\t`),
        encodePath(at),
        Buffer.of(0),
      ]);
      await run(["update-index", "-z", "--index-info"], Buffer.concat(lines));
    },
    async large(paths) {
      if (paths.length === 0) return new Set();
      const asked = Buffer.concat(paths.flatMap((each) => [encodePath(each), Buffer.of(0)]));
      const { stdout } = await run(["check-attr", "--cached", "-z", "--stdin", "filter"], asked);
      const said = splitNul(stdout);
      return new Set(said.filter((_, at) => at % 3 === 0 && said[at + 2] === "lfs"));
    },
    async write() {
      return (await run(["write-tree"])).stdout.toString("latin1").trim();
    },
    [Symbol.dispose]() {
      rmSync(path, { force: true });
      rmSync(`${path}.lock`, { force: true });
    },
  };
  await run(["read-tree", tree]);
  return index;
};

export type Difference = {
  path: string;
  from: { mode: string; object: string } | null;
  to: { mode: string; object: string } | null;
};

/** The differences between two trees, file by file; links and submodules are entries of their own. */
export const differencesOf = async (git: Git, one: string, other: string): Promise<Difference[]> => {
  const args = ["diff-tree", "-r", "-z", "--raw", "--no-renames", one, other];
  const records = (await git.run(args, { timeoutMs })).stdout.toString("latin1").split("\0");
  const found: Difference[] = [];
  for (let at = 0; at + 1 < records.length; at += 2) {
    const [from = "", to = "", was = "", is = ""] = (records[at] ?? "").slice(1).split(" ");
    const path = decodePath(Buffer.from(records[at + 1] ?? "", "latin1"));
    const entry = (mode: string, object: string) => (/^0+$/.test(object) ? null : { mode, object });
    found.push({ path, from: entry(from, was), to: entry(to, is) });
  }
  return found;
};
