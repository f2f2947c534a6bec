import { randomUUID } from "node:crypto";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { messageOf, StartError } from "../error.ts";
import type { Log } from "../log.ts";
import { type Disk, type DiskOptions, openDisk } from "./disk/disk.ts";
import { lockFolder } from "./lock.ts";
import { sweepOrphanBlobs } from "./blob/sweep.ts";
import { createSqliteStore } from "./sqlite/sqlite.ts";
import type { Store } from "./store.ts";

/** Opens the data folder of a service, and the store with it. */

/**
 * `instance`: the folder's permanent id, by which a service recognises claims and processes of a dead one of the same
 * folder. `disk`: the watch over the folder's disk.
 */
export type Data = AsyncDisposable & { store: Store & { verify?(): Promise<void> }; instance: string; disk: Disk };

type Wanted = Pick<DiskOptions, "dataDir" | "limits"> & { databaseURL: string | undefined };

/**
 * Locks the folder for this process, removes temporary files of an earlier one, and opens the store. Also on a full
 * disk: then it uses the space that is kept back.
 */
export const openData = async ({ dataDir, limits, databaseURL }: Wanted, log: Log): Promise<Data> => {
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
  const store = scope.use(await openStore(databaseURL, { dataDir, instance, space: disk, log }));
  scope.use(forgetKeys(store, log));
  scope.use(sweepOrphanBlobs(store, log));
  const held = scope.move();
  return { store, instance, disk, [Symbol.asyncDispose]: () => held.disposeAsync() };
};

type StoreOptions = { dataDir: string; instance: string; space: Disk; log: Log };

const openStore = async (url: string | undefined, { instance, ...options }: StoreOptions) => {
  if (url === undefined) return createSqliteStore({ file: join(options.dataDir, "sortie.db"), ...options });
  const { createPostgresStore } = await import("./postgres/postgres.ts");
  return createPostgresStore({ url, instance, ...options });
};

/** Resolves if the store finds, while the service runs, that its data is damaged; otherwise never. */
export const watchIntegrity = (store: Data["store"], log: Log): Promise<StartError> =>
  new Promise((resolve) => {
    store.verify?.().catch((error: unknown) => {
      if (error instanceof StartError) resolve(error);
      else log.error({ error: messageOf(error) }, "the database could not be verified");
    });
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
const forgetKeys = (store: Store, log: Log): Disposable => {
  const forget = () => {
    store.forget(new Date(Date.now() - day)).catch((error: unknown) => {
      log.warn({ error: messageOf(error) }, "old idempotency keys could not be forgotten");
    });
  };
  const timer = setInterval(forget, hour);
  timer.unref();
  return { [Symbol.dispose]: () => clearInterval(timer) };
};

const hour = 3_600_000;

const day = 24 * hour;
