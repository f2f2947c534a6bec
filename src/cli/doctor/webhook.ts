import { join } from "node:path";
import { type Finding, note, ok } from "../terminal/finding.ts";
import { exists } from "./machine.ts";

/** The check of `sortie doctor` on webhooks: their number, and failed deliveries. It only reads the store. */

/** PostgreSQL returns counts as text. */
type Counts = { state: string; count: number | string }[];

const query = `
  select state, count(*) as count from webhooks group by state
  union all
  select state, count(*) as count from deliveries where state <> 'delivered' group by state`;

export const checkWebhooks = async ({
  databaseURL,
  dataDir,
}: {
  databaseURL: string | undefined;
  dataDir: string;
}): Promise<Finding> => {
  let counts: Counts;
  try {
    counts = databaseURL === undefined ? await ofSqlite(join(dataDir, "sortie.db")) : await ofPostgres(databaseURL);
  } catch {
    // There is no store yet, or one from before webhooks existed; another check reports whether the store is sound.
    return ok("Webhooks", "none yet");
  }
  const of = (state: string): number => Number(counts.find((one) => one.state === state)?.count ?? 0);
  const [disabled, dead, pending] = [of("disabled"), of("dead"), of("pending")];
  const all = of("enabled") + of("paused") + disabled;
  const text = `${all} (${disabled} disabled), ${pending} pending, ${dead} failed`;
  if (disabled > 0) return note("Webhooks", text, "`sortie webhook ls` says why; then `sortie webhook resume <id>`.");
  if (dead > 0) return note("Webhooks", text, "`sortie webhook log --state dead`; `sortie webhook redeliver` resends.");
  return ok("Webhooks", all + pending === 0 ? "none" : text);
};

const ofSqlite = async (file: string): Promise<Counts> => {
  if (!(await exists(file))) return [];
  const { default: Database } = await import("better-sqlite3");
  const database = new Database(file, { readonly: true, timeout: 2000 });
  try {
    return database.prepare<[], Counts[number]>(query).all();
  } finally {
    database.close();
  }
};

const ofPostgres = async (connectionString: string): Promise<Counts> => {
  const { default: pg } = await import("pg");
  const client = new pg.Client({ connectionString, connectionTimeoutMillis: 3000 });
  client.on("error", () => {});
  try {
    await client.connect();
    return (await client.query<Counts[number]>(query)).rows;
  } finally {
    await client.end().catch(() => {});
  }
};
