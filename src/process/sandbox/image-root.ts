import { lstatSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import type { Mount } from "./place.ts";
import { someEntries } from "./some-entries.ts";
import { isWithin } from "./system-mount.ts";

/**
 * Shows the files of a container image instead of this machine's, in tier 1: the same sandbox and rules, over another
 * system. The content of an image is not trusted: no link in it is followed out of it.
 */

export type Image = {
  /** The engine's id, which identifies exactly these bytes. */
  readonly id: string;
  /** Folder of its files, below the data folder; "": only the engine has them. */
  readonly root: string;
  /** The names of its programs, if its files are not on this machine. */
  readonly programs?: ReadonlySet<string>;
  /** A copy of its bash that can be executed but not read. */
  readonly first: string;
  /** The path of its bash as commands see it. */
  readonly bash: string;
  readonly path: string;
  /** The variables that the image sets, without `PATH` and those reserved by the service. */
  readonly env: Readonly<Record<string, string>>;
};

/** Paths of an image that are never mounted: the sandbox has its own, or none. */
const never = new Set("/proc /sys /dev /run /tmp /boot /var/tmp /var/run /var/lock /var/log".split(" "));

/**
 * Most entries that are mounted one by one: each is an argument of the sandbox, and is examined whenever a sandbox is
 * opened.
 */
const mostMounts = 4000;

/**
 * Mounts for everything in the image except `never` and the `targets`, where something else is mounted. A folder above
 * a target is shown by mounts of its entries, because nothing can be created in a folder that is itself mounted. Throws
 * when that takes too many mounts.
 */
export const imageMounts = (root: string, targets: readonly string[]): Mount[] => {
  const mounts: Mount[] = [];
  let left = mostMounts;
  const isAbove = (path: string) => path === "/var" || targets.some((target) => isWithin(path, target));
  const visit = (from: string, to: string): void => {
    const { entries, crowded } = someEntries(from, left);
    if (crowded) throw new Error(`its ${to} has more entries than the ${mostMounts} that can be shown one by one`);
    left -= entries.length;
    for (const entry of entries) {
      const [own, path] = [join(from, entry.name), join(to, entry.name)];
      if (never.has(path) || targets.includes(path)) continue;
      if (entry.isSymbolicLink()) {
        // If the link is above a target, a folder is created in its place.
        if (!isAbove(path)) mounts.push({ kind: "link", text: readlinkSync(own), to: path });
      } else if (entry.isDirectory() && isAbove(path)) visit(own, path);
      // Files and empty folders at the top, such as mount points for other disks, are left out.
      else if (to === "/" && (!entry.isDirectory() || !someEntries(own, 0).crowded)) continue;
      else if (entry.isDirectory() || entry.isFile()) mounts.push({ kind: "ro", from: own, to: path });
    }
  };
  visit(root, "/");
  return mounts;
};

/**
 * Resolves a path as a process whose root is the image would: returns a path without links, relative to the root;
 * undefined: it does not exist.
 */
export const inImage = (root: string, path: string): string | undefined => {
  let rest = path.split("/").filter((part) => part !== "" && part !== ".");
  const walked: string[] = [];
  for (let links = 0; rest.length > 0; ) {
    const [part = "", ...more] = rest;
    rest = more;
    if (part === "..") {
      walked.pop();
      continue;
    }
    const stats = lstatSync(join(root, ...walked, part), { throwIfNoEntry: false });
    if (stats === undefined) return undefined;
    if (!stats.isSymbolicLink()) {
      if (rest.length > 0 && !stats.isDirectory()) return undefined;
      walked.push(part);
      continue;
    }
    if ((links += 1) > 40) return undefined;
    const target = readlinkSync(join(root, ...walked, part));
    if (target.startsWith("/")) walked.length = 0;
    rest = [...target.split("/").filter((each) => each !== "" && each !== "."), ...rest];
  }
  return walked.join("/");
};

/** Whether a program of this name is on the image's `PATH`. */
export const hasProgram = ({ root, path, programs }: Image, name: string): boolean =>
  programs?.has(name) ?? programIn({ root, path }, name) !== undefined;

/** The program of this name on the image's `PATH`, as a path inside the image; undefined: there is none. */
export const programIn = ({ root, path }: Pick<Image, "root" | "path">, name: string): string | undefined =>
  path
    .split(":")
    .filter((folder) => folder.startsWith("/"))
    .map((folder) => inImage(root, join(folder, name)))
    .find((found) => found !== undefined && lstatSync(join(root, found)).isFile());
