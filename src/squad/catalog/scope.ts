import { FileRefused, type Files } from "../../workspace/file/files.ts";
import { folderStamp } from "../../workspace/file/folder.ts";
import { type Contents, readFolder, reasonOf } from "../package/folder.ts";
import { packageLimits } from "../package/manifest.ts";
import type { Issue, PackageFile } from "../package/package.ts";
import type { Scope, Squad } from "../squad.ts";

/** Reads the packages of one scope; each is in a folder named by its id. */

/** The folder of packages, relative to the product's folder, the data folder, and the project. */
export const folderOf: Readonly<Record<Scope, string>> = {
  builtin: "squads",
  user: "squads",
  project: ".sortie/squads",
};

/** A usable squad. `files`: undefined for a squad that is made from the configuration. */
export type CatalogEntry = { squad: Squad; scope: Scope; digest: string; files: readonly PackageFile[] | undefined };

/** `squad`: the folder's name; "" for an issue of the scope as a whole. */
export type ScopedIssue = Issue & { scope: Scope; squad: string };

export type ScopeScan = { found: CatalogEntry[]; issues: ScopedIssue[]; warnings: ScopedIssue[]; complete: boolean };

/** Name of the old package's folder during an upgrade: see install/writer.ts. */
export const previousOf = (id: string): string => `.previous~${id}`;

/** `open` turns a package into a catalog entry, or into its issues. */
export const scanScope = async (
  files: Files,
  scope: Scope,
  open: (contents: Contents) => CatalogEntry | Issue[],
): Promise<ScopeScan> => {
  const scan: ScopeScan = { found: [], issues: [], warnings: [], complete: true };
  const stop = (code: string, message: string) => {
    scan.issues.push({ scope, squad: "", file: "", code, message });
    scan.complete = false;
  };
  /** Folders whose package has another id than the folder's name. */
  const strays: { folder: string; id: string }[] = [];
  try {
    const { entries, truncated } = await files.list(folderOf[scope], { limit: 2 * packageLimits.packages });
    const kinds = new Map(entries.map(({ path, kind }) => [path.slice(folderOf[scope].length + 1), kind]));
    const room = { packages: packageLimits.packages, bytes: packageLimits.scopeBytes };
    for (const [entry, kind] of kinds) {
      const name = cutOff(entry, kinds) ?? entry;
      if (name.startsWith(".")) continue;
      const at = { scope, squad: name, file: "" };
      if (kind === "link") scan.issues.push({ ...at, code: "link", message: "Expected a folder, got a symbolic link" });
      else if (kind !== "directory")
        scan.warnings.push({ ...at, code: "not_a_package", message: "Expected folders of packages only, got a file" });
      else if (room.packages > 0 && room.bytes > 0) {
        const contents = await readPackage(files, scope, name);
        if (contents === undefined) continue;
        room.packages -= 1;
        if (contents.ok) room.bytes -= contents.files.reduce((sum, { bytes }) => sum + bytes.length, 0);
        const opened = open(contents);
        if (Array.isArray(opened)) scan.issues.push(...opened.map((issue) => ({ ...at, ...issue })));
        else if (opened.squad.id === name) scan.found.push(opened);
        else strays.push({ folder: name, id: opened.squad.id });
      } else {
        stop(
          "too_many_packages",
          `Expected at most ${packageLimits.packages} packages of ${packageLimits.scopeBytes} bytes, got more`,
        );
        break;
      }
    }
    if (truncated && scan.complete)
      stop("too_many_packages", "Expected fewer entries in the folder of packages, got more");
  } catch (error) {
    // A scope whose folder does not exist is empty.
    const gone = error instanceof FileRefused && error.kind === "missing";
    if (!gone || scope === "builtin") stop("not_readable", reasonOf(error));
  }
  for (const { folder, id } of strays) {
    const ids = [...scan.found.map(({ squad }) => squad.id), ...strays.map((stray) => stray.id)];
    const twice = ids.filter((one) => one === id).length > 1;
    const code = twice ? "duplicate_id" : "id_mismatch";
    const message = `id: Expected the name of its folder, "${folder}", got "${id}"${twice ? ", which another folder has too" : ""}`;
    scan.issues.push({ scope, squad: folder, file: "squad.json", code, message });
  }
  return scan;
};

/** The id of a package whose upgrade was interrupted between its two renames. */
const cutOff = (entry: string, kinds: ReadonlyMap<string, unknown>): string | undefined => {
  const id = entry.startsWith(previousOf("")) ? entry.slice(previousOf("").length) : undefined;
  return id === undefined || kinds.has(id) ? undefined : id;
};

/**
 * Reads the package of an id, even during an upgrade, which moves the old package aside and then the new one into
 * place. Reads again if the package changed meanwhile, so that the result never mixes both.
 */
export const readPackage = async (files: Files, scope: Scope, id: string): Promise<Contents | undefined> => {
  const stamp = (name: string) => folderStamp(files.root, [...folderOf[scope].split("/"), name]);
  for (let tries = 0; ; tries += 1) {
    const before = stamp(id);
    const name = before === undefined ? previousOf(id) : id;
    const contents = await readFolder(files, `${folderOf[scope]}/${name}`);
    if (stamp(id) === before && (contents !== undefined || before === undefined)) return contents;
    if (tries >= readsAtMost) return { ok: false, issues: [changing] };
  }
};

const readsAtMost = 20;

const changing: Issue = {
  file: "",
  code: "changing",
  message: "Expected a package that does not change while it is read, got changes at every read",
};
