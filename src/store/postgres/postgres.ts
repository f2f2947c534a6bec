import { join } from "node:path";
import { Kysely, PostgresDialect, sql } from "kysely";
import type { Pool, PoolConfig } from "pg";
import type { StreamID } from "../../domain/event.ts";
import { type Clock, createClock } from "../../clock.ts";
import { messageOf } from "../../error.ts";
import type { Log } from "../../log.ts";
import { isEmpty, noChanges, type StoredView } from "../batch/batch.ts";
import { answerID } from "../sql/row.ts";
import { type Claimed, claimMember, commitMember, eraseMember, namesIn, releaseMember } from "../batch/member.ts";
import { createBlobs } from "../blob/folder.ts";
import { fromFolder, movingFrom } from "../blob/move.ts";
import { placeBlobs } from "../blob/place.ts";
import { createHeldClaims } from "../batch/held-claim.ts";
import { type Space, unwatchedSpace } from "../disk/disk.ts";
import { unreadable, withErrors } from "../unavailable.ts";
import { createCache } from "../sql/fold-cache.ts";
import { createCommitSignal, createFollow } from "../feed/follow.ts";
import { isMissionFold, isTaskFold } from "../sql/fold.ts";
import { keepLeases } from "./lease.ts";
import { createLists } from "../sql/list/list.ts";
import { createOverview } from "../sql/list/overview.ts";
import { countProjects } from "../sql/list/project-count.ts";
import { createLive, type FarLive } from "../feed/live.ts";
import { migrate } from "../sql/migration/migrate.ts";
import { createDatabaseBlobs, fromDatabase, prepareBlobs } from "./blob.ts";
import { createCheck } from "./check.ts";
import {
  type Bounds,
  commitBounds,
  configOf,
  discarding,
  openPool,
  type Purpose,
  schemaBounds,
  shareOf,
  slowBounds,
} from "./connection.ts";
import { retry, retryingEach } from "./fault.ts";
import { buildIndexes } from "./late-index.ts";
import {
  claimedIn,
  createPlacements,
  forgetDirectories,
  isHere,
  streamsBegunIn,
  recordPlacements,
  prepareNodes,
  projectsOf,
} from "./node/placement.ts";
import { expectConnections, startErrorOf } from "./node/not-started.ts";
import { createEndedRows } from "./node/session.ts";
import { createDueSignal, createHeard, createToldSignal, hintsOf } from "./node/batch-hint.ts";
import { type Hints, listen } from "./notify.ts";
import { createTransact, openEra, transactionID, type Trx } from "./outcome.ts";
import { createPump, type Member } from "./pump.ts";
import { createReader } from "./reader.ts";
import { createOrphanBlobs } from "../sql/orphan-blob.ts";
import { createQueue } from "../sql/due.ts";
import { createEventReads, createReads } from "../sql/read.ts";
import { type Atomically, removeInSteps } from "../sql/write.ts";
import { loadState, lockAndLoad, type Needs, save } from "./transaction.ts";
import type { Tables } from "../sql/schema.ts";
import { lostMs, type Nodes, type Offer } from "../node.ts";
import type { RunningBounds } from "../running.ts";
import type { Blobs, Store, Write } from "../store.ts";
import { runAll, webhooksOn } from "./webhook.ts";

type Options = {
  url: string;
  /** Bypasses a pooler, for all but short transactions. Default: `url`. */
  directURL?: string | undefined;
  dataDir: string;
  log: Log;
  space?: Space;
  /**
   * How long a claim outlives a crashed holder, in milliseconds. While the database cannot be reached, a run waits for
   * two thirds of this time. Default: 90 seconds; for a node, the time after which it counts as lost.
   */
  leaseMs?: number;
  /**
   * Where blobs are kept: in the data folder (the default), in the database, or in another place that all services can
   * reach.
   */
  blobs?: "folder" | "database" | Blobs;
  /** Schema for the tables instead of the connection's default; created if missing. */
  schema?: string;
  /**
   * No other process uses the database (`node/owner.ts`): every claim belongs to a dead process, and is freed at once.
   */
  alone?: boolean;
  /** This service as a node: other processes use the database, too (`node/member.ts`). */
  node?: Pick<Nodes, "name" | "turn"> & { instance: string };
  /** How many Tasks may run at the same time, over all processes; undefined: any number. */
  bounds?: RunningBounds | undefined;
  /** The clock of a sole process, for events and due times. Default: the database's, which all processes share. */
  now?: Clock;
};

/**
 * The store on PostgreSQL, for any number of processes. All times that processes compare are by the database's clock,
 * unless there is only one process.
 */
export const createPostgresStore = async (options: Options): Promise<Store> => {
  const { url, dataDir, log, space = unwatchedSpace, schema, bounds } = options;
  const { leaseMs = options.node === undefined ? 90_000 : lostMs } = options;
  await using scope = new AsyncDisposableStack();
  const config = configOf(url, schema);
  const open = (purpose: Purpose, bounds: Bounds, to: PoolConfig = config): Pool =>
    scope.adopt(openPool({ ...to, ...shareOf(purpose) }, bounds, log), (opened) => opened.end());
  const lasting = configOf(options.directURL ?? url, schema);
  await prepare(lasting, options);
  const [short, commitPool] = [open("reads", commitBounds), open("commits", commitBounds)];
  const slow = open("slow reads", slowBounds, lasting);
  const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: discarding(short) }) });
  const commitDB = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: discarding(commitPool) }) });

  const stopping = new AbortController();
  const era = await openEra(db);
  const transact = createTransact({ db, era, log, signal: stopping.signal });
  const commitIn = createTransact({ db: commitDB, era, log, signal: stopping.signal });
  const cache = createCache();
  const self = options.node?.name;
  let offered: () => Offer | undefined = () => undefined;
  const held = createHeldClaims();
  const commits = createCommitSignal();
  const reader = scope.use(createReader(slow, short));
  const reads = withErrors(
    retryingEach(
      {
        ...createReads(db),
        ...createEventReads(db, reader, "postgres"),
        ...createLists(db, reader, "postgres", { state, mission }),
        overview: createOverview(db, reader, "postgres", { state, mission }),
        ...createQueue(db, self === undefined ? undefined : () => isHere(self, offered())),
        state,
        mission,
      },
      stopping.signal,
    ),
    unreadable,
  );
  const { rows: places } = await sql<{ schema: string }>`select current_schema() as schema`.execute(db);
  const channel = `sortie_${places[0]?.schema ?? "public"}`.slice(0, 63);
  const due = createDueSignal();
  const told = createToldSignal();
  let toldCount = 0;
  const hints: Hints = scope.use(
    await listen({
      config: options.alone === true ? undefined : lasting,
      channel,
      commits,
      position: () => reads.position(),
      heard: createHeard({ held, live: () => live, due, told }),
      log,
    }),
  );
  const live: FarLive = scope.use(
    createLive({ frame: hints.frame, watch: (streams) => hints.tell(streams.map((stream) => ["watched", stream])) }),
  );
  scope.use(buildIndexes({ pool: slow, other: short, log }));
  const leasePool = open("lease", commitBounds, {
    ...config,
    query_timeout: leaseMs / 3,
    connectionTimeoutMillis: Math.min(leaseMs / 3, config.connectionTimeoutMillis ?? leaseMs),
  });
  scope.use(keepLeases({ pool: leasePool, held, leaseMs, log, now: options.now }));

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

  /** Milliseconds by which the clock of leases (the database's) is ahead of the clock of events and due times. */
  let ahead = 0;

  const write = async (members: readonly Member[]): Promise<void> => {
    const needs: Needs = {
      streams: members.flatMap(({ streams }) => streams),
      folds: members.flatMap(({ folds }) => folds),
      appends: members.some(({ appends }) => appends),
      answers: members.flatMap(({ answers }) => answers),
      names: members.flatMap(({ names }) => names),
      claims: members.flatMap(({ claims }) => claims),
    };
    const batch = await commitIn(async (trx) => {
      const { answers, heads, states, names, tasks, position, id, now: theirs } = await lockAndLoad(trx, needs, cache);
      const base: StoredView = {
        position: () => position,
        head: (stream) => heads.get(stream),
        state: (stream) => states.get(stream),
        named: (name) => names.get(name),
        answer: (id) => answers.get(id),
        running: () => tasks.running,
        project: (stream) => tasks.projects.get(stream) ?? tasks.running.get(stream),
      };
      const changes = noChanges(position);
      const now = options.now?.() ?? theirs;
      ahead = theirs.getTime() - now.getTime();
      for (const member of members) member.run(base, changes, now);
      if (isEmpty(changes)) return { value: { ...changes, hints: [] }, id };
      const erased = [...changes.erased];
      const left = self === undefined ? [] : await projectsOf(trx, erased);
      await save(trx, changes, now);
      const made = streamsBegunIn(changes.events);
      if (self !== undefined)
        await recordPlacements(trx, self, { made, claimed: claimedIn(changes.heads, heads), erased });
      await forgetDirectories(trx, left);
      return { value: { ...changes, hints: hintsOf(changes, heads, { self, made, now }) }, id };
    });
    hints.tell(batch.hints);
    for (const stream of batch.erased) cache.delete(stream);
    for (const folded of batch.states.values()) cache.set(folded);
    for (const member of members) member.settle();
    for (const stream of batch.revoked) held.lose(stream);
    if (batch.events.length + batch.erased.size > 0) commits.ring(new Set(batch.states.keys()), batch.erased);
  };

  const pump = createPump({ transact: write, space, log, signal: stopping.signal });

  /** If this fails, the claim ends with its lease. */
  const release = async (stream: StreamID, claimed: Claimed, unfinished: boolean): Promise<void> => {
    try {
      await pump.submit({ streams: [stream] }, releaseMember(stream, claimed, unfinished), {
        urgent: true,
        underClaim: true,
      });
    } catch (error) {
      log.warn({ stream, error: messageOf(error) }, "a claim could not be released and lasts until its lease ends");
    }
  };

  /** Runs any other write in a transaction of its own, and tries it again like reads. */
  const apart = <T>(work: (trx: Trx) => Promise<T>): Promise<T> =>
    retry(
      () =>
        transact(async (trx) => {
          const value = await work(trx);
          const { rows } = await sql<{ id: string }>`select ${transactionID} as id`.execute(trx);
          return { value, id: rows[0]?.id ?? "" };
        }),
      stopping.signal,
    );
  const atomically: Atomically = (queries) => apart((trx) => runAll(trx, queries));
  scope.use(countProjects({ db, kind: "postgres", atomically, log }));

  const folder = join(dataDir, "blobs");
  const { blobs: blobPlace = "folder" } = options;
  const rowsOf = async (): Promise<Blobs> => {
    await prepareBlobs(db);
    return createDatabaseBlobs({ db, apart, signal: stopping.signal });
  };
  const removeRow = (sha256: string) =>
    apart(async (trx) => void (await sql`delete from blobs where sha256 = ${sha256}`.execute(trx)));
  const fromRows = async (to: Blobs): Promise<Blobs> =>
    scope.use(await movingFrom(fromDatabase(db, await rowsOf(), removeRow), to, log)).blobs;
  const placed = scope.use(
    await placeBlobs({
      folder: createBlobs(folder, space),
      source: fromFolder(folder),
      target: typeof blobPlace === "string" ? rowsOf : () => fromRows(blobPlace),
      to: typeof blobPlace === "string" ? "database" : "s3",
      isBegun: blobPlace !== "folder",
      log,
    }),
  );

  const owned = scope.move();
  const store: Store = {
    kind: "postgres",
    ...(bounds === undefined ? {} : { bounds }),
    blobs: placed.blobs,
    blobMove: placed.move,
    ...(options.node === undefined
      ? {}
      : {
          nodes: {
            name: options.node.name,
            turn: options.node.turn,
            offer: (given) => {
              offered = given;
            },
            onDue: (listener) => due.listen(listener),
            tell: (topic, words) => hints.tell([["told", (toldCount += 1), topic, words]]),
            onTold: (topic, listener) => told.listen(topic, listener),
            ...withErrors(
              retryingEach({ ...createPlacements(db, options.node.name), ...createEndedRows(db) }, stopping.signal),
              unreadable,
            ),
          },
        }),
    live,
    webhooks: webhooksOn({ db, reader, atomically, apart, signal: stopping.signal }),
    redact: (text) => text,
    ...reads,
    commit: (write) =>
      pump.submit(needsOf(write), commitMember(write), { urgent: write.urgent, underClaim: write.fence !== undefined }),
    async claim(stream, worker, urgent = false) {
      // The lease counts from before the request, to be on the safe side.
      const since = performance.now();
      const claimed = await pump.submit(
        { streams: [stream], claims: bounds === undefined ? [] : [stream] },
        claimMember(stream, worker, leaseMs, { ahead: () => ahead, bounds }),
        { urgent },
      );
      return claimed && held.add(stream, claimed, since, (unfinished) => release(stream, claimed, unfinished));
    },
    follow: createFollow(commits, reads),
    orphans: retryingEach(createOrphanBlobs(db, reader, "postgres", atomically, space), stopping.signal),
    // Takes the log's lock, like every commit that changes counts of projects, so that only one transaction at a time
    // locks their rows.
    erase: (stream, expected) =>
      pump.submit({ streams: [stream], appends: true }, eraseMember(stream, expected), { urgent: true }),
    async forget(before) {
      await removeInSteps(db, reader, "answers", sql`at < ${before.getTime()}`);
    },
    check: createCheck(db, () => pump.underWay()),
    connections: () => ({
      commits: commitPool.totalCount,
      reads: short.totalCount,
      "slow reads": slow.totalCount,
      lease: leasePool.totalCount,
      hints: hints.isOpen() ? 1 : 0,
    }),
    async [Symbol.asyncDispose]() {
      if (stopping.signal.aborted) return;
      stopping.abort();
      await pump.close();
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
  claims: [],
  answers: write.once === undefined ? [] : [answerID(write.once.scope, write.once.key)],
});

/** Brings the schema up to date, and frees the claims of dead services. */
const prepare = async (
  config: PoolConfig,
  { schema, alone = false, node, log, now = createClock() }: Options,
): Promise<void> => {
  const pool = discarding(openPool({ ...config, max: 1 }, schemaBounds, log));
  await using db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });
  try {
    if (alone || node !== undefined) await expectConnections(db, log);
    if (schema !== undefined) await sql`create schema if not exists ${sql.id(schema)}`.execute(db);
    await migrate(db, "postgres");
    if (node !== undefined) await prepareNodes((text) => sql.raw(text).execute(db));
    if (alone || node !== undefined)
      await db
        .updateTable("streams")
        .set((column) => ({ holder: null, lease_until: null, epoch: column("epoch", "+", 1) }))
        .where("holder", "is not", null)
        .$if(node !== undefined, (rows) => rows.where("holder", "like", `${node?.instance}/%`))
        .execute();
    // As on SQLite: if the log's newest event is in the future, no due time in the future can be trusted.
    const at = now();
    if (alone)
      await sql`
        update streams set due_at = ${at.getTime()}, due_seq = due_seq + 1
         where due_at > ${at.getTime()}
           and (select at from events order by position desc limit 1) > ${at.toISOString()}`.execute(db);
  } catch (error) {
    throw startErrorOf(error);
  }
};
