import { randomBytes } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import type { Client, ClientConfig } from "pg";
import type { Clock } from "../../../clock.ts";
import { StartError } from "../../../error.ts";
import type { Log } from "../../../log.ts";
import { lostMs, type Node, type NodeReport, type Nodes, type Role, type SharedSquads } from "../../node.ts";
import { unreadable } from "../../unavailable.ts";
import { configOf } from "../connection.ts";
import { retry, NotConnected } from "../fault.ts";
import { clockSQL } from "../lease.ts";
import {
  againMs,
  endHolder,
  type Held,
  type Holder,
  holderOf,
  holdLock,
  type LockKey,
  numbersOf,
  tryLock,
  describeHolder,
} from "./held-lock.ts";
import { lastOwner, soleKey } from "./owner.ts";
import { adopt, hasUnadopted, prepareNodes, rename } from "./placement.ts";
import { createSharedSquads } from "./squad.ts";
import { createTurns } from "./turn.ts";

/**
 * One of several services of a database. It has a name that no other live one has, and gives a sign of life every two
 * seconds. All nodes hold the lock of a sole service together, so that no sole service can start among them.
 */
export type Membership = AsyncDisposable &
  Pick<Held, "lost" | "client"> & {
    name: string;
    /**
     * The database's clock, as far as this machine knows it: all nodes share it, however wrong their own clocks are.
     */
    now: () => Date;
    /** Sets what the next signs of life report. */
    report: (about: () => NodeReport) => void;
    /** All nodes that were heard of within the last day, by name. */
    nodes: () => Promise<Node[]>;
    /** The key with which the nodes of this database sign their requests to one another. */
    key: () => Promise<Uint8Array>;
    /** The squads for every project, which the nodes share. */
    squads: SharedSquads;
    turn: Nodes["turn"];
    /** Asks the node of this name to drain; it learns of that with its next sign of life. */
    drain: (name: string) => Promise<void>;
    /** Resolves when this node is asked to drain. */
    drained: Promise<void>;
    /** Admits other nodes to the database, which this node had alone because of its blobs. */
    share: () => Promise<void>;
  };

type Options = {
  url: string;
  name: string;
  dataDir: string;
  instance: string;
  version: string;
  /**
   * Why the node must have the database alone: its engine knows of no other nodes, or they could not read its blobs, or
   * not all of them yet (`moving`). With `moving`, it joins other nodes that are there already. undefined: it need not
   * have it alone.
   */
  sole: "engine" | "blobs" | "moving" | undefined;
  /** The role of the node until its first report. */
  role: Role;
  clock: Clock;
  log: Log;
};

type Row = Holder & {
  name: string;
  version: string;
  started: number;
  seen: number;
  stopped: boolean;
  about: string;
};

const beatMs = 2_000;
/** A service that shuts down cleanly is gone by then. */
const patienceMs = 1_500;
/** How long to wait for the node with the data folder of the service that had the database alone. */
const ownerMs = 15_000;
const dayMs = 24 * 3_600_000;

const nothing: NodeReport = {
  role: "all",
  running: 0,
  room: 0,
  diskFree: 0,
  tier: 0,
  draining: false,
  configuration: null,
  browser: true,
  hasSpace: true,
  url: null,
};

const isAsked = "exists (select 1 from node_drains where node_drains.name = nodes.name) as asked";

const write = `
  insert into nodes (instance, host, process, folder, name, version, started, seen, stopped, about)
  values ($1, $2, $3, $4, $5, $6, ${clockSQL}, ${clockSQL}, false, $7)
  on conflict (name) do update set instance = excluded.instance, host = excluded.host, process = excluded.process,
         folder = excluded.folder, version = excluded.version, started = excluded.started, seen = excluded.seen,
         stopped = false, about = excluded.about returning seen, false as asked`;

const beat = `update nodes set seen = ${clockSQL}, about = $3 where name = $1 and instance = $2 returning seen, ${isAsked}`;

const leave = `update nodes set stopped = true, seen = ${clockSQL} where name = $1 and instance = $2`;

/**
 * Throws `StartError` with exit code 75 while another live service has the name, or while a sole service has the
 * database.
 */
export const joinDatabase = async (options: Options): Promise<Membership> => {
  const { url, name, dataDir, instance, version, role, clock, log } = options;
  const config = configOf(url);
  const nameKey = keyOf(name);
  let about: () => NodeReport = () => ({ ...nothing, role });
  let ahead = 0;
  let ask = () => {};
  let isAlone = false;
  const drained = new Promise<void>((resolve) => {
    ask = resolve;
  });
  /** Writes a sign of life; false: the row is another service's. */
  const sign = async (client: Client, text: string, values: readonly unknown[]): Promise<boolean> => {
    const sent = clock().getTime();
    const { rows } = await client.query<{ seen: number; asked: boolean }>(text, [...values, JSON.stringify(about())]);
    if (rows[0] === undefined) return false;
    if (rows[0].asked) ask();
    ahead = rows[0].seen - (sent + clock().getTime()) / 2;
    return true;
  };

  const held = await holdLock({
    config,
    log,
    everyMs: beatMs,
    take: async (client) => {
      await prepareNodes((text) => client.query(text));
      isAlone = await take(client, options);
      // Left over from an earlier process of this node.
      await client.query("delete from node_drains where name = $1", [name]);
      await sign(client, write, [...holderOf(instance, dataDir), name, version]);
      await inherit(client, config, options);
      const owner = await lastOwner(client);
      if (owner !== undefined && owner !== instance) await waitForOwner(client, log);
      if (owner === instance || !(await othersLive(client, name))) await adopt(config, name);
    },
    renew: (client) => sign(client, beat, [name, instance]),
    lock: async (client) => (await tryLock(client, soleKey, !isAlone)) && tryLock(client, nameKey),
    leave: (client) => client.query(leave, [name, instance]),
    back: "the connection that holds this node's name is back",
    taken: `Another service has taken the name ${name} while this one could not reach the database.`,
  });
  const closing = new AbortController();
  /**
   * Runs a query on the connection that holds the name, and tries again if that is lost: only for statements that may
   * run twice with the same result.
   */
  const query = async <Found extends object>(text: string, values: readonly unknown[] = []): Promise<Found[]> => {
    const work = async () => {
      const client = held.client();
      if (client === undefined) throw new NotConnected("the database cannot be reached");
      return (await client.query<Found>(text, [...values])).rows;
    };
    try {
      return await retry(work, closing.signal);
    } catch (error) {
      throw unreadable(error);
    }
  };
  return {
    name,
    lost: held.lost,
    client: held.client,
    drained,
    async share() {
      if (!isAlone || options.sole === "engine") return;
      // Takes the shared lock before it gives up the exclusive one.
      isAlone = false;
      await query(
        `select pg_try_advisory_lock_shared(${numbersOf(soleKey)}), pg_advisory_unlock(${numbersOf(soleKey)})`,
      );
      log.info({ node: name }, "other nodes can use this database from now on");
    },
    now: () => new Date(Math.round(clock().getTime() + ahead)),
    report(given) {
      about = given;
    },
    async nodes() {
      const rows = await query<Row & { now: number }>(
        `select *, ${clockSQL} as now from nodes where seen > ${clockSQL} - ${dayMs} order by name`,
      );
      return rows.map((row) => nodeOf(row, row.now));
    },
    async key() {
      const made = randomBytes(32).toString("hex");
      await query("insert into node_keys (id, key) values (1, $1) on conflict do nothing", [made]);
      const [row] = await query<{ key: string }>("select key from node_keys where id = 1");
      return Buffer.from(row?.key ?? "", "hex");
    },
    squads: createSharedSquads(query, instance),
    turn: createTurns(held.client, closing.signal),
    async drain(other) {
      await query("insert into node_drains (name) values ($1) on conflict do nothing", [other]);
    },
    [Symbol.asyncDispose]() {
      closing.abort();
      return held[Symbol.asyncDispose]();
    },
  };
};

const nodeOf = ({ name, version, host, started, seen, stopped, about }: Row, now: number): Node => {
  const { draining, ...report } = { ...nothing, ...(JSON.parse(about) as Partial<NodeReport>) };
  return {
    name,
    version,
    host,
    state: stopped ? "stopped" : now - seen > lostMs ? "lost" : draining ? "draining" : "up",
    startedAt: new Date(started).toISOString(),
    seenAt: new Date(seen).toISOString(),
    ...report,
  };
};

const keyOf = (name: string): LockKey => ({
  kind: "sortie node",
  name: "$1 || ' ' || current_schema()",
  values: [name],
});

const othersLive = async (client: Client, name: string): Promise<boolean> => {
  const { rows } = await client.query(
    `select 1 from nodes where name <> $1 and not stopped and seen > ${clockSQL} - ${lostMs}`,
    [name],
  );
  return rows.length > 0;
};

/**
 * Waits, at most `ownerMs`, until the node with the old owner's data folder has adopted everything from before there
 * were nodes: several nodes may start at the same time.
 */
const waitForOwner = async (client: Client, log: Log): Promise<void> => {
  const until = performance.now() + ownerMs;
  if (await hasUnadopted(client))
    log.info({}, "Tasks from before there were nodes wait for the node that has the data folder of then");
  while ((await hasUnadopted(client)) && performance.now() < until) await pause(againMs);
};

/** Takes the locks of the database and of the name. Resolves to whether this node has the database alone. */
const take = async (client: Client, { name, instance, sole }: Options): Promise<boolean> => {
  const until = performance.now() + patienceMs;
  const known = async (): Promise<Row | undefined> =>
    (await client.query<Row>(`select *, ${clockSQL} - seen as silent from nodes where name = $1`, [name])).rows[0];
  let isAlone = sole !== undefined;
  while (!(await tryLock(client, soleKey, !isAlone))) {
    // This process has the folder's lock, so the holder is an earlier process whose end the server has not noticed.
    if ((await known())?.instance === instance) await endHolder(client, keyOf(name));
    if (performance.now() > until) {
      if (!isAlone || sole !== "moving") throw new StartError(75, notShared[sole ?? "moving"]);
      isAlone = false;
    }
    await pause(againMs);
  }
  while (!(await tryLock(client, keyOf(name)))) {
    const row = await known();
    if (row?.instance === instance) await endHolder(client, keyOf(name));
    else if (performance.now() > until) throw refused(name, row);
    await pause(againMs);
  }
  // A node that lost its connection may still live; it gives a sign of life within the time of a lease.
  const row = await known();
  if (row !== undefined && row.instance !== instance && !row.stopped && row.silent < lostMs) throw refused(name, row);
  return isAlone;
};

const notShared = {
  engine:
    "SERVICE_ENGINE=local is for the only service of a database, and another one is running. Stop that, or unset SERVICE_ENGINE.",
  blobs:
    "The blobs of this service are in its data folder, where the other services of its database cannot read them. Stop those, start this one, and move them: sortie blobs move.",
  moving:
    "A service uses this database alone: it has SERVICE_ENGINE=local, or its blobs in its data folder. Stop it; or unset SERVICE_ENGINE there, or move its blobs: sortie blobs move.",
};

/**
 * Gives this node what belonged to its data folder under another name, or to a node that is gone and had its data
 * folder at the same place of this machine.
 */
const inherit = async (client: Client, config: ClientConfig, { name, instance, dataDir }: Options): Promise<void> => {
  const [, host] = holderOf(instance, dataDir);
  const { rows } = await client.query<{ name: string }>(
    `select name from nodes where name <> $1
        and (instance = $2 or host = $3 and folder = $4 and (stopped or seen < ${clockSQL} - ${lostMs}))`,
    [name, instance, host, dataDir],
  );
  if (rows.length > 0)
    await rename(
      config,
      rows.map((row) => row.name),
      name,
    );
};

const refused = (name: string, row: Row | undefined): StartError =>
  new StartError(
    75,
    `Another node of this database has the name ${name}${describeHolder(row)}. Stop it, or give this one another name (SERVICE_NODE).`,
  );
