import { pace } from "../pace.ts";
import { componentsOf } from "../workspace/file/files.ts";
import { encodePath } from "../workspace/file/path.ts";
import type { TrackedFile } from "../workspace/object/commit-file.ts";

/**
 * Decides which files of a listing go into an archive, and under which names. The listing is not trusted: on no system
 * may a name lead out of the folder that the archive is unpacked in.
 */

export type Omitted = { path: string; reason: string };

/** How many bytes an archive may still take, and the reason given for a file that does not fit. */
export type Room = { left: number; readonly full: string };

export const roomOf = ({ archiveBytes }: { archiveBytes: number }): Room => ({
  left: archiveBytes,
  full: `exceeds the archive's limit of ${archiveBytes} bytes`,
});

export type Named = TrackedFile & { name: string };

const longest = 4096;

/** The entries sorted by path. `name` is safe, unique regardless of case, and below `folder`. */
export const nameEntries = async <T extends TrackedFile>(
  listed: readonly T[],
  folder: string,
): Promise<{ entries: (T & Named)[]; omitted: Omitted[]; warnings: Omitted[] }> => {
  const omitted: Omitted[] = [];
  const links = new Set(listed.filter(({ mode }) => mode === "120000").map(({ path }) => path));
  const kept: T[] = [];
  for (const entry of listed) {
    const reason = faultOf(entry, links);
    if (reason === undefined) kept.push(entry);
    else omitted.push({ path: entry.path, reason });
    await pace();
  }
  // Git lists them nearly sorted.
  kept.sort((a, b) => (a.path < b.path ? -1 : 1));
  await pace();

  const folders = new Set<string>();
  for (const { path } of kept) {
    for (const parent of parentsOf(fold(safeName(path)))) folders.add(parent);
    await pace();
  }
  const taken = new Set<string>();
  const numbers = new Map<string, number>();
  const entries: (T & Named)[] = [];
  for (const entry of kept) {
    const name = freeName(safeName(entry.path), numbers, (folded) => taken.has(folded) || folders.has(folded));
    taken.add(fold(name));
    entries.push({ ...entry, name: `${folder}/${name}` });
    await pace();
  }
  const warnings = kept
    .filter(({ path }) => looksSecret(path))
    .map(({ path }) => ({ path, reason: "the name suggests a secret" }));
  return { entries, omitted: distinct(omitted), warnings };
};

/** Whether an archive may hold a file of this name and mode. */
export const mayHold = (entry: TrackedFile): boolean => faultOf(entry, new Set()) === undefined;

const faultOf = ({ path, mode, stage }: TrackedFile, links: ReadonlySet<string>): string | undefined => {
  if (stage !== 0) return "unmerged";
  if (mode === "160000") return "submodule";
  if (mode !== "100644" && mode !== "100755" && mode !== "120000") return `unknown mode ${mode}`;
  if (encodePath(path).length > longest) return `path longer than ${longest} bytes`;
  if (path === "" || path.split("/").some((part) => part === "" || part === ".")) return "unsafe path";
  try {
    componentsOf(path);
  } catch {
    return "unsafe path";
  }
  return parentsOf(path).some((parent) => links.has(parent)) ? "below a link" : undefined;
};

const parentsOf = (path: string): string[] => {
  const parents: string[] = [];
  for (let at = path.indexOf("/"); at !== -1; at = path.indexOf("/", at + 1)) parents.push(path.slice(0, at));
  return parents;
};

/** Keeps one entry per path: an unmerged path is listed once for each side. */
const distinct = (omitted: readonly Omitted[]): Omitted[] =>
  [...new Map(omitted.map((item) => [item.path, item])).values()].toSorted((a, b) => (a.path < b.path ? -1 : 1));

// Control characters, the backslash, and bytes that are not UTF-8 (lone surrogates, see workspace/file/path.ts).
const unsafe = /[\p{Cc}\\\p{Cs}]/gu;

const safeName = (path: string): string =>
  path.replace(unsafe, (character) =>
    [...encodePath(character)].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`).join(""),
  );

/** Maps names to the same text if some file systems treat them as the same name. */
const fold = (name: string): string => name.normalize("NFC").toUpperCase().toLowerCase();

/**
 * A name that is not taken. `numbers`: the next number to try for each name, so that many equal names take linear time.
 */
const freeName = (name: string, numbers: Map<string, number>, taken: (folded: string) => boolean): string => {
  const folded = fold(name);
  if (!taken(folded)) return name;
  const dot = name.lastIndexOf(".");
  const at = dot > name.lastIndexOf("/") + 1 ? dot : name.length;
  for (let number = numbers.get(folded) ?? 2; ; number++) {
    const next = `${name.slice(0, at)}~${number}${name.slice(at)}`;
    if (taken(fold(next))) continue;
    numbers.set(folded, number + 1);
    return next;
  }
};

const looksSecret = (path: string): boolean => {
  const name = path.slice(path.lastIndexOf("/") + 1);
  return (name.startsWith(".env") && name !== ".env.example") || /\.(pem|key)$/.test(name) || name.startsWith("id_");
};

/**
 * Why a link is left out; undefined: it is kept. A link is kept only if its text alone leads to a place inside the
 * archive. `..` is allowed only at the front: after a name it could lead elsewhere through another link.
 */
export const linkFault = (path: string, target: Buffer): string | undefined => {
  const text = target.toString("latin1");
  if (text === "" || text.includes("\0")) return "link without a usable target";
  if (text.startsWith("/") || text.includes("\\") || /^[a-z]:/i.test(text)) return "link to an absolute path";
  const parts = text.split("/").filter((part) => part !== "" && part !== ".");
  const up = parts.findIndex((part) => part !== "..");
  const ups = up === -1 ? parts.length : up;
  if (ups > path.split("/").length - 1 || parts.slice(ups).includes("..")) return "link that leads out of the project";
  try {
    componentsOf(parts.slice(ups).join("/"));
  } catch {
    return "link into .git";
  }
  return undefined;
};
