import { type AttributeFile, generatedBy } from "../../domain/evidence/attribute.ts";
import { headerLines, saysGenerated } from "../../domain/evidence/diff.ts";
import type { Git } from "../git/git.ts";
import { GitError } from "../git/git.ts";

/** Finds the files that, according to a commit, are written by programs. */

/** Most paths whose headers are read; further ones are judged by `.gitattributes` alone. */
const mostPaths = 500;

/**
 * A predicate on paths from the top of the repository: whether `.gitattributes` or the header of the file says that a
 * program writes it.
 */
export const generatedIn = async (
  git: Git,
  commit: string,
  paths: readonly string[],
): Promise<(path: string) => boolean> => {
  const plain = paths.filter((path) => !/\p{Cc}/u.test(path));
  const attributes = generatedBy(await attributeFiles(git, commit, plain));
  const headers = await generatedHeaders(git, commit, plain.slice(0, mostPaths)).catch((error: unknown) => {
    // Headers are only a hint: without them, more of the diff is shown.
    if (error instanceof GitError) return new Set<string>();
    throw error;
  });
  return (path) => attributes(path) || headers.has(path);
};

const attributeFiles = async (git: Git, commit: string, paths: readonly string[]): Promise<AttributeFile[]> => {
  const folders = new Set([""]);
  for (const path of paths)
    for (let end = path.indexOf("/"); end >= 0; end = path.indexOf("/", end + 1)) folders.add(path.slice(0, end));
  const asked = [...folders];
  const input = asked.map((folder) => `${commit}:${folder === "" ? "" : `${folder}/`}.gitattributes\n`).join("");
  const { stdout } = await git.run(["cat-file", "--batch"], { input: Buffer.from(input) });
  const files: AttributeFile[] = [];
  let at = 0;
  for (const folder of asked) {
    const end = stdout.indexOf(0x0a, at);
    if (end < 0) break;
    const [, kind, size] = stdout.subarray(at, end).toString("utf8").split(" ");
    at = end + 1;
    if (kind !== "blob" && kind !== "tree" && kind !== "commit" && kind !== "tag") continue;
    const bytes = Number(size);
    if (kind === "blob") files.push({ folder, text: stdout.subarray(at, at + bytes).toString("utf8") });
    at += bytes + 1;
  }
  return files;
};

/** The files of the commit whose first lines say that a program wrote them. */
const generatedHeaders = async (git: Git, commit: string, paths: readonly string[]): Promise<Set<string>> => {
  if (paths.length === 0) return new Set();
  const args = [
    "grep",
    "--no-color",
    "-n",
    "-I",
    "-i",
    "-z",
    "-m",
    "3",
    "-F",
    "-e",
    "generated",
    commit,
    "--",
    ...paths,
  ];
  const { stdout } = await git.run(args, { ok: [0, 1] });
  const found = new Set<string>();
  for (const record of stdout.toString("utf8").split("\n")) {
    const [name = "", line = "", text = ""] = record.split("\0");
    if (Number(line) <= headerLines && saysGenerated(text)) found.add(name.slice(commit.length + 1));
  }
  return found;
};
