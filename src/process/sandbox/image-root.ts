import { lstatSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import type { Mount } from "./place.ts";
import { someEntries } from "./some-entries.ts";
import { isWithin } from "./system-mount.ts";

/**
 * The files of a container image in the place of this machine's, in tier 1: the same sandbox, rules and ends, over
 * another system. What an image holds is whatever its maker put there: no link in it is followed out of it.
 */

export type Image = {
  /** The engine's id, which names exactly these bytes. */
  readonly id: string;
  /** Where its files are, below the data folder; "": at an engine alone. */
  readonly root: string;
  /** The names of its programs, where its files are not here. */
  readonly programs?: ReadonlySet<string>;
  /** A copy of its bash that can be executed and not read. */
  readonly first: string;
  /** Its bash, as commands see it. */
  readonly bash: string;
  readonly path: string;
  /** The variables that it sets, without `PATH` and those of the service. */
  readonly env: Readonly<Record<string, string>>;
};

/** The sandbox has its own, or none. */
const never = new Set("/proc /sys /dev /run /tmp /boot /var/tmp /var/run /var/lock /var/log".split(" "));

/** Entries that are mounted one by one; each is an argument of the sandbox, and is looked at for every command. */
const mostMounts = 4000;

/**
 * Everything in the image but that, and but what stands at `targets`, where other things are mounted: a folder above
 * one of these is shown by what is in it, because nothing can be created in one that is mounted. Throws where that is
 * too much.
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
        // A folder is made in its place.
        if (!isAbove(path)) mounts.push({ kind: "link", text: readlinkSync(own), to: path });
      } else if (entry.isDirectory() && isAbove(path)) visit(own, path);
      // Empty ones at the top, as for other people's disks, say nothing.
      else if (to === "/" && (!entry.isDirectory() || !someEntries(own, 0).crowded)) continue;
      else if (entry.isDirectory() || entry.isFile()) mounts.push({ kind: "ro", from: own, to: path });
    }
  };
  visit(root, "/");
  return mounts;
};

/** As a process whose root is the image finds it: a path without links, relative to it; undefined: it is not there. */
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

/** Whether a program of this name is on its `PATH`. */
export const hasProgram = ({ root, path, programs }: Image, name: string): boolean =>
  programs?.has(name) ?? programIn({ root, path }, name) !== undefined;

/** The program of this name on its `PATH`, as a path inside; undefined: there is none. */
export const programIn = ({ root, path }: Pick<Image, "root" | "path">, name: string): string | undefined =>
  path
    .split(":")
    .filter((folder) => folder.startsWith("/"))
    .map((folder) => inImage(root, join(folder, name)))
    .find((found) => found !== undefined && lstatSync(join(root, found)).isFile());
