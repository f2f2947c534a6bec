import { type Kysely, type RawBuilder, type SqlBool, sql } from "kysely";
import { unavailable, unreadable, withErrors } from "../unavailable.ts";
import type { Reader } from "./reader.ts";
import { type Atomically, removeInSteps } from "./write.ts";
import type { Tables } from "./schema.ts";
import {
  callback,
  type Delivery,
  type DeliveryState,
  type NewDelivery,
  type SigningSecret,
  type Webhook,
  type Webhooks,
  type WebhookState,
} from "../webhook-queue.ts";

/** Implements `store/webhook-queue.ts` with the same SQL for both databases. */

type Row = Tables["deliveries"];

export const createWebhooks = (db: Kysely<Tables>, reader: Reader, atomically: Atomically): Webhooks => {
  const secrets = async (): Promise<SigningSecret[]> =>
    secretsIn((await db.selectFrom("webhook_log").select("secrets").executeTakeFirstOrThrow()).secrets);
  /** The number of rows that a statement changed. */
  const changed = async (query: { executeTakeFirst(): Promise<{ numUpdatedRows: bigint }> }): Promise<number> =>
    Number((await query.executeTakeFirst()).numUpdatedRows);

  const webhooks: Webhooks = {
    async secrets(first) {
      const known = await secrets();
      if (known.length > 0 || first === undefined) return known;
      await db
        .updateTable("webhook_log")
        .set({ secrets: JSON.stringify([{ secret: first, until: null }]) })
        .where("secrets", "=", "[]")
        .execute();
      return secrets();
    },
    async setSecrets(list) {
      await db
        .updateTable("webhook_log")
        .set({ secrets: JSON.stringify(list) })
        .execute();
    },

    async list() {
      return (await db.selectFrom("webhooks").selectAll().orderBy("id").execute()).map(webhookOf);
    },
    async add(webhook, most) {
      const { events, secrets: list, ...rest } = webhook;
      const row = {
        ...rest,
        events: JSON.stringify(events),
        secrets: JSON.stringify(list),
      };
      const columns = Object.keys(row) as (keyof typeof row)[];
      const { numAffectedRows } = await sql`
        insert into webhooks (${sql.join(columns.map((name) => sql.ref(name)))}, since)
        select ${sql.join(columns.map((name) => given(row[name])))}, log.position from log
         where (select count(*) from webhooks) < ${most}`.execute(db);
      return numAffectedRows === 1n;
    },
    async change(id, { events, secrets: list, failingSince, ...rest }) {
      const fields: Partial<Tables["webhooks"]> = {
        ...rest,
        ...(events === undefined ? {} : { events: JSON.stringify(events) }),
        ...(list === undefined ? {} : { secrets: JSON.stringify(list) }),
        ...(failingSince === undefined ? {} : { failing_since: failingSince }),
      };
      return (await changed(db.updateTable("webhooks").set(fields).where("id", "=", id))) === 1;
    },
    async remove(id) {
      const known = await db.selectFrom("webhooks").select("id").where("id", "=", id).executeTakeFirst();
      await atomically([
        db.deleteFrom("webhooks").where("id", "=", id).compile(),
        db.deleteFrom("deliveries").where("webhook", "=", id).compile(),
      ]);
      return known !== undefined;
    },

    async position() {
      return (await db.selectFrom("webhook_log").select("position").executeTakeFirstOrThrow()).position;
    },
    async record(deliveries, through, now) {
      await atomically([
        ...deliveries.map((delivery) => insertOf(delivery, now).compile(db)),
        db.updateTable("webhook_log").set({ position: through }).where("position", "<", through).compile(),
      ]);
    },

    async claim({ now, worker, leaseMs, limit }) {
      const { rows } = await sql<Row>`
        update deliveries set holder = ${worker}, lease_until = ${now + leaseMs}
         where id in (
           select d.id from (
             select (select p.id from deliveries p
                      where p.target = t.target and p.state = 'pending' and p.due_at <= ${now}
                        and (p.lease_until is null or p.lease_until <= ${now})
                      order by p.due_at, p.position limit 1) as id
               from (select distinct target from deliveries where state = 'pending' and due_at <= ${now}) as t
              where not exists (select 1 from deliveries h
                                 where h.target = t.target and h.state = 'pending' and h.lease_until > ${now})
           ) as first join deliveries d on d.id = first.id
            where d.webhook = ${callback}
               or exists (select 1 from webhooks w where w.id = d.webhook and w.state = 'enabled')
            order by d.due_at, d.position limit ${limit}
         ) and state = 'pending' and (lease_until is null or lease_until <= ${now})
        returning *`.execute(db);
      const own = rows.filter(({ webhook }) => webhook === callback).map(({ stream }) => stream);
      const urls = new Map<string, string>();
      if (own.length > 0)
        for (const { stream, url } of await db.selectFrom("callbacks").selectAll().where("stream", "in", own).execute())
          urls.set(stream, url);
      return rows
        .toSorted((one, other) => one.due_at - other.due_at || one.position - other.position)
        .map((row) => ({ ...deliveryOf(row), url: row.webhook === callback ? (urls.get(row.stream) ?? null) : null }));
    },
    async conclude(id, worker, { state, dueAt, status, reason, duration }, now) {
      const query = db
        .updateTable("deliveries")
        .set((column) => ({
          state,
          attempts: column("attempts", "+", 1),
          due_at: dueAt,
          holder: null,
          lease_until: null,
          status,
          reason,
          duration,
          updated: now,
        }))
        .where("id", "=", id)
        .where("holder", "=", worker);
      return (await changed(query)) === 1;
    },
    async free(workers, now) {
      await db
        .updateTable("deliveries")
        .set({ holder: null, lease_until: null })
        .where("holder", "like", `${workers}%`)
        .execute();
      await db
        .updateTable("deliveries")
        .set({ due_at: now })
        .where("state", "=", "pending")
        .where("due_at", ">", now)
        .where("updated", ">", now)
        .execute();
    },
    async nextDue() {
      const due = await db
        .selectFrom("deliveries")
        .select("due_at")
        .where("state", "=", "pending")
        .where("lease_until", "is", null)
        .where((row) =>
          row.or([
            row("webhook", "=", callback),
            row.exists(
              row
                .selectFrom("webhooks")
                .select("webhooks.id")
                .whereRef("webhooks.id", "=", "deliveries.webhook")
                .where("webhooks.state", "=", "enabled"),
            ),
          ]),
        )
        .orderBy("due_at")
        .limit(1)
        .executeTakeFirst();
      const held = await db
        .selectFrom("deliveries")
        .select("lease_until")
        .where("state", "=", "pending")
        .where("lease_until", "is not", null)
        .orderBy("lease_until")
        .limit(1)
        .executeTakeFirst();
      const times = [due?.due_at, held?.lease_until].filter((time) => time != null);
      return times.length === 0 ? undefined : Math.min(...times);
    },

    async deliveries({ state, webhook, stream, limit, cursor }) {
      let query = db.selectFrom("deliveries").selectAll().orderBy("id", "desc").limit(limit);
      if (state !== undefined) query = query.where("state", "=", state);
      if (webhook !== undefined) query = query.where("webhook", "=", webhook);
      if (stream !== undefined) query = query.where("stream", "=", stream);
      if (cursor !== undefined) query = query.where("id", "<", cursor);
      return (await reader.rows(query.compile())).map(deliveryOf);
    },
    async bury(webhook, reason, now) {
      await db
        .updateTable("deliveries")
        .set({ state: "dead", reason, holder: null, lease_until: null, updated: now })
        .where("webhook", "=", webhook)
        .where("state", "=", "pending")
        .execute();
    },
    async redeliver(which, now) {
      let query = db
        .updateTable("deliveries")
        .set({ state: "pending", attempts: 0, due_at: now, holder: null, lease_until: null, updated: now })
        .where("state", "<>", "pending");
      if ("id" in which) query = query.where("id", "=", which.id);
      else {
        query = query.where("state", "=", "dead").where("created", ">=", which.since);
        if (which.webhook !== undefined) query = query.where("webhook", "=", which.webhook);
      }
      return changed(query);
    },
    async counts() {
      const all = { pending: 0, dead: 0, enabled: 0, paused: 0, disabled: 0 };
      for (const { state, count } of [
        ...(await db
          .selectFrom("deliveries")
          .select(["state", ({ fn }) => fn.countAll<number>().as("count")])
          .where("state", "in", ["pending", "dead"])
          .groupBy("state")
          .execute()),
        ...(await db
          .selectFrom("webhooks")
          .select(["state", ({ fn }) => fn.countAll<number>().as("count")])
          .groupBy("state")
          .execute()),
      ])
        all[state as keyof typeof all] = count;
      return all;
    },
    async purge({ delivered, keep, rest }) {
      const any = await db.selectFrom("deliveries").select("id").limit(1).executeTakeFirst();
      if (any === undefined) return;
      const remove = (where: RawBuilder<SqlBool>) => removeInSteps(db, reader, "deliveries", where);
      await remove(sql<SqlBool>`state = 'delivered' and updated < ${delivered}`);
      const [oldest] = await reader.rows(
        db
          .selectFrom("deliveries")
          .select("id")
          .where("state", "=", "delivered")
          .orderBy("id", "desc")
          .offset(keep)
          .limit(1)
          .compile(),
      );
      if (oldest !== undefined) await remove(sql<SqlBool>`state = 'delivered' and id <= ${oldest.id}`);
      await remove(sql<SqlBool>`updated < ${rest} and created < ${rest}`);
    },
  };
  return withErrors(webhooks, (error, name) => (reads.has(name) ? unreadable(error) : unavailable(error)));
};

/** The operations that change something and must not run twice. `purge` may, and takes many steps. */
export const webhookWrites = [
  "secrets",
  "setSecrets",
  "add",
  "change",
  "remove",
  "record",
  "claim",
  "conclude",
  "free",
  "bury",
  "redeliver",
] as const satisfies (keyof Webhooks)[];

const reads: ReadonlySet<string> = new Set<keyof Webhooks>(["list", "position", "nextDue", "deliveries", "counts"]);

/** A value in a `select`; PostgreSQL needs its type. */
const given = (value: string | number | null): RawBuilder<unknown> =>
  typeof value === "number" ? sql`cast(${value} as bigint)` : sql`cast(${value} as text)`;

/** Inserts nothing if the stream was erased, the webhook removed, or the delivery exists already. */
const insertOf = (delivery: NewDelivery, now: number): RawBuilder<unknown> => {
  const row = { ...delivery, state: "pending", attempts: 0, due_at: now, created: now, updated: now };
  const columns = Object.keys(row) as (keyof typeof row)[];
  return sql`
    insert into deliveries (${sql.join(columns.map((name) => sql.ref(name)))})
    select ${sql.join(columns.map((name) => given(row[name])))}
     where exists (select 1 from streams where stream = ${row.stream})
       and (${row.webhook} = ${callback} or exists (select 1 from webhooks where id = ${row.webhook}))
        on conflict (webhook, message) do nothing`;
};

const secretsIn = (text: string): SigningSecret[] => JSON.parse(text) as SigningSecret[];

const webhookOf = (row: Tables["webhooks"]): Webhook => {
  const { events, secrets, failing_since, state, ...rest } = row;
  return {
    ...rest,
    state: state as WebhookState,
    events: JSON.parse(events) as string[],
    secrets: secretsIn(secrets),
    failingSince: failing_since,
  };
};

const deliveryOf = (row: Row): Delivery => {
  const { state, due_at, holder: _, lease_until: __, status, reason, duration, ...rest } = row;
  return {
    ...rest,
    state: state as DeliveryState,
    dueAt: due_at,
    last: duration === null ? null : { status, reason, duration },
  };
};
