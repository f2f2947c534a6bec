import {
  accessSync,
  constants,
  copyFileSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import type { Mount } from "./place.ts";
import { isWithin, standard } from "./system-mount.ts";

/**
 * /etc inside sandboxes: the few files that programs need, copied at start-up, because a mount for each in every
 * sandbox costs more than the rest of opening it. The copy is reused at the next start as long as none of the files has
 * changed: making it takes a seventh of a start. Files that change while a machine runs are mounted instead.
 */

/** Names in /etc; `*` at the end matches any rest. No file that holds a password, a token or a key. */
const names = [
  "alternatives",
  "bash.bashrc",
  "ca-certificates",
  "ca-certificates.conf",
  "chromium*",
  "crypto-policies",
  "debian_version",
  "fonts",
  "gai.conf",
  "group",
  "host.conf",
  "java*",
  "ld.so.cache",
  "ld.so.conf",
  "ld.so.conf.d",
  "locale*",
  "localtime",
  "magic*",
  "mime.types",
  "nsswitch.conf",
  "os-release",
  "passwd",
  "perl",
  "profile",
  "protocols",
  "python*",
  "services",
  "terminfo",
  "timezone",
  "xml",
  "pki/ca-trust/extracted",
  "pki/tls/certs",
  "pki/tls/cert.pem",
  "pki/tls/openssl.cnf",
  "ssl/certs",
  "ssl/cert.pem",
  "ssl/openssl.cnf",
];

/**
 * A folder with more files than this is mounted instead: such folders are few, and copying them would delay the start.
 */
const copied = 16;

/** How one name of /etc is provided. `files`: the files to copy, each with a stamp that changes with the file. */
type Part = { name: string; from: string; files: string[]; as: "link" | "copy" | "mount" };

/**
 * Makes a copy of /etc in `folder`, with a mount point for each of `mounts` below /etc, or reuses the copy of an
 * earlier start. Returns the mounts that must come before `mounts`.
 */
export const copyEtc = (folder: string, mounts: readonly Mount[], etc = "/etc"): Mount[] => {
  const parts = partsOf(etc);
  const large = parts
    .filter(({ as }) => as === "mount")
    .map(({ name }): Mount => ({ kind: "ro", from: join(etc, name), to: join("/etc", name) }));
  const places = [...large, ...mounts]
    .filter(({ to }) => isWithin("/etc", to))
    .map((mount) => ({ at: join(folder, mount.to.slice("/etc".length)), isFolder: isFolder(mount) }));
  const made = JSON.stringify({ layout: 1, parts, places });
  const record = `${folder}.json`;
  if (!isMade(folder, record, made)) {
    // There is no record until the copy is complete.
    rmSync(record, { force: true });
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true, mode: 0o755 });
    for (const { name, from, as } of parts) if (as !== "mount") copy(from, join(folder, name), as);
    for (const { at, isFolder } of places) makePlace(at, isFolder);
    writeFileSync(record, made);
  }
  return [{ kind: "ro", from: folder, to: "/etc" }, ...large];
};

const isMade = (folder: string, record: string, made: string): boolean =>
  existsSync(folder) && existsSync(record) && readFileSync(record, "utf8") === made;

const partsOf = (etc: string): Part[] => {
  const found = existsSync(etc) ? readdirSync(etc) : [];
  return names
    .flatMap((pattern) =>
      pattern.endsWith("*") ? found.filter((name) => name.startsWith(pattern.slice(0, -1))) : [pattern],
    )
    .filter((name) => existsSync(join(etc, name)))
    .flatMap((name) => partOf(name, realpathSync(join(etc, name))));
};

const partOf = (name: string, from: string): Part[] => {
  if (!isReadable(from)) return [];
  // Every sandbox mounts the target anyway, so a link suffices.
  if (standard.some((root) => isWithin(root, from))) return [{ name, from, files: [], as: "link" }];
  if (!statSync(from).isDirectory()) return [{ name, from, files: [stamp(from)], as: "copy" }];
  const inside = readdirSync(from, { recursive: true, encoding: "utf8" }).toSorted();
  return inside.length > copied
    ? [{ name, from, files: [], as: "mount" }]
    : [{ name, from, files: inside.map((path) => stamp(join(from, path))), as: "copy" }];
};

/** Changes whenever the file does, including its mode. */
const stamp = (path: string): string => {
  const { dev, ino, size, mtimeMs, ctimeMs } = lstatSync(path);
  return [path, dev, ino, size, mtimeMs, ctimeMs].join(" ");
};

const copy = (from: string, to: string, as: "link" | "copy"): void => {
  mkdirSync(dirname(to), { recursive: true });
  if (as === "link") symlinkSync(from, to);
  else if (!statSync(from).isDirectory()) copyFileSync(from, to);
  else cpSync(from, to, { recursive: true, verbatimSymlinks: true, filter: isReadable });
};

const isReadable = (path: string): boolean => {
  try {
    accessSync(path, constants.R_OK);
    return true;
  } catch {
    return false;
  }
};

const isFolder = (mount: Mount): boolean =>
  mount.kind === "empty" || ("from" in mount && statSync(mount.from).isDirectory());

/** Creates a mount point now: the copy is read-only once it is mounted. */
const makePlace = (at: string, isFolder: boolean): void => {
  if (existsSync(at)) return;
  mkdirSync(dirname(at), { recursive: true });
  if (isFolder) mkdirSync(at);
  else writeFileSync(at, "");
};
