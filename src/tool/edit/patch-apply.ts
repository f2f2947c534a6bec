import { applyPatch, diffArrays, parsePatch, reversePatch, type StructuredPatch } from "diff";
import { messageOf } from "../../error.ts";
import { componentsOf } from "../../workspace/file/files.ts";
import type { TreeGit } from "../../workspace/tree/tree-git.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { type Change, change, contentOf, sameContent, type Fitted, type Tree } from "../file/change.ts";
import { type FilePart, fitParts, isEnvelope, parseEnvelope, parseLoosely } from "./patch-format.ts";
import { linesOf, nearest, numbered, textOf } from "../file/text.ts";
import { counted, failed, truncateMiddle, ok, shown } from "../result.ts";
import type { ToolResult } from "../tool.ts";

/**
 * Applies a patch. A unified diff is tried exactly (hunks may have moved as a whole), then three-way where Git has the
 * versions it was made from, then by its lines alone, like every `*** Begin Patch`. All of it is computed in memory and
 * in a temporary index; the files change only if everything fits, and through `files` like any other write.
 */

export type ApplyMode =
  | "apply"
  /** Only reports whether it would apply. */
  | "check"
  /** Only reports whether all of it is in the files already. */
  | "check-applied";

type FilePatch = { from: string | null; to: string | null; patch: StructuredPatch };

type Patch = { list: FilePatch[]; strip: 0 | 1; binary: boolean };

export const apply = async (workspace: Workspace, patch: string, mode: ApplyMode): Promise<ToolResult> => {
  const text = patch.endsWith("\n") ? patch : `${patch}\n`;
  if (isEnvelope(text)) {
    if (mode === "check-applied")
      return failed("Expected a unified diff for `check-applied`, got a `*** Begin Patch`.");
    const parts = parseEnvelope(text);
    return "refused" in parts ? failed(parts.refused) : byLines(workspace, parts, mode);
  }
  const parsed = parse(text);
  if ("refused" in parsed) {
    // Line numbers or counts are wrong or missing, as models write them: match by the lines instead.
    const parts = parsed.names && mode !== "check-applied" ? parseLoosely(text, stripOf(text)) : [];
    return "refused" in parts || parts.length === 0 ? failed(parsed.refused) : byLines(workspace, parts, mode);
  }
  const { list, strip, binary } = parsed;
  const before = await load(
    workspace,
    list.flatMap(({ from, to }) => [from, to]),
  );
  if (mode === "check-applied") {
    const there = fitExactly(before, list.map(reversed).reverse());
    const modes = list.every(
      ({ to, patch: { newMode } }) =>
        newMode === undefined || to === null || before.get(to)?.executable === (newMode === "100755"),
    );
    return there.ok && modes && !binary
      ? ok("All of the patch is in the files already.")
      : failed("Not all of the patch is in the files.");
  }
  const exact: Fitted = binary ? { ok: false, why: "It holds a binary part." } : fitExactly(before, list);
  if (exact.ok) return finish(workspace, before, exact, mode, "");
  // Without the original versions Git could only guess a place, which `exact` failed to find.
  const versions = /^index [0-9a-f]{4,64}\.\.[0-9a-f]{4,64}/m.test(text);
  const merged = workspace.git === undefined || !versions ? exact : await fitByGit(workspace.git, before, text, strip);
  if (merged.ok) return finish(workspace, before, merged, mode, ", three-way");
  const parts = binary ? [] : parseLoosely(text, strip);
  const loose = "refused" in parts || parts.length === 0 || !plain(list) ? exact : fitParts(before, parts);
  return finish(workspace, before, loose.ok ? loose : { ok: false, why: reason(exact, merged) }, mode, "");
};

/** Whether the patch changes lines only: no mode, rename or copy. */
const plain = (list: readonly FilePatch[]): boolean =>
  list.every(({ patch }) => patch.newMode === undefined && patch.isRename !== true && patch.isCopy !== true);

const byLines = async (workspace: Workspace, named: readonly FilePart[], mode: ApplyMode): Promise<ToolResult> => {
  const inside = (path: string) => componentsOf(path).join("/");
  const parts = named.map((part) =>
    part.kind === "update"
      ? { ...part, path: inside(part.path), to: inside(part.to) }
      : { ...part, path: inside(part.path) },
  );
  const before = await load(
    workspace,
    parts.flatMap((part) => (part.kind === "update" ? [part.path, part.to] : [part.path])),
  );
  return finish(workspace, before, fitParts(before, parts), mode, "");
};

const load = async (workspace: Workspace, paths: readonly (string | null)[]): Promise<Tree> => {
  const before: Tree = new Map();
  for (const path of paths)
    if (path !== null && !before.has(path)) before.set(path, await contentOf(workspace.files, path));
  return before;
};

const finish = async (
  workspace: Workspace,
  before: Tree,
  fitted: Fitted & { notes?: string[] },
  mode: ApplyMode,
  how: string,
): Promise<ToolResult> => {
  if (!fitted.ok)
    return failed(
      truncateMiddle(`The patch does not apply; nothing was changed.\n${fitted.why}`, "read the files", 8000),
    );
  const changes: Change[] = [];
  for (const [path, after] of fitted.tree) {
    const was = before.get(path) ?? null;
    if (!sameContent(was, after)) changes.push({ path, before: was, after });
  }
  if (changes.length === 0) return ok("Nothing to change: all of the patch is in the files already.");
  const files = counted(changes.length, "file");
  if (mode === "check") return ok(`The patch applies; it changes ${files}.`);
  await change(workspace.files, changes);
  return ok(
    [`Applied the patch to ${files}${how}.`, ...changes.map(summaryOf), ...(fitted.notes ?? []).slice(0, 20)].join(
      "\n",
    ),
  );
};

/** `M path (+2 -1)`; without the counts for a binary file, or one with too many differences. */
const summaryOf = ({ path, before, after }: Change): string => {
  const head = `${before === null ? "A" : after === null ? "D" : "M"} ${shown(path)}`;
  const [old, fresh] = [before, after].map((content) => (content === null ? "" : textOf(content.bytes)));
  if (old === undefined || fresh === undefined) return head;
  const runs = diffArrays(linesOf(old), linesOf(fresh), { maxEditLength: 2000, timeout: 200 });
  const count = (kind: "added" | "removed") => (runs ?? []).reduce((sum, run) => sum + (run[kind] ? run.count : 0), 0);
  return runs === undefined ? head : `${head} (+${count("added")} -${count("removed")})`;
};

const reason = (exact: Fitted, fitted: { why: string }): string =>
  exact.ok || exact.why === fitted.why ? fitted.why : `${exact.why}\n${fitted.why}`;

const binaryPatch = /^GIT binary patch$/m;

/** The files of a patch. Throws FileRefused for a path outside the project or in `.git`. */
const parse = (text: string): Patch | { refused: string; names: boolean } => {
  let patches: StructuredPatch[];
  try {
    patches = parsePatch(text).filter((patch) => patch.newFileName !== undefined);
  } catch (error) {
    return {
      refused: `The patch cannot be read: ${messageOf(error)}. Expected a unified diff or \`*** Begin Patch\`; nothing was changed.`,
      names: true,
    };
  }
  const binary = binaryPatch.test(text);
  const says = (patch: StructuredPatch) =>
    patch.hunks.length > 0 || patch.isRename || patch.isCopy || patch.isCreate || patch.isDelete || patch.newMode;
  if (patches.length === 0 || !patches.some((patch) => says(patch) || binary))
    return {
      refused: "Expected a unified diff or `*** Begin Patch` with file names and hunks, got none; nothing was changed.",
      names: true,
    };
  if (patches.some(({ isBinary }) => isBinary === true))
    return {
      refused: "The patch names a binary file without its bytes; make it with `git diff --binary`.",
      names: false,
    };
  if (patches.some(({ oldMode = "", newMode = "" }) => /^1[26]/.test(oldMode) || /^1[26]/.test(newMode)))
    return {
      refused: "Expected a patch of files, got one with a symbolic link or submodule; nothing was changed.",
      names: false,
    };

  const strip = prefixed(patches.flatMap(({ oldFileName = "", newFileName = "" }) => [oldFileName, newFileName]));
  const inside = (name = ""): string | null =>
    name === "/dev/null" ? null : componentsOf(strip === 1 ? name.slice(2) : name).join("/");
  return {
    strip,
    binary,
    list: patches.map((patch) => ({
      from: patch.isCreate === true ? null : inside(patch.oldFileName),
      to: patch.isDelete === true ? null : inside(patch.newFileName),
      patch,
    })),
  };
};

/** The number of components to strip: 1 when names follow `a/` and `b/`, as in Git's diffs. */
const prefixed = (names: readonly string[]): 0 | 1 =>
  names.every((name) => name === "/dev/null" || /^[a-z]\//.test(name)) ? 1 : 0;

const stripOf = (text: string): 0 | 1 =>
  prefixed([...text.matchAll(/^(?:---|\+\+\+) (\S+)/gm)].map(([, name = ""]) => name));

const reversed = ({ from, to, patch }: FilePatch): FilePatch => ({ from: to, to: from, patch: reversePatch(patch) });

const fitExactly = (before: Tree, list: readonly FilePatch[]): Fitted => {
  const tree: Tree = new Map(before);
  for (const { from, to, patch } of list) {
    const name = shown(to ?? from ?? "");
    const source = from === null ? null : (tree.get(from) ?? null);
    if (from !== null && source === null)
      return { ok: false, why: `Expected a file at ${shown(from)}, got nothing there.` };
    if (to !== null && to !== from && (tree.get(to) ?? null) !== null)
      return { ok: false, why: `Expected nothing at ${name} yet, got a file there.` };
    const text = source === null ? "" : textOf(source.bytes);
    if (text === undefined) return { ok: false, why: `Expected text in ${shown(from ?? "")}, got a binary file.` };
    const doubt = ambiguous(name, text, patch);
    if (doubt !== undefined) return { ok: false, why: doubt };
    const result = patch.hunks.length === 0 ? text : applyPatch(text, patch);
    if (result === false) return { ok: false, why: rejected(name, text, patch) };
    if (to === null && result !== "")
      return { ok: false, why: `Expected ${name} to be empty after its lines are removed, got more lines.` };
    if (from !== null && patch.isCopy !== true) tree.set(from, null);
    const executable = patch.newMode === undefined ? (source?.executable ?? false) : patch.newMode === "100755";
    if (to !== null) tree.set(to, { bytes: Buffer.from(result), executable });
  }
  return { ok: true, tree };
};

/** Refuses a hunk that does not match at its line number but in several other places. */
const ambiguous = (name: string, text: string, patch: StructuredPatch): string | undefined => {
  const lines = linesOf(text).map((line) => line.replace(/\r$/, ""));
  for (const [index, hunk] of patch.hunks.entries()) {
    const old = hunk.lines.filter((line) => !/^[+\\]/.test(line)).map((line) => line.slice(1).replace(/\r$/, ""));
    const first = old[0];
    const stands = (at: number) => old.every((line, offset) => lines[at + offset] === line);
    if (first === undefined || stands(hunk.oldStart - 1)) continue;
    const places: number[] = [];
    for (let at = lines.indexOf(first); at >= 0 && places.length < 20; at = lines.indexOf(first, at + 1))
      if (stands(at)) places.push(at + 1);
    if (places.length > 1)
      return `Rejected: ${name}, hunk ${index + 1} of ${patch.hunks.length}: its lines are not at line ${hunk.oldStart}, but at lines ${places.join(", ")}.`;
  }
  return undefined;
};

/** Names the first hunk that does not match by itself, with the nearest lines of the file. */
const rejected = (name: string, text: string, patch: StructuredPatch): string => {
  const at = patch.hunks.findIndex((hunk) => applyPatch(text, { ...patch, hunks: [hunk] }) === false);
  const index = Math.max(0, at);
  const hunk = patch.hunks[index];
  if (hunk === undefined) return `${name} does not fit.`;
  const head = `@@ -${hunk.oldStart},${hunk.oldLines} +${hunk.newStart},${hunk.newLines} @@`;
  const wanted = hunk.lines.filter((line) => !/^[+\\]/.test(line)).map((line) => line.slice(1));
  const near = nearest(text, wanted.join("\n"));
  const there =
    near === undefined ? "" : `\nThe nearest lines of ${name} are:\n${numbered(near.lines.slice(0, 40), near.first)}`;
  return `Rejected: ${name}, hunk ${index + 1} of ${patch.hunks.length}:\n${[head, ...hunk.lines].slice(0, 60).join("\n")}${there}`;
};

/**
 * Fits the patch by `git apply --3way`, on a temporary index that holds just these files as they are now. The work tree
 * is the project's root, so that paths mean the same when the project is a folder of a repository.
 */
const fitByGit = async (git: TreeGit, before: Tree, text: string, strip: 0 | 1): Promise<Fitted> => {
  using index = git.temporary();
  const root = "--work-tree=.";
  const env = { GIT_INDEX_FILE: index.path };
  const writes = { writes: true };
  const entries: string[] = [];
  for (const [path, content] of before) {
    if (content === null) continue;
    const object = await git.run([root, "hash-object", "-w", "--stdin"], { input: content.bytes, ...writes });
    entries.push(`${content.executable ? "100755" : "100644"} ${object.stdout.toString().trim()} 0\t${path}\0`);
  }
  await git.run([root, "update-index", "-z", "--index-info"], { env, input: entries.join(""), ...writes });
  const args = ["apply", "--cached", "--3way", "--whitespace=nowarn", `-p${strip}`, "-"];
  const applied = await git.run([root, ...args], { env, input: text, ok: [0, 1, 128], ...writes });

  const tree: Tree = new Map([...before.keys()].map((path) => [path, null]));
  const conflicts = new Set<string>();
  const listed = await git.run([root, "ls-files", "-s", "-z"], { env });
  for (const entry of listed.stdout.toString("utf8").split("\0")) {
    const [, kind = "", object = "", stage, path = ""] = /^(\d+) (\w+) (\d)\t(.*)$/s.exec(entry) ?? [];
    if (stage === undefined) continue;
    if (stage !== "0") conflicts.add(path);
    else if (applied.exitCode === 0)
      tree.set(path, {
        bytes: (await git.run([root, "cat-file", "blob", object])).stdout,
        executable: kind === "100755",
      });
  }
  if (!binaryPatch.test(text) && applied.stderr.includes("Falling back to direct application"))
    return { ok: false, why: "Three-way, it does not apply: the versions it was made from are not known here." };
  if (conflicts.size > 0)
    return { ok: false, why: `Three-way, it conflicts in ${[...conflicts].map(shown).join(", ")}.` };
  if (applied.exitCode !== 0)
    return {
      ok: false,
      why: `git apply: ${applied.stderr
        .trim()
        .replaceAll(/^error: /gm, "")
        .slice(0, 2000)}`,
    };
  return { ok: true, tree };
};
