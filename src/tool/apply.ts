import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { applyPatch, parsePatch, reversePatch, type StructuredPatch } from "diff";
import { messageOf } from "../errors.ts";
import { componentsOf } from "../workspace/files.ts";
import type { Git } from "../workspace/git.ts";
import type { Workspace } from "../workspace/workspace.ts";
import { type Change, type Content, change, contentOf, sameContent } from "./change.ts";
import { nearest, numbered, textOf } from "./text.ts";
import { counted, failed, fit, ok, shown, type ToolResult } from "./tool.ts";

/**
 * Applies a unified diff: first exactly (hunks may have moved as a whole), then, where Git has the versions that the
 * diff was made from, three-way. Worked out in memory and in a throw-away index; the files change only when all of it
 * fits, through `files` like every other write.
 */

type ApplyMode =
  | "apply"
  /** Only says whether it would apply. */
  | "check"
  /** Only says whether all of it is in the files already. */
  | "check-applied";

type FilePatch = { from: string | null; to: string | null; patch: StructuredPatch };
type Tree = Map<string, Content | null>;
type Fitted = { ok: true; tree: Tree } | { ok: false; why: string };

export const apply = async (workspace: Workspace, patch: string, mode: ApplyMode): Promise<ToolResult> => {
  const text = patch.endsWith("\n") ? patch : `${patch}\n`;
  const parsed = parse(text);
  if ("refused" in parsed) return failed(parsed.refused);
  const { list, strip, binary } = parsed;
  const before: Tree = new Map();
  for (const { from, to } of list)
    for (const path of [from, to])
      if (path !== null && !before.has(path)) before.set(path, await contentOf(workspace.files, path));

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
  const fitted = exact.ok || workspace.git === undefined ? exact : await fitByGit(workspace.git, before, text, strip);
  if (!fitted.ok)
    return failed(
      fit(`The patch does not apply; nothing was changed.\n${reason(exact, fitted)}`, "read the files", 8000),
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
    [
      `Applied the patch to ${files}${exact.ok ? "" : ", three-way"}.`,
      ...changes.map(
        ({ path, before: was, after }) => `${was === null ? "A" : after === null ? "D" : "M"} ${shown(path)}`,
      ),
    ].join("\n"),
  );
};

const reason = (exact: Fitted, fitted: { why: string }): string =>
  exact.ok || exact.why === fitted.why ? fitted.why : `${exact.why}\n${fitted.why}`;

/** The files a patch is about. Throws FileRefused for a path outside the project or in `.git`. */
const parse = (text: string): { list: FilePatch[]; strip: 0 | 1; binary: boolean } | { refused: string } => {
  let patches: StructuredPatch[];
  try {
    patches = parsePatch(text).filter((patch) => patch.newFileName !== undefined);
  } catch (error) {
    return { refused: `The patch cannot be read: ${messageOf(error)}. Expected a unified diff; nothing was changed.` };
  }
  const binary = /^GIT binary patch$/m.test(text);
  const says = (patch: StructuredPatch) =>
    patch.hunks.length > 0 || patch.isRename || patch.isCopy || patch.isCreate || patch.isDelete || patch.newMode;
  if (patches.length === 0 || !patches.some((patch) => says(patch) || binary))
    return { refused: "Expected a unified diff with file names and hunks, got none; nothing was changed." };
  if (patches.some(({ isBinary }) => isBinary === true))
    return { refused: "The patch names a binary file without its bytes; make it with `git diff --binary`." };
  if (patches.some(({ oldMode = "", newMode = "" }) => /^1[26]/.test(oldMode) || /^1[26]/.test(newMode)))
    return { refused: "Expected a patch of files, got one with a symbolic link or submodule; nothing was changed." };

  const names = patches.flatMap(({ oldFileName = "", newFileName = "" }) => [oldFileName, newFileName]);
  const strip = names.every((name) => name === "/dev/null" || /^[a-z]\//.test(name)) ? 1 : 0;
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

/** Names the first hunk that does not fit by itself, and what stands there instead. */
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
 * The same by `git apply --3way` on an index of its own that holds just these files as they are. The work tree is
 * given as the project's root, so that paths mean the same in a folder of a repository.
 */
const fitByGit = async (git: Git, before: Tree, text: string, strip: 0 | 1): Promise<Fitted> => {
  const folder = await mkdtemp(join(tmpdir(), "sortie-apply-"));
  const root = `--work-tree=${git.root}`;
  const env = { GIT_INDEX_FILE: join(folder, "index") };
  try {
    const entries: string[] = [];
    for (const [path, content] of before) {
      if (content === null) continue;
      const object = await git.run([root, "hash-object", "-w", "--stdin"], { input: content.bytes });
      entries.push(`${content.executable ? "100755" : "100644"} ${object.stdout.toString().trim()} 0\t${path}\0`);
    }
    await git.run([root, "update-index", "-z", "--index-info"], { env, input: entries.join("") });
    const args = ["apply", "--cached", "--3way", "--whitespace=nowarn", `-p${strip}`, "-"];
    const applied = await git.run([root, ...args], { env, input: text, ok: [0, 1, 128] });

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
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
};
