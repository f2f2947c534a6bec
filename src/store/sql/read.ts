import type { Kysely } from "kysely";
import type { Recorded } from "../../domain/event.ts";
import { eventOf, hash, answerID } from "./row.ts";
import type { Tables } from "./schema.ts";
import type { Json, Store } from "../store.ts";

/** Queries on the log, with the same SQL for both databases. */

export const createReads = (db: Kysely<Tables>): Pick<Store, "read" | "since" | "position" | "once"> => ({
  async read(stream, { after = 0, limit, types, last = false } = {}) {
    let query = db
      .selectFrom("events")
      .selectAll()
      .where("stream", "=", stream)
      .where("version", ">", after)
      .orderBy("version", last ? "desc" : "asc");
    if (types !== undefined) query = query.where("type", "in", types);
    if (limit !== undefined) query = query.limit(limit);
    const events = (await query.execute()).map(eventOf);
    return last ? events.reverse() : events;
  },

  async since(after, limit, filter = {}): Promise<Recorded[]> {
    let query = db
      .selectFrom("events")
      .selectAll("events")
      .where("events.position", ">", after)
      .orderBy("events.position")
      .limit(limit);
    if (filter.stream !== undefined) query = query.where("events.stream", "=", filter.stream);
    if (filter.types !== undefined) query = query.where("events.type", "in", filter.types);
    if (filter.project !== undefined)
      query = query.where((row) => {
        const project = hash(filter.project ?? "");
        const tasks = row.selectFrom("tasks").select("tasks.stream").whereRef("tasks.stream", "=", "events.stream");
        const missions = row
          .selectFrom("missions")
          .select("missions.stream")
          .whereRef("missions.stream", "=", "events.stream");
        return row.or([
          row.exists(tasks.where("tasks.project", "=", project)),
          row.exists(missions.where("missions.project", "=", project)),
        ]);
      });
    if (filter.mission !== undefined) {
      const { mission } = filter;
      query = query.where((row) =>
        row.or([
          row("events.stream", "=", mission),
          row(
            "events.stream",
            "in",
            row.selectFrom("tasks").select("tasks.stream").where("tasks.mission", "=", mission),
          ),
        ]),
      );
    }
    return (await query.execute()).map(eventOf);
  },

  async position() {
    const row = await db.selectFrom("log").select("position").executeTakeFirstOrThrow();
    return row.position;
  },

  async once(scope, key) {
    const row = await db
      .selectFrom("answers")
      .select(["body_hash", "status", "body"])
      .where("id", "=", answerID(scope, key))
      .executeTakeFirst();
    return row && { bodyHash: row.body_hash, stored: { status: row.status, body: JSON.parse(row.body) as Json } };
  },
});
