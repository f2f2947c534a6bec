import { Kysely, PostgresDialect, sql } from "kysely";
import { Client, Pool } from "pg";
import { expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import { createTransact, type Era, openEra, type Trx, transactionID } from "../../src/store/postgres/outcome.ts";
import { startPostgresProxy } from "../harness/double/postgres-proxy.ts";
import { startOwnPostgres } from "../harness/own-postgres.ts";
import { countSkipped, postgresURL } from "../harness/postgres.ts";

/** A server that dies with a COMMIT on its way to it, and gives the transaction's id to another one afterwards. */

const own = postgresURL === undefined ? undefined : await startOwnPostgres();
if (postgresURL === undefined) countSkipped(1);

test.skipIf(own === undefined)(
  "what the server lost in a crash is not told as done; control: by the transaction's id alone it would be",
  { timeout: 120_000 },
  async () => {
    if (own === undefined) return;
    await using server = own;
    await using proxy = await startPostgresProxy(server.url);
    const pool = new Pool({ connectionString: proxy.url, max: 2 });
    pool.on("error", () => {});
    pool.on("connect", (client) => client.on("error", () => {}));
    const db: Trx = new Kysely({ dialect: new PostgresDialect({ pool }) });
    const direct = async (text: string): Promise<Record<string, unknown>[]> => {
      const client = new Client({ connectionString: server.url });
      await client.connect();
      try {
        return (await client.query<Record<string, unknown>>(text)).rows;
      } finally {
        await client.end();
      }
    };
    await direct("create table kept (n integer)");
    const { signal } = new AbortController();
    let n = 0;
    /** Resolves to what the caller is told, whether it is so, and whether the id was another transaction's, too. */
    const crash = async (era: Era) => {
      n += 1;
      const own = n;
      const transact = createTransact({ db, era, log: silent, signal });
      const sent = Promise.withResolvers<void>();
      proxy.rule(({ sql: text }) => {
        if (text !== "commit") return "pass";
        sent.resolve();
        return "hold";
      });
      const told = transact(async (trx) => {
        await sql`insert into kept values (${own})`.execute(trx);
        const { rows } = await sql<{ id: string }>`select ${transactionID} as id`.execute(trx);
        return { value: "done", id: rows[0]?.id ?? "" };
      }).catch((error: unknown) => error);
      await sent.promise;
      const [lost] = await direct("select max(backend_xid::text::bigint) as id from pg_stat_activity");
      proxy.down();
      await server.stop("immediate");
      await server.start();
      let given = 0;
      let reused = false;
      while (given < Number(lost?.["id"])) {
        given = Number((await direct("select txid_current() as id"))[0]?.["id"]);
        reused ||= given === Number(lost?.["id"]);
      }
      proxy.rule(undefined);
      proxy.open();
      const answer = await told;
      return { answer, reused, isKept: (await direct(`select 1 from kept where n = ${own}`)).length > 0 };
    };
    const tried = async (era: Era) => {
      const all = [];
      for (let at = 0; at < 8; at += 1) {
        const found = await crash(era);
        all.push(found);
        if (found.reused) break;
      }
      expect(all.some(({ reused }) => reused)).toBe(true);
      return all.filter(({ answer, isKept }) => answer === "done" && !isKept);
    };
    expect(await tried(await openEra(db))).toEqual([]);
    expect((await tried({ now: () => "", isOver: () => Promise.resolve(false) })).length).toBeGreaterThan(0);
    // A stop in good order is no crash.
    const era = await openEra(db);
    const before = era.now();
    await server.stop("fast");
    await server.start();
    expect(await era.isOver(before).catch(() => era.isOver(before))).toBe(false);
    await db.destroy();
  },
);
