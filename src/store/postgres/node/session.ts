import { sql } from "kysely";
import { clock } from "../lease.ts";
import type { Trx } from "../outcome.ts";

/**
 * Browser sessions that were logged out, which no node accepts any more: few, and kept only until they would have
 * ended.
 */

export const sessionTables = [
  "create table if not exists ended_sessions (mark text primary key, until bigint not null)",
];

const most = 10_000;

export const createEndedRows = (db: Trx) => ({
  async endedSessions(): Promise<[mark: string, until: number][]> {
    const { rows } = await sql<{ mark: string; until: number }>`
      select mark, until from ended_sessions where until > ${clock} limit ${most}`.execute(db);
    return rows.map(({ mark, until }) => [mark, until]);
  },

  async endSession(mark: string, until: number): Promise<void> {
    await sql`delete from ended_sessions where until <= ${clock}`.execute(db);
    await sql`insert into ended_sessions (mark, until) values (${mark}, ${until}) on conflict do nothing`.execute(db);
  },
});
