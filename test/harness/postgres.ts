import { randomBytes } from "node:crypto";
import { appendFileSync } from "node:fs";
import { userInfo } from "node:os";
import { setTimeout as wait } from "node:timers/promises";
import { Client, DatabaseError } from "pg";

/**
 * Where the tests find PostgreSQL: `SERVICE_TEST_DATABASE_URL`, else database `test` on 127.0.0.1:5432 as `postgres`
 * or the current user, without a password. undefined: nothing answers there.
 */
const candidates = (): string[] => {
  const set = process.env["SERVICE_TEST_DATABASE_URL"];
  return set !== undefined && set !== ""
    ? [set]
    : [...new Set(["postgres", userInfo().username])].map((user) => `postgres://${user}@127.0.0.1:5432/test`);
};

const answers = async (url: string): Promise<boolean> => {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 2000 });
  try {
    await client.connect();
    await client.query("select 1");
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => {});
  }
};

export const postgresURL: string | undefined = await (async () => {
  for (const url of candidates()) if (await answers(url)) return url;
  return undefined;
})();

/** Counts what does not run; test/setup.ts says the sum, loudly, at the end of the run. */
export const countSkipped = (count: number): void => {
  const where = candidates()
    .join(" or ")
    .replaceAll(/:[^:@/]*@/g, ":***@");
  appendFileSync(process.env["TEST_SKIPS"] ?? "/dev/stderr", `${count} ${where}\n`);
};

const ask = async (url: string, statement: string): Promise<void> => {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    // The database may have bounds of its own.
    await client.query("set statement_timeout = 0; set lock_timeout = 0");
    await client.query(statement);
  } finally {
    await client.end();
  }
};

/** A schema of its own for one test, dropped with everything in it. */
export const freshSchema = (url: string) => {
  const name = `sortie_test_${randomBytes(6).toString("hex")}`;
  return {
    name,
    create: () => ask(url, `create schema "${name}"`),
    // The engine's tables have one beside it.
    [Symbol.asyncDispose]: () => ask(url, `drop schema if exists "${name}", "${name}_dbos" cascade`),
  };
};

/** A database of this name, which stays. */
export const keptDatabase = async (url: string, name: string): Promise<{ url: string }> => {
  await ask(url, `create database "${name}"`).catch((error: unknown) => {
    if (!(error instanceof DatabaseError && error.code === "42P04")) throw error;
  });
  return { url: databaseIn(url, name) };
};

const databaseIn = (url: string, name: string): string => {
  const own = new URL(url);
  own.pathname = `/${name}`;
  return own.href;
};

/** A database of its own for one test, with these settings for all who connect to it. */
export const freshDatabase = async (url: string, settings: Record<string, string>) => {
  const name = `sortie_test_${randomBytes(6).toString("hex")}`;
  await ask(url, `create database "${name}"`);
  for (const [key, value] of Object.entries(settings))
    await ask(url, `alter database "${name}" set ${key} = '${value}'`);
  return {
    url: databaseIn(url, name),
    [Symbol.asyncDispose]: () => ask(url, `drop database if exists "${name}" with (force)`),
  };
};

/** What a service may open, and what those that run already may still. */
const room = 24;

/**
 * Before a service is started on PostgreSQL: files that run at the same time, each with three nodes, have more
 * connections in all than a server gives by default. Then whoever comes last waits a while.
 */
export const untilRoom = async (env: Readonly<Record<string, string | undefined>>): Promise<void> => {
  const url = postgresURL;
  if (env["SERVICE_DATABASE_URL"] === undefined || url === undefined) return;
  for (const until = performance.now() + 15_000; performance.now() < until; await wait(200)) {
    const free = await freeIn(url).catch(() => 0);
    if (free >= room) return;
  }
};

const freeIn = async (url: string): Promise<number> => {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 2000 });
  try {
    await client.connect();
    const { rows } = await client.query<{ free: number }>(`
      select current_setting('max_connections')::int - count(*)::int as free
        from pg_stat_activity where backend_type = 'client backend'`);
    return rows[0]?.free ?? 0;
  } finally {
    await client.end().catch(() => {});
  }
};
