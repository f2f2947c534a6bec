import {
  accessSync,
  constants,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
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
 * /etc inside sandboxes: the few files that programs need, copied once at the start, because a mount for each in every
 * sandbox costs more than the rest of opening it. Files that change while a machine runs are mounted instead.
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

/** A folder with more files than this is mounted instead: these are few, and copying them would delay the start. */
const copied = 16;

/**
 * Makes a new copy, with a mount point in it for each of `mounts` below /etc. Returns what must be mounted before
 * those.
 */
export const copyEtc = (folder: string, mounts: readonly Mount[]): Mount[] => {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true, mode: 0o755 });
  const found = existsSync("/etc") ? readdirSync("/etc") : [];
  const large: Mount[] = [];
  for (const pattern of names)
    for (const name of pattern.endsWith("*")
      ? found.filter((each) => each.startsWith(pattern.slice(0, -1)))
      : [pattern]) {
      const path = join("/etc", name);
      if (existsSync(path) && !copy(realpathSync(path), join(folder, name)))
        large.push({ kind: "ro", from: path, to: path });
    }
  for (const mount of [...large, ...mounts])
    if (isWithin("/etc", mount.to)) makePlace(join(folder, mount.to.slice("/etc".length)), mount);
  return [{ kind: "ro", from: folder, to: "/etc" }, ...large];
};

/** False: the path should be mounted instead. */
const copy = (from: string, to: string): boolean => {
  if (!isReadable(from)) return true;
  mkdirSync(dirname(to), { recursive: true });
  if (standard.some((root) => isWithin(root, from))) {
    // Every sandbox mounts the target anyway, so a link suffices.
    symlinkSync(from, to);
    return true;
  }
  if (!statSync(from).isDirectory()) copyFileSync(from, to);
  else if (readdirSync(from, { recursive: true }).length > copied) return false;
  else cpSync(from, to, { recursive: true, verbatimSymlinks: true, filter: isReadable });
  return true;
};

const isReadable = (path: string): boolean => {
  try {
    accessSync(path, constants.R_OK);
    return true;
  } catch {
    return false;
  }
};

/** Makes a mount point: the copy is read-only once it is mounted itself. */
const makePlace = (at: string, mount: Mount): void => {
  if (existsSync(at)) return;
  mkdirSync(dirname(at), { recursive: true });
  if (mount.kind === "empty" || ("from" in mount && statSync(mount.from).isDirectory())) mkdirSync(at);
  else writeFileSync(at, "");
};
