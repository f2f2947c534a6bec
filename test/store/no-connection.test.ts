import { randomBytes } from "node:crypto";
import { Client } from "pg";
import { expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import { createPostgresStore } from "../../src/store/postgres/postgres.ts";
import { message } from "../fixtures/store/message.ts";
import { startPostgresProxy } from "../harness/double/postgres-proxy.ts";
import { created } from "../harness/events.ts";
import { countSkipped, freshSchema, postgresURL } from "../harness/postgres.ts";
import { temporary } from "../harness/project.ts";

/** A database that has no connection to spare: its user may open no more. */

/** Somebody who may not connect beyond the limits that others have. */
const freshUser = async (admin: Client) => {
  const name = `sortie_test_${randomBytes(6).toString("hex")}`;
  const { rows } = await admin.query<{ name: string }>("select current_database() as name");
  await admin.query(`create role "${name}" login; grant create on database "${rows[0]?.name}" to "${name}"`);
  return {
    name,
    limit: (connections: number) => admin.query(`alter role "${name}" connection limit ${connections}`),
    [Symbol.asyncDispose]: async () => void (await admin.query(`drop owned by "${name}" cascade; drop role "${name}"`)),
  };
};

test.skipIf(postgresURL === undefined)(
  "no connection to spare: writes and reads that come then are answered when there is one; control: a plain client is refused",
  async () => {
    await using scope = new AsyncDisposableStack();
    const admin = new Client({ connectionString: postgresURL });
    await admin.connect();
    scope.defer(() => admin.end());
    const user = scope.use(await freshUser(admin));
    const own = new URL(postgresURL ?? "");
    own.username = user.name;
    const schema = scope.use(freshSchema(postgresURL ?? "")).name;
    const folder = scope.use(temporary("sortie-spare-"));
    const proxy = scope.use(await startPostgresProxy(own.href));
    const store = scope.use(await createPostgresStore({ url: proxy.url, dataDir: folder.path, log: silent, schema }));
    const first = created();
    const stream = first.data.taskID;
    await store.commit({ appends: [{ stream, expected: 0, events: [first] }] });

    await user.limit(0);
    proxy.cutAll();
    const plain = new Client({ connectionString: own.href });
    await expect(plain.connect()).rejects.toMatchObject({ code: "53300" });
    let over = false;
    const all = Promise.all([
      store.commit({ appends: [{ stream, expected: "any", events: [message()] }] }),
      store.state(stream),
      store.read(stream),
    ]).finally(() => (over = true));
    await expect(new Client({ connectionString: own.href }).connect()).rejects.toMatchObject({ code: "53300" });
    expect(over).toBe(false);
    await user.limit(-1);
    const [written, state] = await all;
    expect([written.ok, state?.taskID]).toEqual([true, stream]);
    expect(await store.read(stream)).toHaveLength(2);
  },
);
if (postgresURL === undefined) countSkipped(1);
