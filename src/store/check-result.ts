import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { messageOf } from "../error.ts";
import { createKeyedMutex } from "../async/mutex.ts";
import type { Log } from "../log.ts";
import { blobRef } from "../protocol/text.ts";

/**
 * The results of checks on a tree, kept across Tasks, one file each in the data folder. Nothing depends on a kept
 * result: if it is missing, the check runs again. A result is trusted for a day, because the machine around the tree
 * may change.
 */

const keptResult = z.object({
  state: z.enum(["passed", "failed", "error"]),
  exitCode: z.number().nullable(),
  durationMs: z.number(),
  tail: z.string(),
  reason: z.string().nullable(),
  flaky: z.literal(true).exactOptional(),
  unfinished: z.literal(true).exactOptional(),
  log: blobRef,
  ranFor: z.string(),
});

export type KeptResult = z.infer<typeof keptResult>;

/** Keys are hashes of everything that the result depends on. */
export interface CheckResults {
  find(key: string): KeptResult | undefined;
  keep(key: string, result: KeptResult): void;
  forget(key: string): void;
  /** The right to find out the result of a key; one holder at a time. */
  turn(key: string, signal: AbortSignal): Promise<Disposable>;
}

const dayMs = 24 * 3600_000;
/** The number of files above which the oldest are removed. */
const most = 2000;

export const createCheckResults = (folder: string, now: () => Date, log: Log): CheckResults => {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const fileOf = (key: string) => join(folder, `${key}.json`);
  let count = readdirSync(folder).length;

  const removeOld = () => {
    const files = readdirSync(folder)
      .map((name) => ({ path: join(folder, name), at: statSync(join(folder, name)).mtimeMs }))
      .toSorted((one, other) => one.at - other.at);
    for (const { path } of files.slice(0, files.length - most / 2)) rmSync(path, { force: true });
    count = Math.min(files.length, most / 2);
  };

  return {
    find(key) {
      try {
        const path = fileOf(key);
        if (now().getTime() - statSync(path).mtimeMs > dayMs) return undefined;
        return keptResult.safeParse(JSON.parse(readFileSync(path, "utf8"))).data;
      } catch {
        return undefined;
      }
    },
    keep(key, result) {
      try {
        const draft = join(folder, `${key}.${process.pid}.tmp`);
        writeFileSync(draft, JSON.stringify(result), { mode: 0o600 });
        renameSync(draft, fileOf(key));
        count += 1;
        if (count > most) removeOld();
      } catch (error) {
        log.debug({ error: messageOf(error) }, "the result of a check was not kept");
      }
    },
    forget(key) {
      rmSync(fileOf(key), { force: true });
    },
    turn: createKeyedMutex(),
  };
};
