import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync, statfsSync, truncateSync, writeFileSync } from "node:fs";

/** Small file systems of their own, to be filled. */

export type SmallDisk = Disposable & {
  path: string;
  /** Bytes that can still be written. */
  free(): number;
  /** Writes until nothing more can be written; returns what undoes it. */
  fill(): () => void;
};

const run = (file: string, ...args: string[]) => execFileSync(file, args, { stdio: "ignore" });

/** undefined, and a line that says so, where nothing can be mounted. */
export const mountSmall = (path: string, kind: "tmpfs" | "ext4", mib: number): SmallDisk | undefined => {
  mkdirSync(path, { recursive: true });
  const image = `${path}.img`;
  try {
    if (kind === "tmpfs") run("mount", "-t", "tmpfs", "-o", `size=${mib}m`, "tmpfs", path);
    else {
      writeFileSync(image, "");
      truncateSync(image, mib * 1024 ** 2);
      run("mkfs.ext4", "-q", "-F", "-m", "0", image);
      run("mount", "-o", "loop", image, path);
    }
  } catch {
    console.warn(`SKIPPED: no ${kind} can be mounted here, so a full one was not tried`);
    return undefined;
  }
  const free = () => {
    const { bavail, bsize } = statfsSync(path);
    return bavail * bsize;
  };
  const filler = `${path}/filler`;
  return {
    path,
    free,
    fill() {
      // Whole blocks first, then what is left of the last one.
      for (const bs of ["1M", "4k", "1"])
        execFileSync("bash", ["-c", `dd if=/dev/zero bs=${bs} >> ${filler} 2>/dev/null || true`]);
      return () => rmSync(filler, { force: true });
    },
    [Symbol.dispose]() {
      run("umount", "-l", path);
      rmSync(image, { force: true });
    },
  };
};
