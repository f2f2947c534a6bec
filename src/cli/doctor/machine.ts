import { execFile } from "node:child_process";
import { constants } from "node:fs";
import { access, readdir, readFile, stat, statfs } from "node:fs/promises";
import { dirname } from "node:path";
import { promisify } from "node:util";
import { messageOf } from "../../error.ts";
import { bad, type Finding, note, ok } from "../terminal/finding.ts";
import { bytes, line } from "../terminal/format.ts";

/** The checks of `sortie doctor` on the machine itself: programs, folders, disk, clock, processes. */

const execute = promisify(execFile);

export const git = async (): Promise<Finding> => {
  const remedy = "Install Git 2.39 or newer: https://git-scm.com";
  try {
    const { stdout } = await execute("git", ["--version"], { timeout: 5000 });
    const [, major = 0, minor = 0] = (/(\d{1,9})\.(\d{1,9})/.exec(stdout) ?? []).map(Number);
    const found = line(stdout);
    return major > 2 || (major === 2 && minor >= 39) ? ok("Git", found) : bad("Git", `${found} is too old`, remedy);
  } catch (error) {
    return bad("Git", messageOf(error), remedy);
  }
};

export const ripgrep = async (): Promise<Finding> => {
  try {
    const { rgPath } = await import("@vscode/ripgrep");
    const { stdout } = await execute(rgPath, ["--version"], { timeout: 5000 });
    return ok("ripgrep", stdout.split("\n")[0] ?? "");
  } catch (error) {
    return bad("ripgrep", line(messageOf(error)), "Agents use it to search. Install the dependencies again: npm ci");
  }
};

export const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );

/** The folder itself, or the nearest existing one above it. */
const nearest = async (path: string): Promise<string> =>
  (await exists(path)) || path === dirname(path) ? path : nearest(dirname(path));

export const dataFolder = async ({ dataDir }: { dataDir: string }): Promise<Finding> => {
  const place = await nearest(dataDir);
  try {
    if (!(await stat(place)).isDirectory()) throw new Error(`Expected a folder, got the file ${place}`);
    await access(place, constants.W_OK | constants.X_OK);
    return ok("Data folder", place === dataDir ? dataDir : `${dataDir} (will be made)`);
  } catch (error) {
    return bad("Data folder", messageOf(error), "Make it writable, or set SERVICE_DATA_DIR or --data-dir.");
  }
};

export const disk = async ({
  dataDir,
  limits,
}: {
  dataDir: string;
  limits: { diskFreeBytes: number; diskFreePercent: number; diskPauseBytes: number };
}): Promise<Finding> => {
  const { bavail, bsize, blocks } = await statfs(await nearest(dataDir));
  const free = bavail * bsize;
  const wanted = Math.max(limits.diskFreeBytes, (blocks * bsize * limits.diskFreePercent) / 100);
  if (free < limits.diskPauseBytes)
    return bad(
      "Disk",
      `${bytes(free)} free; below ${bytes(limits.diskPauseBytes)}, running Tasks pause, and new ones are refused`,
      "Free some space, for example by deleting ended Tasks. Paused Tasks then continue automatically. You can cancel and delete Tasks even on a full disk.",
    );
  return free >= wanted
    ? ok("Disk", `${bytes(free)} free; running Tasks pause below ${bytes(limits.diskPauseBytes)}`)
    : bad(
        "Disk",
        `${bytes(free)} free; below ${bytes(wanted)}, new Tasks are refused`,
        "Free some space, move the data folder (SERVICE_DATA_DIR), or lower limits.diskFreeBytes and diskFreePercent.",
      );
};

/** Finds processes of Tasks: their environment contains SERVICE_RUN_ID, which begins with the data folder. */
export const leftoverProcesses = async ({ dataDir }: { dataDir: string }, running: boolean): Promise<Finding> => {
  const pids = await readdir("/proc").catch(() => undefined);
  if (pids === undefined) return note("Processes", "not checked: this system has no /proc");
  const mark = `SERVICE_RUN_ID=${dataDir}/`;
  const ours: string[] = [];
  for (const pid of pids.filter((name) => /^\d+$/.test(name))) {
    const environment = await readFile(`/proc/${pid}/environ`, "latin1").catch(() => "");
    if (environment.split("\0").some((entry) => entry.startsWith(mark))) ours.push(pid);
  }
  if (ours.length === 0) return ok("Processes", "none left over");
  return running
    ? ok("Processes", `${ours.length} of running Tasks`)
    : note(
        "Processes",
        `${ours.length} left by a service that is no longer running: ${ours.join(", ")}`,
        "The service stops them at its next start.",
      );
};

/** A clock difference of up to this many milliseconds is harmless, because leases and waits are longer. */
const skewMs = 5000;

/**
 * `known`: a time that has certainly passed, such as the newest event's, or the database's current time. `both`: a
 * clock that is ahead of `known` is wrong as well.
 */
export const clockAgainst = (known: Date | undefined, what: string, both: boolean, now = new Date()): Finding => {
  const here = `${now.toISOString().slice(0, 19).replace("T", " ")} UTC`;
  if (known === undefined) return ok("Clock", here);
  const ahead = known.getTime() - now.getTime();
  if (ahead <= skewMs && !(both && ahead < -skewMs)) return ok("Clock", `${here}, agrees with ${what}`);
  const seconds = Math.round(Math.abs(ahead) / 1000);
  return bad(
    "Clock",
    `${here}, ${seconds} s ${ahead > 0 ? "behind" : "ahead of"} ${what}`,
    "Delays, deadlines and the order of Tasks depend on it. Set it, and keep it synchronised (systemd-timesyncd, chrony).",
  );
};
