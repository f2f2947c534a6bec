import { randomUUID } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Clock } from "../clock.ts";
import { messageOf, StartError } from "../error.ts";
import type { Log } from "../log.ts";
import type { Limits } from "../protocol/limit.ts";
import { type Disk, type DiskOptions, openDisk } from "./disk/disk.ts";
import { lockFolder } from "./lock.ts";
import { undefinedIfMissing, createBlobs, temporaryFolder } from "./blob/folder.ts";
import { fromFolder, hasBlobs } from "./blob/move.ts";
import { placeBlobs } from "./blob/place.ts";
import type { S3Place } from "./blob/s3.ts";
import { sweepOrphanBlobs } from "./blob/sweep.ts";
import type { Role } from "./node.ts";
import type { joinDatabase, Membership } from "./postgres/node/member.ts";
import type { createPostgresStore } from "./postgres/postgres.ts";
import type { Held } from "./postgres/node/held-lock.ts";
import type { ownDatabase } from "./postgres/node/owner.ts";
import type { RunningBounds } from "./running.ts";
import { createSqliteStore } from "./sqlite/sqlite.ts";
import type { BlobMove, Blobs, Store } from "./store.ts";

/** Opens the data folder of a service, and the store with it. */

/**
 * `instance`: the folder's permanent id, by which a service recognises claims and processes that a dead service of the
 * same folder left. `disk`: watches the folder's disk. `failure`: starts watching when called, and resolves when the
 * service has to end, because its data is damaged or another service has taken the database.
 */
export type Data = AsyncDisposable & {
  store: Store;
  instance: string;
  disk: Disk;
  /** The clock of everything that is written or due. */
  now: Clock;
  /** This service among those of the database; undefined: there are no others. */
  member: Pick<Membership, "name" | "report" | "nodes" | "drain" | "drained" | "key" | "now" | "squads"> | undefined;
  failure: () => Promise<StartError>;
  /** The open connections to the database's server, by what they are for; none where there is no server. */
  connections: () => Readonly<Record<string, number>>;
};

type Wanted = Pick<DiskOptions, "dataDir"> & {
  limits: DiskOptions["limits"] & Pick<Limits, "running" | "runningPerProject">;
  databaseURL: string | undefined;
  /** Bypasses a pooler, for work that needs a connection of its own; undefined: `databaseURL`. */
  databaseDirectURL: string | undefined;
  /** undefined: in the database, if it is a server's and the folder has no blobs. */
  blobs: "folder" | "database" | S3Place | undefined;
  /** The name of this service among those of the database; undefined: it is named after its data folder. */
  node: string | undefined;
  version: string;
  /** "local": no other service may use the database, and a service without a name does not become a node. */
  engine: "dbos" | "local";
  role: Role;
  /** Removes a folder, whatever state programs left it in; rejects when something had to stay. */
  removeTree: (path: string) => Promise<void>;
};

/**
 * Locks the folder for this process, and the database if it is a server's, removes temporary files of an earlier
 * process, and opens the store. On a full disk, it uses the reserve. `locked`: called once this process holds the
 * folder.
 */
export const openData = async (
  wanted: Wanted,
  log: Log,
  clock: Clock,
  locked: () => void = () => {},
): Promise<Data> => {
  const { dataDir, limits, databaseURL } = wanted;
  const directURL = wanted.databaseDirectURL ?? databaseURL;
  await mkdir(dataDir, { recursive: true, mode: 0o700 }).catch((error: unknown) => {
    throw new StartError(
      78,
      `The data folder ${dataDir} could not be made: ${messageOf(error)}. Start with another (--data-dir or SERVICE_DATA_DIR).`,
    );
  });
  await using scope = new AsyncDisposableStack();
  scope.use(await lockFolder(dataDir));
  locked();
  for (const left of [join(dataDir, "tmp"), join(dataDir, "blobs", temporaryFolder)])
    await wanted.removeTree(left).catch((error: unknown) =>
      // The next start tries again.
      log.warn({ error: messageOf(error) }, "temporary files of an earlier service could not be removed"),
    );
  const disk = scope.use(await openDisk({ dataDir, limits, log }));
  const instance = await instanceOf(dataDir);
  const isFilled = await hasBlobs(join(dataDir, "blobs"));
  const place = await placeForBlobs(wanted.blobs, directURL, isFilled);
  const blobs = typeof place === "string" ? place : await openBucket(place, instance, scope);
  const member =
    directURL === undefined || (wanted.engine === "local" && wanted.node === undefined)
      ? undefined
      : scope.use(
          await joinNodes({
            url: directURL,
            name: wanted.node ?? nameOf(dataDir, instance),
            dataDir,
            instance,
            version: wanted.version,
            sole: wanted.engine === "local" ? "engine" : place === "folder" ? "blobs" : isFilled ? "moving" : undefined,
            role: wanted.role,
            clock,
            log,
          }),
        );
  const owner =
    directURL === undefined || member !== undefined
      ? undefined
      : scope.use(await own({ url: directURL, dataDir, instance, log }));
  const now = member?.now ?? clock;
  const store = scope.use(
    databaseURL === undefined
      ? await createSqliteStore({
          file: join(dataDir, "sortie.db"),
          dataDir,
          space: disk,
          log,
          now,
          bounds: boundsOf(limits),
          ...(typeof blobs === "string" ? {} : { placed: scope.use(await placeInBucket(dataDir, blobs, log)) }),
        })
      : await openPostgres({
          url: databaseURL,
          directURL,
          dataDir,
          blobs,
          space: disk,
          log,
          bounds: boundsOf(limits),
          // Nodes use the database's clock.
          ...(member === undefined
            ? { alone: true, now }
            : { node: { name: member.name, instance, turn: member.turn } }),
        }),
  );
  scope.use(forgetKeys(store, log, now));
  scope.use(sweepOrphanBlobs(store, log));
  if (member !== undefined && store.blobMove !== undefined) shareOnceMoved(store.blobMove, member, log);
  const held = scope.move();
  const failure = () => member?.lost ?? owner?.lost ?? watchIntegrity(store, log);
  const lock = member ?? owner;
  const connections = () => ({
    ...store.connections?.(),
    ...(lock === undefined ? {} : { lock: lock.client() === undefined ? 0 : 1 }),
  });
  return { store, instance, disk, now, member, failure, connections, [Symbol.asyncDispose]: () => held.disposeAsync() };
};

const boundsOf = ({ running: all, runningPerProject: project }: Wanted["limits"]): RunningBounds | undefined =>
  all === 0 && project === 0 ? undefined : { all, project };

/** Where blobs are kept; those in a folder stay there until they are moved. */
const placeForBlobs = async (
  given: Wanted["blobs"],
  url: string | undefined,
  isFilled: boolean,
): Promise<"folder" | "database" | S3Place> => {
  if (given !== undefined && given !== "folder") return given;
  if (url === undefined) return "folder";
  if (given === undefined && !isFilled) return "database";
  if (!(await areInDatabase(url))) return "folder";
  if (given === undefined) return "database";
  throw new StartError(
    78,
    "SERVICE_BLOBS=folder does not find the blobs that this database has. Unset it, or set SERVICE_BLOBS=database.",
  );
};

const areInDatabase = async (url: string): Promise<boolean> => {
  const { hasDatabaseBlobs } = await import("./postgres/blob.ts");
  const { startErrorOf } = await import("./postgres/node/not-started.ts");
  return hasDatabaseBlobs(url).catch((error: unknown) => {
    throw startErrorOf(error);
  });
};

/** The name of a service that nobody named: that of its data folder, made unique. */
const nameOf = (dataDir: string, instance: string): string => {
  const folder = basename(dataDir)
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]+/g, "-")
    .replace(/^[._-]+/, "")
    .slice(0, 40);
  return `${folder === "" ? "sortie" : folder}-${instance.slice(0, 8)}`;
};

const openBucket = async (place: S3Place, instance: string, scope: AsyncDisposableStack): Promise<Blobs> => {
  const { createS3Blobs, expectBucket } = await import("./blob/s3.ts");
  const stop = new AbortController();
  scope.defer(() => stop.abort());
  await expectBucket(place, instance, stop.signal);
  return createS3Blobs(place, stop.signal);
};

const placeInBucket = async (dataDir: string, bucket: Blobs, log: Log) => {
  const folder = join(dataDir, "blobs");
  const [source, target] = [fromFolder(folder), () => Promise.resolve(bucket)];
  return placeBlobs({ folder: createBlobs(folder), source, target, to: "s3", isBegun: true, log });
};

const openPostgres = async (options: Parameters<typeof createPostgresStore>[0]): Promise<Store> => {
  const { createPostgresStore: create } = await import("./postgres/postgres.ts");
  const { isPassing } = await import("./postgres/fault.ts");
  const { startErrorOf } = await import("./postgres/node/not-started.ts");
  return create(options).catch((error: unknown) => {
    throw isPassing(error) ? startErrorOf(error) : error;
  });
};

const joinNodes = async (options: Parameters<typeof joinDatabase>[0]): Promise<Membership> => {
  const { joinDatabase } = await import("./postgres/node/member.ts");
  return joinDatabase(options);
};

const own = async (options: Parameters<typeof ownDatabase>[0]): Promise<Held> => {
  const { ownDatabase } = await import("./postgres/node/owner.ts");
  return ownDatabase(options);
};

/** Admits other services to the database once they can read all of its blobs. */
const shareOnceMoved = (move: BlobMove, { share }: Membership, log: Log): void => {
  void move.over.then(share).catch((error: unknown) => {
    log.warn({ error: messageOf(error) }, "other nodes are refused until the next start, though the blobs have moved");
  });
};

/** Resolves if the store finds, while the service runs, that its data is damaged; otherwise never. */
const watchIntegrity = (store: Store & { verify?(): Promise<void> }, log: Log): Promise<StartError> =>
  new Promise((resolve) => {
    const verify = () =>
      store.verify?.().catch((error: unknown) => {
        if (error instanceof StartError) return resolve(error);
        log.warn({ error: messageOf(error) }, "the database could not be verified; retrying in a minute");
        setTimeout(() => void verify(), 60_000).unref();
      });
    void verify();
  });

const instanceOf = async (dataDir: string): Promise<string> => {
  const file = join(dataDir, "instance");
  const known = (await readFile(file, "utf8").catch(undefinedIfMissing)) ?? "";
  if (known !== "") return known;
  const made = randomUUID();
  await writeFile(file, made, { mode: 0o600 });
  return made;
};

/** Idempotency keys are kept for a day, as documented, and deleted within the hour after that. */
const forgetKeys = (store: Store, log: Log, now: Clock): Disposable => {
  const forget = () => {
    store.forget(new Date(now().getTime() - day)).catch((error: unknown) => {
      log.warn({ error: messageOf(error) }, "old idempotency keys could not be removed");
    });
  };
  const timer = setInterval(forget, hour);
  timer.unref();
  return { [Symbol.dispose]: () => clearInterval(timer) };
};

const hour = 3_600_000;

const day = 24 * hour;
