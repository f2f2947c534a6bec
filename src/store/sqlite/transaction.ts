import type Database from "better-sqlite3";
import type { CompiledQuery } from "kysely";
import { messageOf } from "../../error.ts";
import type { Log } from "../../log.ts";
import { type BatchMember, type Changes, isEmpty, noChanges, runMember, type StoredView } from "../batch/batch.ts";
import type { StreamID } from "../../domain/event.ts";
import type { Space } from "../disk/disk.ts";
import { DiskFull, isFull } from "../disk/full.ts";
import type { Atomically } from "../sql/write.ts";
import { unavailable } from "../unavailable.ts";
import { isBusy, patienceMs, patiently, setPatience, stepMs } from "./busy.ts";
import type { DiskSync } from "./disk-sync.ts";
import { isFatal } from "./file.ts";
import type { prepareStatements } from "./statement.ts";

/**
 * How SQLite is written: one transaction for all commits of a tick, and others in between. The members of a transaction
 * are told when it is on disk; members that arrive meanwhile form the next one.
 */

type Waiting = {
  urgent: boolean;
  lazy: boolean;
  run(world: StoredView, batch: Changes, at: Date): void;
  settle(): void;
  fail(error: unknown): void;
};

/** See `Write.urgent` and `Write.lazy`. */
export type Manner = { urgent?: boolean | undefined; lazy?: boolean | undefined };

/** What was written, and for which members. `bytes`: the size of the events' data, as text. */
type Written = { batch: Changes; members: readonly Waiting[]; bytes: number };

/** The same view, which looks up each head only once, since several members of a transaction ask for the same ones. */
const lookingOnce = (view: StoredView): StoredView => {
  const heads = new Map<StreamID, ReturnType<StoredView["head"]>>();
  return {
    ...view,
    head(stream) {
      if (!heads.has(stream)) heads.set(stream, view.head(stream));
      return heads.get(stream);
    },
  };
};

export const createTransactions = (options: {
  database: Database.Database;
  rows: ReturnType<typeof prepareStatements>;
  view: StoredView;
  disk: DiskSync;
  space: Space;
  log: Log;
  now: () => Date;
  /** Called when a batch is on disk, before its members are told. */
  applied: (batch: Changes, bytes: number) => void;
  /** Called after the members are told. */
  told: (batch: Changes) => void;
}) => {
  const { database, rows, view, disk, space, log, now, applied, told } = options;
  let waiting: Waiting[] = [];
  /** The transaction that is written, but not yet known to be on disk. */
  let unsynced: Written | undefined;
  /** Called when it is on disk, or when that cannot be known any more. */
  const synced: (() => void)[] = [];
  let closed = false;
  /** Why the last transaction failed; `check` tries again. */
  let failing: unknown;
  /** The file is damaged or a sync failed: its content is unknown, so nothing more is written. */
  let broken: unknown;
  /** While others write to the file: the time until which waiting members are tried again. */
  let patientUntil: number | undefined;
  let closing = false;

  const submit = <T>(member: BatchMember<T>, { urgent = false, lazy = false }: Manner = {}): Promise<T> =>
    new Promise<T>((resolve, reject) => {
      if (closed) return reject(unavailable(new Error("the store is closed")));
      if (broken !== undefined) return reject(unavailable(broken));
      let settle = () => {};
      waiting.push({
        urgent,
        lazy,
        run(world, batch, at) {
          try {
            const value = runMember(member, world, batch, at);
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
    if (unsynced !== undefined) return;
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
    const batch = noChanges(view.position());
    const world = lookingOnce(view);
    let bytes = 0;
    try {
      for (const member of members) member.run(world, batch, at);
      if (!isEmpty(batch)) bytes = write(batch, at);
    } catch (error) {
      if (isBusy(error) && !closing) {
        patientUntil ??= performance.now() + patienceMs;
        if (performance.now() < patientUntil) {
          // Keeps the order in which the members came.
          waiting = [...members, ...waiting];
          setTimeout(flush, stepMs);
          return;
        }
      }
      patientUntil = undefined;
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
    patientUntil = undefined;
    const written = { batch, members, bytes };
    if (isEmpty(batch)) return tell(written);
    unsynced = written;
    for (const member of members) if (member.lazy) member.settle();
    disk.sync().then(
      () => kept(written),
      (error: unknown) => lost(written, error),
    );
  };

  const tell = ({ batch, members, bytes }: Written): void => {
    applied(batch, bytes);
    for (const member of members) member.settle();
    told(batch);
  };

  /** The transaction is on disk. Does nothing if that was found out in another way meanwhile. */
  const kept = (written: Written): void => {
    if (unsynced !== written) return;
    unsynced = undefined;
    tell(written);
    for (const resolve of synced.splice(0)) resolve();
    // On the next tick, to include the writes of the callers that have just been told.
    if (waiting.length > 0) setImmediate(flush);
  };

  /** How much of the transaction is on disk is unknown. */
  const lost = (written: Written, error: unknown): void => {
    if (unsynced !== written) return;
    unsynced = undefined;
    failing = error;
    broken = error;
    log.error({ error: messageOf(error) }, "the database could not be synced to its disk; nothing more is written");
    for (const member of [...written.members, ...waiting.splice(0)]) member.fail(unavailable(error));
    for (const resolve of synced.splice(0)) resolve();
  };

  const waitNow = (): void => {
    const written = unsynced;
    if (written === undefined) return;
    try {
      disk.syncNow();
      kept(written);
    } catch (error) {
      lost(written, error);
    }
  };

  /** On a full disk: tries once more, with a part of the reserve. */
  const withReserve = async (members: readonly Waiting[], error: unknown): Promise<void> => {
    if (!(await space.giveUp())) {
      for (const member of members) member.fail(unavailable(error));
      return;
    }
    waiting = [...members, ...waiting];
    flush();
  };

  /** Writes a transaction, which then still has to be synced. Returns the bytes of its events' data. */
  const write = (batch: Changes, at: Date): number => {
    rows.begin();
    try {
      const bytes = rows.save(batch, at);
      rows.commit();
      return bytes;
    } catch (error) {
      // On a full disk, SQLite may have rolled back already.
      if (database.inTransaction) rows.rollback();
      throw error;
    }
  };

  const run = (queries: readonly CompiledQuery[]): void => {
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
      throw error;
    }
  };
  const lazily: Atomically = async (queries) => {
    try {
      await patiently(() => run(queries));
    } catch (error) {
      throw unavailable(error);
    }
  };

  const atomically: Atomically = async (queries) => {
    await lazily(queries);
    await disk.sync().catch((error: unknown) => {
      throw unavailable(error);
    });
  };

  return {
    /** Writes a member with the others of this tick. */
    submit,
    atomically,

    /**
     * For rows that can be found out again: a crash of the machine may lose the newest ones, and nothing waits for the
     * disk.
     */
    lazily,

    /**
     * Resolves when everything that is written now is on disk and applied here. A reader of the file sees it earlier;
     * an answer that shows it waits for this, so that it is never newer than the states, nor than what a crash leaves.
     */
    onDisk: async (): Promise<void> => {
      if (unsynced !== undefined) await new Promise<void>((resolve) => void synced.push(resolve));
    },

    /** Whether the store still writes. */
    writes: (): boolean => !closed && broken === undefined,

    /** Throws `store_unavailable` while nothing can be written. */
    check(): void {
      if (closed || broken !== undefined) throw unavailable(broken ?? new Error("the store is closed"));
      try {
        rows.log();
        if (failing === undefined) return;
        rows.markOpen();
        failing = undefined;
      } catch (error) {
        throw unavailable(error);
      }
    },

    /** Refuses all writes from now on. */
    stop(why: Error): void {
      broken = why;
    },

    /**
     * Writes what waits, and refuses everything after it. False: the last write failed, so the file has to be checked.
     */
    close(): boolean {
      closing = true;
      setPatience(database, true);
      waitNow();
      flush();
      waitNow();
      closed = true;
      return broken === undefined && failing === undefined;
    },
  };
};
