import type { SharedSquads } from "../../node.ts";

/**
 * The packages that the nodes share, in the database: at most 1 MiB each. Only their digests are read again and again.
 */

export const squadTables = [
  "create table if not exists user_squads (id text primary key, digest text, files text)",
  `create table if not exists user_squads_seen (
     instance text not null, id text not null, digest text, primary key (instance, id))`,
];

/** Enough for a package of 1 MiB in base64, with its paths. */
const mostChars = 2 * 1024 * 1024;

/**
 * Pairs of a path and bytes in base64. Nothing else is made into bytes: of an object with a `length`, `Buffer.from`
 * would make that many.
 */
const isFiles = (value: unknown): value is [string, string][] =>
  Array.isArray(value) &&
  value.every(
    (pair: unknown) => Array.isArray(pair) && pair.length === 2 && pair.every((part) => typeof part === "string"),
  );

/** None if the text is something else; the reader of a package verifies its digest. */
const filesOf = (text: string): { path: string; bytes: Buffer }[] => {
  try {
    const value: unknown = JSON.parse(text);
    return isFiles(value) ? value.map(([path, bytes]) => ({ path, bytes: Buffer.from(bytes, "base64") })) : [];
  } catch {
    return [];
  }
};

type Query = <Found extends object>(text: string, values?: readonly unknown[]) => Promise<Found[]>;

/** `instance`: the id of the data folder, which is independent of the node's name. */
export const createSharedSquads = (query: Query, instance: string): SharedSquads => ({
  async list() {
    const rows = await query<{ id: string; digest: string | null; seen: string | null }>(
      `select squads.id, squads.digest, seen.digest as seen from user_squads squads
         left join user_squads_seen seen on seen.id = squads.id and seen.instance = $1`,
      [instance],
    );
    return new Map(rows.map(({ id, digest, seen }) => [id, { digest, seen }]));
  },

  async read(id) {
    const [row] = await query<{ digest: string | null; files: string | null }>(
      "select digest, case when length(files) <= $2 then files else '[]' end as files from user_squads where id = $1",
      [id, mostChars],
    );
    if (row === undefined || row.digest === null || row.files === null) return undefined;
    return { digest: row.digest, files: filesOf(row.files) };
  },

  async replace(id, before, after) {
    const files = after?.files.map(({ path, bytes }) => [path, bytes.toString("base64")]);
    const rows = await query(
      `insert into user_squads (id, digest, files)
       select $1, $3, $4 where $2::text is null or exists (select 1 from user_squads where id = $1)
       on conflict (id) do update set digest = excluded.digest, files = excluded.files
         where user_squads.digest is not distinct from $2::text
       returning id`,
      [id, before, after?.digest ?? null, files === undefined ? null : JSON.stringify(files)],
    );
    if (rows.length > 0) return true;
    // An earlier try may have succeeded although its answer was lost.
    const [now] = await query<{ digest: string | null }>("select digest from user_squads where id = $1", [id]);
    return now !== undefined && now.digest === (after?.digest ?? null);
  },

  async note(id, digest) {
    await query(
      `insert into user_squads_seen (instance, id, digest) values ($1, $2, $3)
       on conflict (instance, id) do update set digest = excluded.digest`,
      [instance, id, digest],
    );
  },
});
