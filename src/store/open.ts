import { randomUUID } from "node:crypto";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../clock.ts";
import { messageOf, StartError } from "../error.ts";
import type { Log } from "../log.ts";
import { type Disk, type DiskOptions, openDisk } from "./disk/disk.ts";
import { lockFolder } from "./lock.ts";
import { sweepOrphanBlobs } from "./blob/sweep.ts";
import type { ownDatabase, Ownership } from "./postgres/owner.ts";
import { createSqliteStore } from "./sqlite/sqlite.ts";
import type { Store } from "./store.ts";

/** Opens the data folder of a service, and the store with it. */

/**
 * `instance`: the folder's permanent id, by which a service recognises claims and processes of a dead one of the same
 * folder. `disk`: the watch over the folder's disk. `failure` watches from then on: it resolves when the service has
 * to end, because its data is damaged, or because another one has taken the database.
 */
export type Data = AsyncDisposable & { store: Store; instance: string; disk: Disk; failure: () => Promise<StartError> };

type Wanted = Pick<DiskOptions, "dataDir" | "limits"> & { databaseURL: string | undefined };

/**
 * Locks the folder for this process, and the database if it is a server's, removes temporary files of an earlier one,
 * and opens the store. Also on a full
 * disk: then it uses the space that is kept back.
 */
export const openData = async ({ dataDir, limits, databaseURL }: Wanted, log: Log, now: Clock): Promise<Data> => {
  await mkdir(dataDir, { recursive: true, mode: 0o700 }).catch((error: unknown) => {
    throw new StartError(
      78,
      `The data folder ${dataDir} could not be made: ${messageOf(error)}. Start with another (--data-dir or SERVICE_DATA_DIR).`,
    );
  });
  await using scope = new AsyncDisposableStack();
  scope.use(await lockFolder(dataDir));
  await rm(join(dataDir, "tmp"), { recursive: true, force: true });
  const disk = scope.use(await openDisk({ dataDir, limits, log }));
  const instance = await instanceOf(dataDir);
  const owner =
    databaseURL === undefined ? undefined : scope.use(await own({ url: databaseURL, dataDir, instance, log }));
  const store = scope.use(await openStore(databaseURL, { dataDir, space: disk, log, now }));
  scope.use(forgetKeys(store, log, now));
  scope.use(sweepOrphanBlobs(store, log));
  const held = scope.move();
  const failure = () => owner?.lost ?? watchIntegrity(store, log);
  return { store, instance, disk, failure, [Symbol.asyncDispose]: () => held.disposeAsync() };
};

type StoreOptions = { dataDir: string; space: Disk; log: Log; now: Clock };

const openStore = async (url: string | undefined, options: StoreOptions) => {
  if (url === undefined) return createSqliteStore({ file: join(options.dataDir, "sortie.db"), ...options });
  const { createPostgresStore } = await import("./postgres/postgres.ts");
  return createPostgresStore({ url, alone: true, ...options });
};

const own = async (options: Parameters<typeof ownDatabase>[0]): Promise<Ownership> => {
  const { ownDatabase } = await import("./postgres/owner.ts");
  return ownDatabase(options);
};

/** Resolves if the store finds, while the service runs, that its data is damaged; otherwise never. */
const watchIntegrity = (store: Store & { verify?(): Promise<void> }, log: Log): Promise<StartError> =>
  new Promise((resolve) => {
    const verify = () =>
      store.verify?.().catch((error: unknown) => {
        if (error instanceof StartError) return resolve(error);
        log.warn({ error: messageOf(error) }, "the database could not be verified; tried again in a minute");
        setTimeout(() => void verify(), 60_000).unref();
      });
    void verify();
  });

const instanceOf = async (dataDir: string): Promise<string> => {
  const file = join(dataDir, "instance");
  const known = await readFile(file, "utf8").catch(() => "");
  if (known !== "") return known;
  const made = randomUUID();
  await writeFile(file, made, { mode: 0o600 });
  return made;
};

/** Idempotency keys are kept for a day, as documented, and deleted within the hour after that. */
const forgetKeys = (store: Store, log: Log, now: Clock): Disposable => {
  const forget = () => {
    store.forget(new Date(now().getTime() - day)).catch((error: unknown) => {
      log.warn({ error: messageOf(error) }, "old idempotency keys could not be forgotten");
    });
  };
  const timer = setInterval(forget, hour);
  timer.unref();
  return { [Symbol.dispose]: () => clearInterval(timer) };
};

const hour = 3_600_000;

const day = 24 * hour;
