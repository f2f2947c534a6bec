import { join } from "node:path";
import { Kysely, PostgresDialect, sql } from "kysely";
import { DatabaseError, Pool, type PoolConfig, types } from "pg";
import type { StreamID } from "../../domain/event.ts";
import { messageOf, StartError } from "../../error.ts";
import type { Log } from "../../log.ts";
import { type StoredView, type Changes, isEmpty, type BatchMember, noChanges, runMember } from "../batch/batch.ts";
import { answerID } from "../sql/row.ts";
import { type Claimed, claimMember, commitMember, eraseMember, namesIn, releaseMember } from "../batch/member.ts";
import { createBlobs } from "../blob/folder.ts";
import { createHeldClaims } from "../batch/held-claim.ts";
import { type Space, unwatched } from "../disk/disk.ts";
import { isFull } from "../disk/full.ts";
import { unavailable, unreadable, withErrors } from "../unavailable.ts";
import { createCache } from "../sql/fold-cache.ts";
import { createCommitSignal, createFollow } from "../feed/follow.ts";
import { isMissionFold, isTaskFold } from "../sql/fold.ts";
import { keepLeases } from "./lease.ts";
import { createLists } from "../sql/list.ts";
import { createLive } from "../feed/live.ts";
import { migrate } from "../sql/migration/migrate.ts";
import { buildIndexes } from "./late-index.ts";
import { listen } from "./notify.ts";
import { createReader } from "./reader.ts";
import { createOrphanBlobs } from "../sql/orphan-blob.ts";
import { createQueue } from "../sql/due.ts";
import { createEventReads, createReads } from "../sql/read.ts";
import { type Atomically, removeInSteps } from "../sql/write.ts";
import { loadState, lockAndLoad, type Needs, save } from "./transaction.ts";
import type { Tables } from "../sql/schema.ts";
import type { Store, Write } from "../store.ts";
import { createWebhooks } from "../sql/webhook.ts";

type Options = {
  url: string;
  dataDir: string;
  log: Log;
  space?: Space;
  /** How long a claim outlives a crashed holder, in milliseconds. */
  leaseMs?: number;
  /** Schema for the tables instead of the connection's default; created if missing. */
  schema?: string;
  /**
   * Id of the data folder, whose lock the caller holds. Claims of workers whose names begin with it belong to a dead
   * service and are freed at once instead of after their lease.
   */
  instance?: string;
};

/** Connections for slow reads, apart from those of commits. */
const slowReads = 4;

/** The store on PostgreSQL, for any number of processes. All times that processes compare are the database's. */
export const createPostgresStore = async (options: Options): Promise<Store> => {
  const { url, dataDir, log, space = unwatched, leaseMs = 10_000, schema, instance } = options;
  await using scope = new AsyncDisposableStack();
  const config: PoolConfig = {
    connectionString: url,
    connectionTimeoutMillis: 10_000,
    application_name: "sortie",
    types: numbers,
    ...(schema === undefined ? {} : { options: `-c search_path=${schema}` }),
  };
  const open = (extra: PoolConfig): Pool => {
    const pool = new Pool({ ...config, ...extra });
    pool.on("error", (error) => log.warn({ error: messageOf(error) }, "an idle database connection broke"));
    return scope.adopt(pool, (opened) => opened.end());
  };
  const pool = open({ max: 10 });
  const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });
  try {
    if (schema !== undefined) await sql`create schema if not exists ${sql.id(schema)}`.execute(db);
    await migrate(db, "postgres");
    if (instance !== undefined)
      await db
        .updateTable("streams")
        .set((column) => ({ holder: null, lease_until: null, epoch: column("epoch", "+", 1) }))
        .where("holder", "like", `${instance}/%`)
        .execute();
  } catch (error) {
    if (error instanceof StartError) throw error;
    throw new StartError(69, `PostgreSQL could not be used: ${messageOf(error)}. Check SERVICE_DATABASE_URL.`);
  }

  const cache = createCache();
  const held = createHeldClaims();
  const commits = createCommitSignal();
  const reader = scope.use(createReader(open({ max: slowReads }), config));
  const reads = withErrors(
    {
      ...createReads(db),
      ...createEventReads(db, reader, "postgres"),
      ...createLists(db, reader, "postgres", { state, mission }),
      ...createQueue(db),
      state,
      mission,
    },
    unreadable,
  );
  const { rows: places } = await sql<{ schema: string }>`select current_schema() as schema`.execute(db);
  const channel = `sortie_${places[0]?.schema ?? "public"}`.slice(0, 63);
  const notify = scope.use(await listen({ config, channel, commits, position: () => reads.position(), log }));
  scope.use(buildIndexes({ config, log }));
  const leasePool = open({ max: 1, query_timeout: leaseMs / 3, connectionTimeoutMillis: leaseMs / 3 });
  scope.use(keepLeases({ pool: leasePool, held, leaseMs, log }));

  async function state(stream: StreamID) {
    const fold = await foldOf(stream);
    return fold !== undefined && isTaskFold(fold) ? fold : undefined;
  }

  async function mission(stream: StreamID) {
    const fold = await foldOf(stream);
    return fold !== undefined && isMissionFold(fold) ? fold : undefined;
  }

  async function foldOf(stream: StreamID) {
    const head = await db.selectFrom("streams").select("version").where("stream", "=", stream).executeTakeFirst();
    if (head === undefined) {
      cache.delete(stream);
      return undefined;
    }
    const found = await loadState(db, stream, head.version, cache.get(stream));
    // A commit of this process may have overtaken this read.
    if (found !== undefined && found.version >= (cache.get(stream)?.version ?? 0)) cache.set(found);
    return found;
  }

  // ---- one transaction at a time; members that arrive meanwhile share the next
  // ---------------------------------------

  type Waiting = Needs & {
    urgent: boolean;
    run(base: StoredView, batch: Changes, now: Date): void;
    settle(): void;
    fail(error: unknown): void;
  };
  let waiting: Waiting[] = [];
  let pumping: Promise<void> | undefined;
  let closed = false;

  const submit = <T>(needs: Partial<Needs>, member: BatchMember<T>, urgent = false): Promise<T> =>
    new Promise<T>((resolve, reject) => {
      if (closed) return reject(unavailable(new Error("the store is closed")));
      let settle = () => {};
      waiting.push({
        urgent,
        streams: needs.streams ?? [],
        folds: needs.folds ?? [],
        appends: needs.appends ?? false,
        answers: needs.answers ?? [],
        names: needs.names ?? [],
        run(base, batch, now) {
          try {
            const value = runMember(member, base, batch, now);
            settle = () => resolve(value);
          } catch (error) {
            settle = () => reject(error);
          }
        },
        settle: () => settle(),
        fail: (error) => reject(unavailable(error)),
      });
      pumping ??= pump();
    });

  const pump = async (): Promise<void> => {
    await new Promise(setImmediate);
    while (waiting.length > 0) {
      const members = waiting;
      waiting = [];
      await attempt(members);
    }
    pumping = undefined;
  };

  const attempt = async (members: readonly Waiting[], tries = 1): Promise<void> => {
    try {
      await transact(members);
    } catch (error) {
      if (isClash(error) && tries < 10) return attempt(members, tries + 1);
      if (error instanceof DatabaseError && members.length > 1) {
        // The database rejected a row of one member; retry each alone, so that the others do not fail with it.
        for (const member of members) await attempt([member]);
        return;
      }
      // The database may be on the same disk.
      if (isFull(error) && members.some(({ urgent }) => urgent) && (await space.giveUp())) return attempt(members);
      log.error({ error: messageOf(error), members: members.length }, "a transaction failed");
      for (const member of members) member.fail(error);
    }
  };

  const transact = async (members: readonly Waiting[]): Promise<void> => {
    const needs: Needs = {
      streams: members.flatMap(({ streams }) => streams),
      folds: members.flatMap(({ folds }) => folds),
      appends: members.some(({ appends }) => appends),
      answers: members.flatMap(({ answers }) => answers),
      names: members.flatMap(({ names }) => names),
    };
    const batch = await db.transaction().execute(async (trx) => {
      const { answers, heads, states, names, position, now } = await lockAndLoad(trx, needs, cache);
      const base: StoredView = {
        position: () => position,
        head: (stream) => heads.get(stream),
        state: (stream) => states.get(stream),
        named: (name) => names.get(name),
        answer: (id) => answers.get(id),
      };
      const changes = noChanges(position);
      for (const member of members) member.run(base, changes, now);
      if (isEmpty(changes)) return changes;
      await save(trx, changes, now);
      if (changes.events.length + changes.erased.size > 0)
        await sql`select pg_notify(${notify.channel}, ${notify.tell(changes.erased)})`.execute(trx);
      return changes;
    });
    for (const stream of batch.erased) cache.delete(stream);
    for (const folded of batch.states.values()) cache.set(folded);
    for (const member of members) member.settle();
    for (const stream of batch.revoked) held.lose(stream);
    if (batch.events.length + batch.erased.size > 0) commits.ring(new Set(batch.states.keys()), batch.erased);
  };

  /** If this fails, the claim ends with its lease. */
  const release = async (stream: StreamID, claimed: Claimed): Promise<void> => {
    try {
      await submit({ streams: [stream] }, releaseMember(stream, claimed), true);
    } catch (error) {
      log.warn({ stream, error: messageOf(error) }, "a claim could not be given back and waits for its lease to end");
    }
  };

  const atomically: Atomically = (queries) =>
    db.transaction().execute(async (trx) => {
      for (const query of queries) await trx.executeQuery(query);
    });

  const owned = scope.move();
  const store: Store = {
    kind: "postgres",
    blobs: createBlobs(join(dataDir, "blobs"), space),
    live: createLive(),
    webhooks: createWebhooks(db, reader, atomically),
    redact: (text) => text,
    ...reads,
    commit: (write) => submit(needsOf(write), commitMember(write), write.urgent),
    async claim(stream, worker, urgent = false) {
      // The lease counts from before the request, which is the safe side.
      const since = performance.now();
      const claimed = await submit({ streams: [stream] }, claimMember(stream, worker, leaseMs), urgent);
      return claimed && held.add(stream, claimed, since, () => release(stream, claimed));
    },
    follow: createFollow(commits, reads),
    orphans: createOrphanBlobs(db, reader, "postgres", atomically, space),
    erase: (stream, expected) => submit({ streams: [stream] }, eraseMember(stream, expected), true),
    async forget(before) {
      await removeInSteps(db, reader, "answers", sql`at < ${before.getTime()}`);
    },
    async check() {
      try {
        const { rows } = await sql<{
          readonly: string;
        }>`select current_setting('transaction_read_only') as readonly`.execute(db);
        if (rows[0]?.readonly === "on") throw new Error("the database takes no writes");
      } catch (error) {
        throw unavailable(error);
      }
    },
    async [Symbol.asyncDispose]() {
      if (closed) return;
      closed = true;
      await pumping;
      commits.close();
      await owned.disposeAsync();
    },
  };
  return store;
};

const needsOf = (write: Write): Needs => ({
  streams: [
    ...(write.due ?? []).map(({ stream }) => stream),
    ...(write.revoke ?? []),
    ...(write.fence === undefined ? [] : [write.fence.stream]),
  ],
  folds: write.appends.map(({ stream }) => stream),
  appends: write.appends.length > 0,
  names: namesIn(write),
  answers: write.once === undefined ? [] : [answerID(write.once.scope, write.once.key)],
});

/** 64-bit integers as numbers: positions and milliseconds stay far below 2^53. */
const numbers: PoolConfig["types"] = {
  getTypeParser: ((id: Parameters<typeof types.getTypeParser>[0], format?: "text") =>
    id === types.builtins.INT8 ? Number : types.getTypeParser(id, format)) as typeof types.getTypeParser,
};

/** Another process was first: serialization failure, deadlock, or a row that was just inserted. Worth a retry. */
const isClash = (error: unknown): boolean =>
  error instanceof DatabaseError && ["40001", "40P01", "23505"].includes(error.code ?? "");
