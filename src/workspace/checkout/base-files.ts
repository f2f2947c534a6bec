import { createFiles, FileRefused } from "../file/files.ts";
import { splitNul } from "../git/output.ts";
import type { Git } from "../git/git.ts";
import type { BaseFiles } from "../workspace.ts";

/** What a commit changed of another: the paths by one git process, and of those that are asked for what they were. */

type Request = { git: Git; base: string; commit: string; prefix: string; root: string };

/** A longer text says nothing of how a check is run. */
const maxText = 1024 * 1024;

export const readBaseFiles = async ({ git, base, commit, prefix, root }: Request): Promise<BaseFiles> => {
  const { stdout } = await git.run(["diff-tree", "-r", "-z", "--raw", "--no-renames", base, commit]);
  const parts = splitNul(stdout);
  /** Regular files of the base that the commit has otherwise, or not; null: new. */
  const changed = new Map<string, { oid: string; executable: boolean } | null>();
  for (let at = 0; at + 1 < parts.length; at += 2) {
    const [mode = "", , oid = ""] = (parts[at] ?? "").slice(1).split(" ");
    const path = parts[at + 1] ?? "";
    const own = prefix === "" ? path : path.startsWith(`${prefix}/`) ? path.slice(prefix.length + 1) : undefined;
    if (own === undefined) continue;
    changed.set(own, mode.startsWith("100") ? { oid, executable: mode === "100755" } : null);
  }
  const files = createFiles(root, () => false);
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
    now,
    changed: was,
    text: async (path) => (changed.has(path) ? (await was(path))?.bytes.toString("utf8") : now(path)),
  };
};
