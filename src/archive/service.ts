import { randomUUID } from "node:crypto";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Manifest, MissionManifest } from "../domain/view/archive.ts";
import { ServiceError } from "../error.ts";
import type { Secrets } from "../redact.ts";
import type { ArchiveFile } from "../task/tasks.ts";
import type { ArchiveDeps, Archiver } from "./archive.ts";
import { addMission } from "./mission.ts";
import { addTask } from "./task.ts";
import { addText, jsonOf } from "./text.ts";
import { createZip, type Zip } from "./zip.ts";

/** Builds archives, a limited number at a time; `task.ts` and `mission.ts` define their content. */

/** Adds everything to the archive except the manifest, which it resolves to. */
type Fill = (zip: Zip, signal: AbortSignal) => Promise<Manifest | MissionManifest>;

const none: Pick<Secrets, "all" | "isClean"> = { all: (text) => text, isClean: async () => true };

/** See `Archiver`. Temporary files are in the folder `tmp` of `dataDir`. */
export const createArchiver = ({
  dataDir,
  secrets = none,
  ...around
}: Omit<ArchiveDeps, "redact" | "isClean"> & {
  dataDir: string;
  secrets?: Pick<Secrets, "all" | "isClean">;
}): Archiver => {
  const deps: ArchiveDeps = { ...around, redact: secrets.all, isClean: secrets.isClean };
  const { limits } = deps;
  const folder = join(dataDir, "tmp");
  let open = 0;

  const write = async (filename: string, signal: AbortSignal, fill: Fill): Promise<ArchiveFile> => {
    if (open >= limits.archives)
      throw new ServiceError(
        "rate_limited",
        `Expected at most ${limits.archives} archives at once. Try again in a few seconds.`,
        { headers: { "retry-after": "5" } },
      );
    open += 1;
    const path = join(folder, `${randomUUID()}.zip`);
    let held = true;
    const release = async () => {
      if (!held) return;
      held = false;
      open -= 1;
      await rm(path, { force: true });
    };
    const late = AbortSignal.timeout(limits.archiveSeconds * 1000);
    try {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      const bytes = await zipped(path, AbortSignal.any([signal, late]), fill);
      return { path, bytes, filename, [Symbol.asyncDispose]: release };
    } catch (error) {
      await release();
      if (late.aborted && !signal.aborted)
        throw new ServiceError("internal", `The archive was not ready within ${limits.archiveSeconds} seconds.`);
      throw error;
    }
  };

  return {
    ofTask: (state, signal) => write(`${state.taskID}.zip`, signal, (zip, until) => addTask(zip, state, deps, until)),
    ofMission: (state, status, signal) =>
      write(`mission-${state.missionID}.zip`, signal, (zip, until) => addMission(zip, state, status, deps, until)),
  };
};

const zipped = async (path: string, signal: AbortSignal, fill: Fill): Promise<number> => {
  const zip = createZip(path, signal);
  try {
    const manifest = await fill(zip, signal);
    await addText(zip, "execution-flow/manifest.json", await jsonOf(manifest));
    return await zip.finish();
  } finally {
    await zip.close();
  }
};
