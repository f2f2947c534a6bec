import { existsSync, lstatSync, readdirSync, readlinkSync, realpathSync } from "node:fs";
import { basename, delimiter, dirname, join } from "node:path";
import type { Mount } from "./place.ts";

/**
 * What of this machine a sandboxed command can read: the system's programs and libraries, and the tools on PATH that
 * stand elsewhere. An allow-list: what is not named here, or for /etc in `sandbox/etc-copy.ts`, is not there.
 */

export const standard = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"];

/** Below HOME, what goes with a tool that is on PATH; never HOME itself. */
const companions: Record<string, string[]> = {
  ".cargo/bin": [".cargo/bin", ".cargo/registry", ".cargo/git/db", ".cargo/git/checkouts", ".rustup"],
  ".local/bin": [".local/bin", ".local/lib", ".local/share/uv", ".local/share/pipx"],
};

export const isWithin = (folder: string, path: string): boolean =>
  path === folder || path.startsWith(folder === "/" ? "/" : `${folder}/`);

/** The folder that a tool's programs need: of `<prefix>/bin` the prefix, of `node_modules/.bin` its packages. */
const prefixOf = (folder: string): string =>
  ["bin", "sbin", "shims", ".bin"].includes(basename(folder)) ? dirname(folder) : folder;

export type SystemOptions = {
  path: string;
  home: string;
  /** Read-only folders of the operator's. */
  paths: readonly string[];
  /** Never readable, wherever they stand: the data folder. */
  hidden: readonly string[];
  /** Where toolchains stand that are neither on PATH nor below what is. */
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
  // A link into /run on most machines. Also without network: an external agent may have it where commands do not.
  if (existsSync("/etc/resolv.conf")) ro(realpathSync("/etc/resolv.conf"), "/etc/resolv.conf");

  const tool = (folder: string): void => {
    if (!folder.startsWith("/") || !existsSync(folder)) return;
    const real = realpathSync(folder);
    for (const name of new Set([folder, real])) {
      if (covered(name)) continue;
      const below = isWithin(home, name) ? name.slice(home.length + 1) : undefined;
      const own = below === undefined ? undefined : companions[below];
      const prefix = prefixOf(name);
      // A prefix that holds HOME, or the service's data, is too much.
      const wide = prefix === "/" || isWithin(prefix, home) || hidden.some((path) => isWithin(prefix, path));
      if (own !== undefined) for (const part of own) ro(join(home, part));
      else if (!wide) ro(prefix);
      else if (name !== home && !isWithin(name, home) && !hidden.some((path) => isWithin(name, path))) ro(name);
    }
  };
  for (const folder of [...path.split(delimiter), ...moved]) tool(folder);
  // Programs that are installed by a link into /usr/local/bin.
  for (const entry of existsSync("/usr/local/bin") ? readdirSync("/usr/local/bin") : []) {
    const link = join("/usr/local/bin", entry);
    if (!lstatSync(link).isSymbolicLink() || !existsSync(link)) continue;
    const target = dirname(realpathSync(link));
    if (isWithin("/opt", target)) tool(target);
  }
  for (const folder of paths) ro(folder);
  // Each mount costs every sandbox time, and these show nothing that another one does not.
  const within = (mount: Mount) => readable.some((other) => other !== mount.to && isWithin(other, mount.to));
  const needed = mounts.filter((mount) => mount.kind !== "ro" || mount.from !== mount.to || !within(mount));
  const empty = hidden.filter(covered).map((to): Mount => ({ kind: "empty", to }));
  return [...needed, ...empty];
};

/** A link at the top of the file system, such as /bin, stays one. */
export const topLink = (path: string): string | undefined => {
  if (dirname(path) !== "/" || !lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink()) return undefined;
  return readlinkSync(path);
};
