import { createTreeFiles, FileRefused } from "../file/files.ts";
import { splitNul } from "../git/output.ts";
import type { Git } from "../git/git.ts";
import type { BaseFiles } from "../workspace.ts";

/**
 * Compares a checkout with an earlier commit: one git process lists the changed paths, old contents are read on demand.
 */

type Request = { git: Git; base: string; commit: string; prefix: string; root: string };

/** Bytes. No file that configures a check is longer. */
const maxText = 1024 * 1024;

export const readBaseFiles = async ({ git, base, commit, prefix, root }: Request): Promise<BaseFiles> => {
  const { stdout } = await git.run(["diff-tree", "-r", "-z", "--raw", "--no-renames", base, commit]);
  const parts = splitNul(stdout);
  /** By path relative to the root: the file in the base; null: new, or not a regular file in the base. */
  const changed = new Map<string, { oid: string; executable: boolean } | null>();
  const paths: BaseFiles["paths"][number][] = [];
  for (let at = 0; at + 1 < parts.length; at += 2) {
    const [mode = "", next = "", oid = ""] = (parts[at] ?? "").slice(1).split(" ");
    const path = parts[at + 1] ?? "";
    const own = prefix === "" ? path : path.startsWith(`${prefix}/`) ? path.slice(prefix.length + 1) : undefined;
    if (own === undefined) continue;
    paths.push({ path: own, was: kindOf(mode), is: kindOf(next) });
    changed.set(own, mode.startsWith("100") ? { oid, executable: mode === "100755" } : null);
  }
  const files = createTreeFiles(root, () => false);
  const now = (path: string) =>
    files.read(path, maxText).then(
      ({ bytes }) => bytes.toString("utf8"),
      (error: unknown) => {
        if (error instanceof FileRefused) return undefined;
        throw error;
      },
    );
  const was = async (path: string) => {
    const known = changed.get(path);
    if (known == null) return undefined;
    const { stdout: bytes } = await git.run(["cat-file", "blob", known.oid]);
    return { bytes, executable: known.executable };
  };
  return {
    paths,
    now,
    changed: was,
    text: async (path) => (changed.has(path) ? (await was(path))?.bytes.toString("utf8") : now(path)),
  };
};

const kindOf = (mode: string) => (mode === "000000" ? "none" : mode.startsWith("100") ? "file" : "other");
