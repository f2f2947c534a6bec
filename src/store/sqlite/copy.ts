import { chmodSync, statSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { dirname } from "node:path";
import type Database from "better-sqlite3";
import { StartError } from "../../error.ts";
import type { Log } from "../../log.ts";

const mebibytes = (bytes: number): string => `${Math.ceil(bytes / 2 ** 20)} MiB`;

/** What a migration adds to the database at most, as a part of its size: indexes. */
const growth = 0.1;

/**
 * Copies the database before a migration, next to itself. `from`: the newest migration in it. Throws `StartError` where
 * there is no room for the copy and what the migration adds.
 */
export const copyBeside = async (
  database: Database.Database,
  { file, from, now, log }: { file: string; from: string; now: Date; log: Log },
): Promise<void> => {
  const copy = `${file}.before-${from}-${now.toISOString().replaceAll(":", "")}`;
  const size = [file, `${file}-wal`].reduce(
    (sum, path) => sum + (statSync(path, { throwIfNoEntry: false })?.size ?? 0),
    0,
  );
  const wanted = size * (1 + growth);
  const { bavail, bsize } = await statfs(dirname(file));
  if (bavail * bsize < wanted)
    throw new StartError(
      78,
      `This version changes the schema of the database ${file} and first copies it, which takes ${mebibytes(wanted)}, but only ${mebibytes(bavail * bsize)} are free. Free some space there, and start again.`,
    );
  log.info(
    { copy, size: mebibytes(size) },
    "the schema of the database changes; it is copied first, which may take a minute per 10 GiB",
  );
  await database.backup(copy);
  chmodSync(copy, 0o600);
  log.info({ copy }, "the database was copied; its schema is being changed");
};
