import { randomUUID } from "node:crypto";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { messageOf, StartError } from "../error.ts";
import type { Log } from "../log.ts";
import { lockFolder } from "./lock.ts";
import { sweepOrphanBlobs } from "./blob/sweep.ts";
import { createSqliteStore } from "./sqlite/sqlite.ts";
import type { Store } from "./store.ts";

/** The data folder of one service, and the store that goes with it. */

/** `instance`: the folder's own name, made once; what a dead service of this folder held is known by it. */
export type Data = AsyncDisposable & { store: Store & { verify?(): Promise<void> }; instance: string };

/** Takes the folder for this process alone, drops what an earlier one left half done, and opens the store. */
export const openData = async (
  { dataDir, databaseURL }: { dataDir: string; databaseURL: string | undefined },
  log: Log,
): Promise<Data> => {
  await mkdir(dataDir, { recursive: true, mode: 0o700 }).catch((error: unknown) => {
    throw new StartError(
      78,
      `The data folder ${dataDir} could not be made: ${messageOf(error)}. Start with another (--data-dir or SERVICE_DATA_DIR).`,
    );
  });
  await using scope = new AsyncDisposableStack();
  scope.use(await lockFolder(dataDir));
  await rm(join(dataDir, "tmp"), { recursive: true, force: true });
  const instance = await instanceOf(dataDir);
  const store = scope.use(await openStore(databaseURL, dataDir, instance, log));
  scope.use(forgetKeys(store, log));
  scope.use(sweepOrphanBlobs(store, log));
  const held = scope.move();
  return { store, instance, [Symbol.asyncDispose]: () => held.disposeAsync() };
};

const openStore = async (url: string | undefined, dataDir: string, instance: string, log: Log) => {
  if (url === undefined) return createSqliteStore({ file: join(dataDir, "sortie.db"), dataDir, log });
  const { createPostgresStore } = await import("./postgres/postgres.ts");
  return createPostgresStore({ url, dataDir, instance, log });
};

/** Resolves when the store finds, while the service works, that what it holds cannot be trusted. */
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

/** Idempotency keys are kept a day, as promised, and forgotten within the hour after. */
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
