import { componentsOf, type Files } from "../../workspace/file/files.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { type Change, change, contentOf } from "./change.ts";
import { counted, failed, ok, shown } from "../result.ts";
import type { ToolResult } from "../tool.ts";

/** Does what `git mv` and `git rm` do, but through `files`, so that no link leads out of the project. */

const maxEntries = 10_000;

/** The kind of entry at a path, without following a link. Rejects when the path may not be accessed. */
const standing = async (files: Files, path: string): Promise<"file" | "folder" | "nothing"> => {
  const entry = await files.stat(path);
  return entry === undefined ? "nothing" : entry.kind === "directory" ? "folder" : "file";
};

/** Every file at or below a path; refused if there is a link, a device, or too many entries. */
const filesAt = async (files: Files, path: string): Promise<string[] | { refused: string }> => {
  if ((await standing(files, path)) !== "folder") return [path];
  const { entries, truncated } = await files.list(path, { depth: 100, limit: maxEntries });
  if (truncated) return { refused: `Expected at most ${maxEntries} entries in ${shown(path)}, got more.` };
  const odd = entries.find(({ kind }) => kind === "link" || kind === "other");
  if (odd !== undefined)
    return { refused: `Expected files and folders only in ${shown(path)}, got something else at ${shown(odd.path)}.` };
  return entries.filter(({ kind }) => kind === "file").map((entry) => entry.path);
};

const normal = (path: string): string => componentsOf(path).join("/");

export const move = async (workspace: Workspace, fromText: string, toText: string): Promise<ToolResult> => {
  const { files, git } = workspace;
  const [from, into] = [normal(fromText), normal(toText)];
  if (from === "") return failed("Expected a file or folder below the project's root, got the root.");
  const kind = await standing(files, from);
  if (kind === "nothing") return failed(`Expected a file or folder at ${shown(from)}, got nothing there.`);
  // As with `git mv`, a target that is an existing folder, or ends in a slash, receives the file.
  const taken = toText.endsWith("/") || (await standing(files, into)) === "folder";
  const to = taken ? [into, from.split("/").at(-1)].filter((part) => part !== "").join("/") : into;
  if ((await standing(files, to)) !== "nothing")
    return failed(`Expected nothing at ${shown(to)} yet, got something there.`);
  if (`${to}/`.startsWith(`${from}/`)) return failed(`Expected a place outside ${shown(from)}, got ${shown(to)}.`);

  const paths = await filesAt(files, from);
  if ("refused" in paths) return failed(paths.refused);
  const changes: Change[] = [];
  for (const path of paths) {
    const content = await contentOf(files, path);
    if (content === null) return failed(`Expected a file at ${shown(path)}, got nothing there.`);
    changes.push({ path, before: content, after: null });
    changes.push({ path: `${to}${path.slice(from.length)}`, before: null, after: content });
  }
  const tracked = git === undefined ? [] : await trackedBelow(workspace, from);
  await change(files, changes);
  if (git !== undefined && tracked.length > 0) {
    await git.run(["rm", "-r", "-q", "--cached", "--ignore-unmatch", "--", from], { writes: true });
    const moved = tracked.map((path) => `${to}${path.slice(from.length)}`);
    // Tracked files that were missing on disk did not move.
    const there = new Set(changes.map(({ path }) => path));
    await add(
      workspace,
      moved.filter((path) => there.has(path)),
    );
  }
  return ok(`Moved ${shown(from)} to ${shown(to)}${kind === "folder" ? ` (${counted(paths.length, "file")})` : ""}.`);
};

/** Stages the paths in batches, because the length of a command line is limited. */
const add = async ({ git }: Workspace, paths: readonly string[]): Promise<void> => {
  for (let at = 0; at < paths.length; at += 200)
    await git?.run(["add", "-f", "--", ...paths.slice(at, at + 200)], { writes: true });
};

const trackedBelow = async ({ git }: Workspace, path: string): Promise<string[]> => {
  const listed = await git?.run(["ls-files", "-z", "--", path]);
  return (listed?.stdout.toString("utf8") ?? "").split("\0").filter((name) => name !== "");
};

export const remove = async (workspace: Workspace, texts: readonly string[]): Promise<ToolResult> => {
  const { files, git } = workspace;
  const paths = texts.map(normal);
  const below: string[] = [];
  for (const path of paths) {
    if (path === "") return failed("Expected a file or folder below the project's root, got the root.");
    if ((await standing(files, path)) === "nothing")
      return failed(`Expected a file or folder at ${shown(path)}, got nothing there; nothing was removed.`);
    const found = await filesAt(files, path);
    if ("refused" in found) return failed(`${found.refused} Nothing was removed.`);
    below.push(...found);
  }
  const kept = below.find((path) => !files.mayWrite(path));
  if (kept !== undefined) return failed(`Expected files that may be changed, got ${shown(kept)}; nothing was removed.`);
  for (const path of new Set(below)) await removeOne(files, path);
  for (const path of paths) await removeFolders(files, path);
  if (git !== undefined)
    await git.run(["rm", "-r", "-q", "--cached", "--ignore-unmatch", "--", ...paths], { writes: true });
  return ok(`Removed ${paths.map(shown).join(", ")} (${counted(new Set(below).size, "file")}).`);
};

const removeOne = (files: Files, path: string): Promise<void> => files.remove(path);

/** Removes the empty folders that are left, deepest first. */
const removeFolders = async (files: Files, path: string): Promise<void> => {
  if ((await standing(files, path)) !== "folder") return;
  const { entries } = await files.list(path, { depth: 100, limit: maxEntries });
  const folders = entries.filter(({ kind }) => kind === "directory").map((entry) => entry.path);
  for (const folder of [...folders.reverse(), path]) await files.remove(folder);
};
