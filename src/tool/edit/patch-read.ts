import { parsePatch, type StructuredPatch } from "diff";
import { messageOf } from "../../error.ts";
import { componentsOf } from "../../workspace/file/files.ts";
import { type FilePart, isEnvelope, parseEnvelope, parseLoosely } from "./patch-format.ts";

/** The content of a patch: its files, and how it is to be applied. */

export type ApplyMode =
  | "apply"
  /** Only reports whether the patch would apply. */
  | "check"
  /** Only reports whether all of the patch is already in the files. */
  | "check-applied";

export type FilePatch = { from: string | null; to: string | null; patch: StructuredPatch };

export type Patch =
  | { kind: "lines"; parts: FilePart[] }
  | {
      kind: "unified";
      text: string;
      list: FilePatch[];
      strip: 0 | 1;
      binary: boolean;
      /** Whether the diff names the versions it was made from. */
      versions: boolean;
    };

type Refused = { refused: string };

/** Parses a patch of either form. Throws FileRefused for a path outside the project or in `.git`. */
export const readPatch = (patch: string, mode: ApplyMode): Patch | Refused => {
  const text = patch.endsWith("\n") ? patch : `${patch}\n`;
  if (isEnvelope(text)) {
    if (mode === "check-applied")
      return { refused: "Expected a unified diff for `check-applied`, got a `*** Begin Patch`." };
    const parts = parseEnvelope(text);
    return "refused" in parts ? parts : byLines(parts);
  }
  const parsed = parse(text);
  if (!("refused" in parsed)) return parsed;
  // Line numbers or counts are wrong or missing, as often in patches by models: match by the lines instead.
  const parts = parsed.names && mode !== "check-applied" ? parseLoosely(text, stripOf(text)) : [];
  return "refused" in parts || parts.length === 0 ? { refused: parsed.refused } : byLines(parts);
};

const inside = (path: string): string => componentsOf(path).join("/");

export const byLines = (parts: readonly FilePart[]): Patch & { kind: "lines" } => ({
  kind: "lines",
  parts: parts.map((part) =>
    part.kind === "update"
      ? { ...part, path: inside(part.path), to: inside(part.to) }
      : { ...part, path: inside(part.path) },
  ),
});

/** The files that a patch reads or writes. */
export const pathsOf = (patch: Patch): string[] => {
  const paths =
    patch.kind === "lines"
      ? patch.parts.flatMap((part) => (part.kind === "update" ? [part.path, part.to] : [part.path]))
      : patch.list.flatMap(({ from, to }) => [from, to].filter((path) => path !== null));
  return [...new Set(paths)];
};

const binaryPatch = /^GIT binary patch$/m;

const parse = (text: string): (Patch & { kind: "unified" }) | (Refused & { names: boolean }) => {
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
  const named = (name = ""): string | null =>
    name === "/dev/null" ? null : inside(strip === 1 ? name.slice(2) : name);
  return {
    kind: "unified",
    text,
    strip,
    binary,
    versions: /^index [0-9a-f]{4,64}\.\.[0-9a-f]{4,64}/m.test(text),
    list: patches.map((patch) => ({
      from: patch.isCreate === true ? null : named(patch.oldFileName),
      to: patch.isDelete === true ? null : named(patch.newFileName),
      patch,
    })),
  };
};

/** The number of path components to strip: 1 when names begin with `a/` and `b/`, as in Git's diffs. */
const prefixed = (names: readonly string[]): 0 | 1 =>
  names.every((name) => name === "/dev/null" || /^[a-z]\//.test(name)) ? 1 : 0;

const stripOf = (text: string): 0 | 1 =>
  prefixed([...text.matchAll(/^(?:---|\+\+\+) (\S+)/gm)].map(([, name = ""]) => name));
