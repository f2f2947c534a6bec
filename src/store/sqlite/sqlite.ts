import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { Kysely, sql } from "kysely";
import type { StreamID } from "../../domain/event.ts";
import { messageOf, StartError } from "../../error.ts";
import type { Log } from "../../log.ts";
import type { StoredView } from "../batch/batch.ts";
import { type Claimed, claimMember, commitMember, eraseMember, releaseMember } from "../batch/member.ts";
import { createBlobs } from "../blob/folder.ts";
import { createHeldClaims } from "../batch/held-claim.ts";
import { type Space, unwatchedSpace } from "../disk/disk.ts";
import { unreadable, withErrors } from "../unavailable.ts";
import { createDiskSync, type DiskSync } from "./disk-sync.ts";
import { notStarted, openFile, orStartError } from "./file.ts";
import { createCommitSignal, createFollow } from "../feed/follow.ts";
import { createCache } from "../sql/fold-cache.ts";
import { type Fold, isMissionFold, isTaskFold } from "../sql/fold.ts";
import { createLists } from "../sql/list/list.ts";
import { createOverview } from "../sql/list/overview.ts";
import { countProjects } from "../sql/list/project-count.ts";
import { keepTextIndex } from "../sql/list/text-upkeep.ts";
import { createLive } from "../feed/live.ts";
import { migrate } from "../sql/migration/migrate.ts";
import { createOrphanBlobs } from "../sql/orphan-blob.ts";
import { createQueue } from "../sql/due.ts";
import { createEventReads, createReads } from "../sql/read.ts";
import { type Reader, readerOn } from "../sql/reader.ts";
import { type Atomically, removeInSteps } from "../sql/write.ts";
import type { Tables } from "../sql/schema.ts";
import { prepareStatements } from "./statement.ts";
import { createTransactions } from "./transaction.ts";
import { patientDialect, setPatience } from "./busy.ts";
import type { Full, RunningBounds } from "../running.ts";
import type { BlobMove, Blobs, Store } from "../store.ts";
import { copyBeside } from "./copy.ts";
import { quickCheck } from "./integrity.ts";
import { eventsAtOnce, withNearReads } from "./near-read.ts";
import { createReader, type ThreadReader } from "./reader.ts";
import { createRecentEvents } from "./recent.ts";
import { createWebhooks } from "../sql/webhook.ts";

export type SqliteStore = Store & {
  /**
   * Checks the whole file after an unclean stop, in a separate process, which ends with the store; resolves at once
   * after a clean one. Rejects with `StartError`, exit code 70, if it is damaged.
   */
  verify(): Promise<void>;
};

/** Changed pages after which a checkpoint of the write-ahead log is due; SQLite's own default. */
const checkpointPages = 1000;
/** If no checkpoint could be made until this many pages have changed, one is made within a commit. */
const latePages = 16_000;
/** A transaction changes about eight pages, and those of its events' data. */
const pagesOf = (bytes: number): number => 8 + bytes / 4096;
/** The most bytes that a step of background work changes. */
const stepBytes = 256 * 1024;

type Options = {
  file: string;
  dataDir: string;
  log: Log;
  disk?: DiskSync;
  space?: Space;
  now?: () => Date;
  /** How many Tasks may run at the same time; undefined: any number. */
  bounds?: RunningBounds | undefined;
  /** Where blobs are kept, if not in the data folder. */
  placed?: { blobs: Blobs; move: BlobMove };
};

/**
 * The store on SQLite: one process, one connection that writes, and one for slow reads. The caller holds the lock on
 * the data folder (store/lock.ts), so caches need no invalidation.
 */
export const createSqliteStore = async (options: Options): Promise<SqliteStore> => {
  const { file, dataDir, log, space = unwatchedSpace, now = () => new Date(), bounds } = options;
  const inMemory = file === ":memory:";
  await using scope = new AsyncDisposableStack();
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const database = scope.adopt(
    orStartError(file, () => openFile(file)),
    (opened) => void opened.close(),
  );
  const disk = scope.adopt(options.disk ?? createDiskSync(file), (opened) => opened.close());
  const db = new Kysely<Tables>({ dialect: patientDialect(database, disk) });
  await migrate(db, "sqlite", async (from) => {
    if (!inMemory) await copyBeside(database, { file, from, now: now(), log });
  }).catch((error: unknown) => {
    throw notStarted(file, error);
  });
  const reader: Reader & Partial<ThreadReader> = inMemory
    ? readerOn(db)
    : scope.use(createReader({ file, log, broken: (error) => transactions.stop(error) }));

  const rows = orStartError(file, () => prepareStatements(database));
  let { position, clean } = orStartError(file, () => rows.log());
  const unclean = clean === 0;
  const cache = createCache();
  const commits = createCommitSignal();
  const held = createHeldClaims();
  const recent = createRecentEvents(position);
  let changedPages = 0;
  const pagesChanged = (pages: number): void => {
    changedPages += pages;
    if (changedPages <= checkpointPages) return;
    changedPages = 0;
    reader.checkpoint?.();
  };
  orStartError(file, () => {
    rows.begin();
    rows.markOpen();
    rows.freeAll(now());
    rows.commit();
    setPatience(database, false);
    // From now on, writers wait for the disk with `disk`, and checkpoints are made in the reader's thread unless that
    // fails for long.
    database.pragma("synchronous = NORMAL");
    database.pragma(`wal_autocheckpoint = ${latePages}`);
  });

  const stateOf = (stream: StreamID): Fold | undefined => {
    const found = cache.get(stream);
    if (found !== undefined) return found;
    const state = rows.state(stream);
    if (state !== undefined) cache.set(state);
    return state;
  };
  /** The fold for reads, which reject with `unreadable`. */
  const foldOf = (stream: StreamID): Fold | undefined => {
    try {
      return stateOf(stream);
    } catch (error) {
      throw unreadable(error);
    }
  };
  const base: StoredView = {
    position: () => position,
    head: rows.head,
    state: stateOf,
    named: rows.named,
    answer: (id) => rows.answer(id),
    running: rows.running,
    project: rows.project,
  };

  const transactions = createTransactions({
    database,
    rows,
    view: base,
    disk,
    space,
    log,
    now,
    applied(batch, bytes) {
      position = batch.position;
      recent.add(batch, bytes);
      pagesChanged(pagesOf(bytes));
      if (batch.titles.size + batch.erased.size > 0) texts.wake();
      for (const stream of batch.erased) cache.delete(stream);
      for (const state of batch.states.values()) cache.set(state);
    },
    told(batch) {
      for (const stream of batch.revoked) held.lose(stream);
      if (batch.events.length + batch.erased.size > 0) commits.ring(new Set(batch.states.keys()), batch.erased);
    },
  });
  const { submit } = transactions;
  /** For background work. */
  const lazily: Atomically = async (queries) => {
    await transactions.lazily(queries);
    pagesChanged(pagesOf(stepBytes));
  };
  const counting = scope.use(countProjects({ db, kind: "sqlite", atomically: lazily, log }));
  const texts = scope.use(keepTextIndex({ db, reader, atomically: lazily, log }));
  const stopping = new AbortController();
  let closing = false;

  /**
   * A full disk must not leave a stream claimed by nobody: retries until it succeeds. After a stop, the next start
   * frees the claim.
   */
  const release = async (stream: StreamID, claimed: Claimed, unfinished: boolean): Promise<void> => {
    try {
      await submit(releaseMember(stream, claimed, unfinished), { urgent: true });
    } catch (error) {
      if (!transactions.writes()) return;
      log.warn({ stream, error: messageOf(error) }, "a claim could not be released yet");
      setTimeout(() => void release(stream, claimed, unfinished), 1000).unref();
    }
  };

  const state = async (stream: StreamID) => {
    const fold = foldOf(stream);
    return fold !== undefined && isTaskFold(fold) ? fold : undefined;
  };
  const mission = async (stream: StreamID) => {
    const fold = foldOf(stream);
    return fold !== undefined && isMissionFold(fold) ? fold : undefined;
  };
  const events = withNearReads({
    here: createEventReads(db, readerOn(db), "sqlite", eventsAtOnce),
    apart: createEventReads(db, reader, "sqlite"),
    recent,
    rows,
    position: () => position,
  });
  const queue = createQueue(db);
  const reads = withErrors(
    {
      ...createReads(db),
      ...afterwards(
        {
          ...createLists(db, reader, "sqlite", { state, mission }),
          overview: createOverview(db, reader, "sqlite", { state, mission }),
        },
        transactions.onDisk,
      ),
      ...queue,
      ...events,
      // Prepared statements for the queries that followers, the engine and every POST repeat.
      due: async (at: Date, limit: number, full?: Full) =>
        full === undefined ? rows.due(at.getTime(), limit) : queue.due(at, limit, full),
      nextDue: async () => rows.nextDue(),
      waiting: async () => rows.waiting(),
    },
    unreadable,
  );
  const store: SqliteStore = {
    kind: "sqlite",
    ...(bounds === undefined ? {} : { bounds }),
    blobs: options.placed?.blobs ?? createBlobs(join(dataDir, "blobs"), space),
    ...(options.placed === undefined ? {} : { blobMove: options.placed.move }),
    live: createLive(),
    webhooks: createWebhooks(db, reader, transactions.atomically),
    redact: (text) => text,
    ...reads,
    state,
    mission,
    position: async () => position,
    commit: (data) => submit(commitMember(data), data),
    async claim(stream, worker, urgent = false) {
      const claimed = await submit(claimMember(stream, worker, null, { bounds }), { urgent });
      if (claimed === undefined) return undefined;
      const claim = held.add(stream, claimed, performance.now(), (unfinished) => release(stream, claimed, unfinished));
      // The claim may have been revoked in the same transaction.
      if (rows.head(stream)?.epoch !== claimed.epoch) held.lose(stream, claimed.epoch);
      return claim;
    },
    follow: createFollow(commits, { since: reads.since, position: async () => position }),
    orphans: createOrphanBlobs(db, reader, "sqlite", lazily, space),
    erase: (stream, expected) => submit(eraseMember(stream, expected), { urgent: true }),
    async forget(before) {
      await removeInSteps(db, readerOn(db), "answers", sql`at < ${before.getTime()}`);
    },
    async check() {
      transactions.check();
    },
    async verify() {
      if (!unclean || inMemory) return;
      const damage = await quickCheck(file, stopping.signal);
      if (damage === undefined) return;
      transactions.stop(new Error(damage));
      throw new StartError(
        70,
        `The database ${file} is damaged: ${damage}. Nothing was changed. Restore a backup, or start with another data folder.`,
      );
    },
    async [Symbol.asyncDispose]() {
      if (closing) return;
      closing = true;
      const ended = [counting, texts].map((steps) => steps[Symbol.asyncDispose]());
      const whole = transactions.close();
      commits.close();
      stopping.abort();
      // A read under way would keep the write-ahead log from being written back.
      await reader[Symbol.asyncDispose]?.();
      await Promise.all(ended);
      if (whole) {
        try {
          database.pragma("synchronous = FULL");
          rows.markClean();
          database.pragma("wal_checkpoint(TRUNCATE)");
        } catch (error) {
          log.warn({ error: messageOf(error) }, "the database is not closed cleanly; the next start checks it");
        }
      }
      await owned.disposeAsync();
    },
  };
  const owned = scope.move();
  return store;
};

/** The same reads, each of which waits after reading, before it answers. */
const afterwards = <Reads extends object>(reads: Reads, wait: () => Promise<void>): Reads =>
  Object.fromEntries(
    (Object.entries(reads) as [string, (...given: unknown[]) => Promise<unknown>][]).map(([name, read]) => [
      name,
      async (...given: unknown[]) => {
        const found = await read(...given);
        await wait();
        return found;
      },
    ]),
  ) as Reads;
