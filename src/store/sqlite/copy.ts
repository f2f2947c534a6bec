import { chmodSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { open, statfs } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type Database from "better-sqlite3";
import { StartError } from "../../error.ts";
import type { Log } from "../../log.ts";

const mebibytes = (bytes: number): string => `${Math.ceil(bytes / 2 ** 20)} MiB`;

/** The most that a migration adds to the database, as a share of its size: indexes. */
const growth = 0.1;

/** The name of a copy until it is complete, so that one that was killed is not taken for the old database. */
const partOf = (file: string): string => `${file}.before-part`;

/** Copies of a database with the same schema, from earlier starts that were killed before the migration was over. */
const earlierOf = (file: string, from: string): string[] => {
  const folder = dirname(file);
  const start = `${basename(file)}.before-${from}-`;
  return readdirSync(folder)
    .filter((name) => name.startsWith(start) && /^\d{4}-\d\d-\d\dT[\d.]+Z$/.test(name.slice(start.length)))
    .map((name) => join(folder, name));
};

/**
 * Copies the database before a migration, next to itself, and replaces copies with the same schema. `from`: the newest
 * migration in it. Throws `StartError` if there is no room for the copy and what the migration adds.
 */
export const copyBeside = async (
  database: Database.Database,
  { file, from, now, log }: { file: string; from: string; now: Date; log: Log },
): Promise<void> => {
  const copy = `${file}.before-${from}-${now.toISOString().replaceAll(":", "")}`;
  const part = partOf(file);
  const remove = (paths: readonly string[]): void => {
    for (const path of paths) rmSync(path, { force: true });
  };
  remove([part, `${part}-journal`]);
  const earlier = earlierOf(file, from);
  const sizeOf = (paths: readonly string[]): number =>
    paths.reduce((sum, path) => sum + (statSync(path, { throwIfNoEntry: false })?.size ?? 0), 0);
  const size = sizeOf([file, `${file}-wal`]);
  const wanted = size * (1 + growth);
  const free = async (): Promise<number> => {
    const { bavail, bsize } = await statfs(dirname(file));
    return bavail * bsize;
  };
  // The database has everything that they have. They are removed first only if there is no room for another copy.
  const spare = await free();
  if (spare < wanted && spare + sizeOf(earlier) >= wanted) remove(earlier);
  const room = await free();
  if (room < wanted)
    throw new StartError(
      78,
      `This version changes the schema of the database ${file} and first copies it, which takes ${mebibytes(wanted)}, but only ${mebibytes(room)} are free. Free some space there, and start again.`,
    );
  log.info(
    { copy, size: mebibytes(size) },
    "the schema of the database changes; it is copied first, which may take a minute per 10 GiB",
  );
  await database.backup(part);
  chmodSync(part, 0o600);
  renameSync(part, copy);
  await using folder = await open(dirname(file), "r");
  await folder.sync();
  remove(earlier);
  log.info({ copy }, "the database was copied; its schema is being changed");
};
