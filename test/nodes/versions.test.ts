import { Client } from "pg";
import { describe, expect, test } from "vitest";
import { isKnown } from "../../src/protocol/event/event.ts";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { change, create, ended, place, send } from "./stage.ts";

/**
 * A rolling upgrade: nodes of this version on a database that one of the next version has migrated. The next version
 * does not exist yet; what it may do to the schema, and an event that it may write, are done here by hand.
 */

describe.skipIf(postgresURL === undefined)("nodes of two versions", () => {
  const connect = async (env: Record<string, string>) => {
    const client = new Client({ connectionString: env["SERVICE_DATABASE_URL"] });
    await client.connect();
    return {
      run: (text: string) => client.query<Record<string, unknown>>(text),
      [Symbol.asyncDispose]: () => client.end(),
    };
  };
  const migrated = (name: string) => `insert into migrations (name, at) values ('${name}', '2026-01-01T00:00:00.000Z')`;
  /** All that a migration may do: it only adds. */
  const next = `
    alter table events add column shade text; alter table streams add column weight integer not null default 7;
    alter table tasks add column colour text not null default 'red'; alter table missions add column colour text;
    alter table nodes add column mood text; alter table placements add column shelf text;
    create table added_later (id integer primary key); create index streams_weight on streams (weight);
    ${migrated("9001-next.r2")}`;

  test("this version works on while the next one migrates, starts anew beside it, and leaves what it does not know; two versions on it is refused", {
    timeout: 120_000,
  }, async () => {
    await using here = await place();
    await using database = await connect(here.env(undefined));
    const directory = here.project("p");
    const completed = { lifecycleStatus: "completed" };
    {
      await using a = await here.start("a");
      const during = await create(a, directory, change, { checks: ["sleep 1", "grep t a.txt"], landing: "branch" });
      await database.run(next);
      await using b = await here.start("b");
      expect((await ended(b, during)).body).toMatchObject(completed);
      // An event of the next version, in a Task and in its list row's stream.
      expect(isKnown("task.tinted")).toBe(false);
      await database.run(`
        with head as (update streams set version = version + 1 where stream = '${during}' returning version),
             log as (update log set position = position + 1 returning position)
        insert into events (position, stream, version, type, at, data)
        select position, '${during}', version, 'task.tinted', '2026-01-01T00:00:00.000Z', '{"tint":"green"}' from head, log`);
      for (const node of [a, b]) {
        for (const path of ["status", "board", "messages", "diff"])
          expect([path, (await send(node, "GET", `/task/${during}/${path}`)).status]).toEqual([
            path,
            path === "diff" && node === b ? 503 : 200,
          ]);
        expect((await send(node, "GET", "/tasks", { directory })).status).toBe(200);
      }
      expect((await send(a, "GET", `/task/${during}/board`)).text).toContain("task.tinted");
      // It goes on behind that event.
      const message = { directory, body: { source: "test", text: "Replace `two` with `three` in a.txt" } };
      expect((await send(b, "POST", `/task/${during}/message`, message)).status).toBe(202);
      expect((await ended(b, during)).body).toMatchObject({ ...completed, attempt: 2 });
    }
    await using again = await here.start("a");
    expect((await ended(again, await create(again, directory, change, { landing: "branch" }))).body).toMatchObject(
      completed,
    );
    const { rows } = await database.run("select distinct weight, colour from streams join tasks using (stream)");
    expect(rows).toEqual([{ weight: 7, colour: "red" }]);

    await database.run(migrated("9002-later.r3"));
    await expect(here.start("c")).rejects.toMatchObject({
      exitCode: 78,
      message: expect.stringMatching(/9002-later\.r3.*two versions newer/) as string,
    });
  });
});
if (postgresURL === undefined) countSkipped(1);
