import { existsSync, lstatSync, readdirSync, readlinkSync, realpathSync } from "node:fs";
import { basename, delimiter, dirname, join } from "node:path";
import type { Mount } from "./place.ts";

/**
 * The parts of this machine that a sandboxed command can read: the system's programs and libraries, and tools on PATH
 * that are elsewhere. An allow-list: whatever is not named here, or for /etc in `sandbox/etc-copy.ts`, does not exist
 * inside.
 */

export const standard = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"];

/** Folders below HOME that belong to a tool on PATH; never HOME itself. */
const companions: Record<string, string[]> = {
  ".cargo/bin": [".cargo/bin", ".cargo/registry", ".cargo/git/db", ".cargo/git/checkouts", ".rustup"],
  ".local/bin": [".local/bin", ".local/lib", ".local/share/uv", ".local/share/pipx"],
};

export const isWithin = (folder: string, path: string): boolean =>
  path === folder || path.startsWith(folder === "/" ? "/" : `${folder}/`);

/** The folder that a tool's programs need: for `<prefix>/bin` the prefix, for `node_modules/.bin` its packages. */
const prefixOf = (folder: string): string =>
  ["bin", "sbin", "shims", ".bin"].includes(basename(folder)) ? dirname(folder) : folder;

export type SystemOptions = {
  path: string;
  home: string;
  /** Further read-only folders named by the operator. */
  paths: readonly string[];
  /** Never readable, wherever they are: the data folder. */
  hidden: readonly string[];
  /** Toolchain folders that are neither on PATH nor below a folder that is. */
  moved?: readonly string[];
};

export const systemMounts = ({ path, home, paths, hidden, moved = [] }: SystemOptions): Mount[] => {
  const mounts: Mount[] = [];
  const readable: string[] = [];
  const ro = (from: string, to = from) => {
    if (readable.includes(to) || !existsSync(from)) return;
    readable.push(to);
    mounts.push({ kind: "ro", from, to });
  };
  const covered = (folder: string) => readable.some((known) => isWithin(known, folder));

  for (const folder of standard) ro(folder);
  ro("/etc/hosts");
  // Often a link into /run. Mounted even without network, because an external agent may have network when commands do
  // not.
  if (existsSync("/etc/resolv.conf")) ro(realpathSync("/etc/resolv.conf"), "/etc/resolv.conf");

  const tool = (folder: string): void => {
    if (!folder.startsWith("/") || !existsSync(folder)) return;
    const real = realpathSync(folder);
    for (const name of new Set([folder, real])) {
      if (covered(name)) continue;
      const below = isWithin(home, name) ? name.slice(home.length + 1) : undefined;
      const own = below === undefined ? undefined : companions[below];
      const prefix = prefixOf(name);
      // A prefix that contains HOME or the service's data is too wide.
      const wide = prefix === "/" || isWithin(prefix, home) || hidden.some((path) => isWithin(prefix, path));
      if (own !== undefined) for (const part of own) ro(join(home, part));
      else if (!wide) ro(prefix);
      else if (name !== home && !isWithin(name, home) && !hidden.some((path) => isWithin(name, path))) ro(name);
    }
  };
  for (const folder of [...path.split(delimiter), ...moved]) tool(folder);
  // Programs installed as a link in /usr/local/bin.
  for (const entry of existsSync("/usr/local/bin") ? readdirSync("/usr/local/bin") : []) {
    const link = join("/usr/local/bin", entry);
    if (lstatSync(link, { throwIfNoEntry: false })?.isSymbolicLink() !== true || !existsSync(link)) continue;
    const target = dirname(realpathSync(link));
    if (isWithin("/opt", target)) tool(target);
  }
  for (const folder of paths) ro(folder);
  // Every mount slows down every sandbox, so mounts within another mount are left out.
  const within = (mount: Mount) => readable.some((other) => other !== mount.to && isWithin(other, mount.to));
  const needed = mounts.filter((mount) => mount.kind !== "ro" || mount.from !== mount.to || !within(mount));
  const empty = hidden.filter(covered).map((to): Mount => ({ kind: "empty", to }));
  return [...needed, ...empty];
};

/**
 * The target of a link at the top of the file system, such as /bin, so that it can stay a link; undefined for anything
 * else.
 */
export const rootLinkTarget = (path: string): string | undefined => {
  if (dirname(path) !== "/" || !lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink()) return undefined;
  return readlinkSync(path);
};
