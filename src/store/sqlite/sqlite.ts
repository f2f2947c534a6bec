import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type Database from "better-sqlite3";
import { Kysely, sql, SqliteDialect } from "kysely";
import type { StreamID } from "../../domain/event.ts";
import { messageOf, StartError } from "../../error.ts";
import type { Log } from "../../log.ts";
import { type StoredView, type Changes, isEmpty, type BatchMember, noChanges, runMember } from "../batch/batch.ts";
import { type Claimed, claimMember, commitMember, eraseMember, releaseMember } from "../batch/member.ts";
import { createBlobs } from "../blob/folder.ts";
import { createHeldClaims } from "../batch/held-claim.ts";
import { type Space, unwatched } from "../disk/disk.ts";
import { DiskFull, isFull } from "../disk/full.ts";
import { unavailable, unreadable, withErrors } from "../unavailable.ts";
import { isFatal, notStarted, openFile, starting } from "./file.ts";
import { createCommitSignal, createFollow } from "../feed/follow.ts";
import { createCache } from "../sql/fold-cache.ts";
import { type Fold, isMissionFold, isTaskFold } from "../sql/fold.ts";
import { createLists } from "../sql/list.ts";
import { createLive } from "../feed/live.ts";
import { migrate } from "../sql/migration/migrate.ts";
import { createOrphanBlobs } from "../sql/orphan-blob.ts";
import { createQueue } from "../sql/due.ts";
import { createEventReads, createReads } from "../sql/read.ts";
import { type Reader, readerOn } from "../sql/reader.ts";
import { type Atomically, removeInSteps } from "../sql/write.ts";
import type { Tables } from "../sql/schema.ts";
import { prepareStatements } from "./statement.ts";
import type { Store } from "../store.ts";
import { copyBeside } from "./copy.ts";
import { quickCheck } from "./integrity.ts";
import { withNearReads } from "./near.ts";
import { createReader } from "./reader.ts";
import { createWebhooks } from "../sql/webhook.ts";

export type SqliteStore = Store & {
  /**
   * Checks the whole file after an unclean stop, in a separate process, which ends with the store; resolves at once after
   * a clean one. Rejects with `StartError`, exit code 70, if it is damaged.
   */
  verify(): Promise<void>;
};

type Options = { file: string; dataDir: string; log: Log; space?: Space; now?: () => Date };

/**
 * The store on SQLite: one process, one connection that writes, and one for slow reads. The caller holds the lock on the data folder (store/lock.ts), so
 * caches need no invalidation.
 */
export const createSqliteStore = async (options: Options): Promise<SqliteStore> => {
  const { file, dataDir, log, space = unwatched, now = () => new Date() } = options;
  const inMemory = file === ":memory:";
  await using scope = new AsyncDisposableStack();
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const database = scope.adopt(
    starting(file, () => openFile(file)),
    (opened) => void opened.close(),
  );
  const db = new Kysely<Tables>({ dialect: new SqliteDialect({ database }) });
  await migrate(db, "sqlite", async (from) => {
    if (!inMemory) await copyBeside(database, { file, from, now: now(), log });
  }).catch((error: unknown) => {
    throw notStarted(file, error);
  });
  const reader: Reader & Partial<AsyncDisposable> = inMemory ? readerOn(db) : scope.use(createReader({ file, log }));

  const rows = starting(file, () => prepareStatements(database));
  let { position, clean } = starting(file, () => rows.log());
  const unclean = clean === 0;
  const cache = createCache();
  const commits = createCommitSignal();
  const held = createHeldClaims();
  starting(file, () => {
    rows.begin();
    rows.markOpen();
    rows.freeAll(now().getTime());
    rows.commit();
  });

  const stateOf = (stream: StreamID): Fold | undefined => {
    const found = cache.get(stream);
    if (found !== undefined) return found;
    const state = rows.state(stream);
    if (state !== undefined) cache.set(state);
    return state;
  };
  /** The same for those who read. */
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
  };

  // ---- one transaction per tick -------------------------------------------------------------------------------------

  type Waiting = { urgent: boolean; run(batch: Changes, at: Date): void; settle(): void; fail(error: unknown): void };
  let waiting: Waiting[] = [];
  let closed = false;
  const stopping = new AbortController();
  /** Why the last transaction failed; `check` tries again. */
  let failing: unknown;
  /** The file is damaged or a sync failed: its content is unknown, so nothing more is written. */
  let broken: unknown;

  const submit = <T>(member: BatchMember<T>, urgent = false): Promise<T> =>
    new Promise<T>((resolve, reject) => {
      if (closed) return reject(unavailable(new Error("the store is closed")));
      if (broken !== undefined) return reject(unavailable(broken));
      let settle = () => {};
      waiting.push({
        urgent,
        run(batch, at) {
          try {
            const value = runMember(member, base, batch, at);
            settle = () => resolve(value);
          } catch (error) {
            settle = () => reject(error);
          }
        },
        settle: () => settle(),
        fail: reject,
      });
      if (waiting.length === 1) setImmediate(flush);
    });

  const flush = (): void => {
    const members = waiting;
    waiting = [];
    const refused = space.isKept() ? members.filter(({ urgent }) => !urgent) : [];
    for (const member of refused) member.fail(unavailable(new DiskFull()));
    transact(refused.length === 0 ? members : members.filter(({ urgent }) => urgent));
  };

  const transact = (members: readonly Waiting[]): void => {
    if (members.length === 0) return;
    if (closed || broken !== undefined) {
      for (const member of members) member.fail(unavailable(broken ?? new Error("the store is closed")));
      return;
    }
    const at = now();
    const batch = noChanges(position);
    try {
      for (const member of members) member.run(batch, at);
      if (!isEmpty(batch)) write(batch, at);
    } catch (error) {
      failing = error;
      if (isFatal(error)) broken = error;
      log.error({ error: messageOf(error), members: members.length }, "a transaction failed; nothing of it was kept");
      space.report(error);
      const urgent = isFull(error) ? members.filter((member) => member.urgent) : [];
      for (const member of members) if (!urgent.includes(member)) member.fail(unavailable(error));
      if (urgent.length > 0) void withReserve(urgent, error);
      return;
    }
    failing = undefined;
    position = batch.position;
    for (const stream of batch.erased) cache.delete(stream);
    for (const state of batch.states.values()) cache.set(state);
    for (const member of members) member.settle();
    for (const stream of batch.revoked) held.lose(stream);
    if (batch.events.length + batch.erased.size > 0) commits.ring(new Set(batch.states.keys()), batch.erased);
  };

  /** On a full disk: once more, with a part of the space that is kept back. */
  const withReserve = async (members: readonly Waiting[], error: unknown): Promise<void> => {
    if (await space.giveUp()) transact(members);
    else for (const member of members) member.fail(unavailable(error));
  };

  /** Returns when the transaction is on disk. */
  const write = (batch: Changes, at: Date): void => {
    rows.begin();
    try {
      rows.save(batch, at);
      rows.commit();
    } catch (error) {
      // On a full disk, SQLite may have rolled back already.
      if (database.inTransaction) rows.rollback();
      throw error;
    }
  };

  const atomically: Atomically = async (queries) => {
    if (closed || broken !== undefined) throw unavailable(broken ?? new Error("the store is closed"));
    if (space.isKept()) throw unavailable(new DiskFull());
    const prepared = new Map<string, Database.Statement>();
    rows.begin();
    try {
      for (const { sql, parameters } of queries) {
        const statement = prepared.get(sql) ?? database.prepare(sql);
        prepared.set(sql, statement);
        statement.run(...parameters);
      }
      rows.commit();
    } catch (error) {
      if (database.inTransaction) rows.rollback();
      throw unavailable(error);
    }
  };

  /** Rows that can be found out again: a crash of the machine may lose what came last, and nothing waits for the disk. */
  const lazily: Atomically = (queries) => {
    database.pragma("synchronous = NORMAL");
    const done = atomically(queries);
    database.pragma("synchronous = FULL");
    return done;
  };

  /**
   * A full disk must not leave a stream claimed by nobody: retries until it succeeds. After a stop, the next start
   * frees it.
   */
  const release = async (stream: StreamID, claimed: Claimed): Promise<void> => {
    try {
      await submit(releaseMember(stream, claimed), true);
    } catch (error) {
      if (closed || broken !== undefined) return;
      log.warn({ stream, error: messageOf(error) }, "a claim could not be given back yet");
      setTimeout(() => void release(stream, claimed), 1000).unref();
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
    here: createEventReads(db, readerOn(db), "sqlite"),
    apart: createEventReads(db, reader, "sqlite"),
    rows,
    position: () => position,
  });
  const reads = withErrors(
    {
      ...createReads(db),
      ...createLists(db, reader, "sqlite", { state, mission }),
      ...createQueue(db),
      ...events,
      // Prepared statements for the queries that followers, the engine and every POST repeat.
      due: async (at: Date, limit: number) => rows.due(at.getTime(), limit),
      nextDue: async () => rows.nextDue(),
      waiting: async () => rows.waiting(),
    },
    unreadable,
  );
  const store: SqliteStore = {
    kind: "sqlite",
    blobs: createBlobs(join(dataDir, "blobs"), space),
    live: createLive(),
    webhooks: createWebhooks(db, reader, atomically),
    redact: (text) => text,
    ...reads,
    state,
    mission,
    position: async () => position,
    commit: (data) => submit(commitMember(data), data.urgent),
    async claim(stream, worker, urgent = false) {
      const claimed = await submit(claimMember(stream, worker, null), urgent);
      if (claimed === undefined) return undefined;
      const claim = held.add(stream, claimed, performance.now(), () => release(stream, claimed));
      // Revoked in the same transaction as the claim.
      if (rows.head(stream)?.epoch !== claimed.epoch) held.lose(stream, claimed.epoch);
      return claim;
    },
    follow: createFollow(commits, { since: reads.since, position: async () => position }),
    orphans: createOrphanBlobs(db, reader, "sqlite", lazily, space),
    erase: (stream, expected) => submit(eraseMember(stream, expected), true),
    async forget(before) {
      await removeInSteps(db, readerOn(db), "answers", sql`at < ${before.getTime()}`);
    },
    async check() {
      if (closed || broken !== undefined) throw unavailable(broken ?? new Error("the store is closed"));
      rows.log();
      if (failing === undefined) return;
      try {
        rows.markOpen();
        failing = undefined;
      } catch (error) {
        throw unavailable(error);
      }
    },
    async verify() {
      if (!unclean || inMemory) return;
      const damage = await quickCheck(file, stopping.signal);
      if (damage === undefined) return;
      broken = new Error(damage);
      throw new StartError(
        70,
        `The database ${file} is damaged: ${damage}. Nothing was changed. Put back a copy of it, or start with another data folder.`,
      );
    },
    async [Symbol.asyncDispose]() {
      if (closed) return;
      flush();
      closed = true;
      commits.close();
      stopping.abort();
      // What still reads would keep the log beside the database from being written back.
      await reader[Symbol.asyncDispose]?.();
      if (broken === undefined && failing === undefined) {
        try {
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
