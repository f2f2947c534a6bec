import { Client } from "pg";
import { describe, expect, test } from "vitest";
import { countSkipped, freshSchema, postgresURL } from "../harness/postgres.ts";
import { temporary } from "../harness/project.ts";
import { startService } from "../harness/service.ts";

/** A PostgreSQL without connections to spare: a service says so in one line and does not start. */

const administer = async (text: string): Promise<void> => {
  const client = new Client({ connectionString: postgresURL });
  await client.connect();
  try {
    await client.query(text);
  } finally {
    await client.end();
  }
};
const user = `sortie_test_few_${process.pid}`;
const mayMakeUsers =
  postgresURL !== undefined &&
  (await administer(`create role ${user} login connection limit 0`).then(
    () => true,
    () => false,
  ));

describe.skipIf(!mayMakeUsers)("a database with too few connections", () => {
  test("refuses a service at its start, with what to do; control: with enough it starts", async () => {
    await using schema = freshSchema(postgresURL ?? "");
    await schema.create();
    using folder = temporary("sortie-full-");
    await administer(`grant all on schema "${schema.name}" to ${user}`);
    const url = new URL(postgresURL ?? "");
    url.username = user;
    url.searchParams.set("options", `-c search_path=${schema.name}`);
    const start = async (limit: number, node?: string) => {
      await administer(`alter role ${user} connection limit ${limit}`);
      const more: Record<string, string> = node === undefined ? { SERVICE_ENGINE: "local" } : { SERVICE_NODE: node };
      await using _started = await startService(folder.path, { SERVICE_DATABASE_URL: url.href, ...more });
    };
    try {
      for (const limit of [0, 1, 2, 6])
        for (const node of [undefined, "a"])
          await expect(start(limit, node), `${limit} ${node}`).rejects.toMatchObject({
            exitCode: 69,
            message: expect.stringMatching(/connections.*: raise max_connections, or the limit of the user/),
          });
      await start(12);
      // For its engine a node makes a schema of its own.
      await expect(start(30, "a")).rejects.toMatchObject({
        exitCode: 69,
        message: expect.stringMatching(/permission denied.*Grant the user/),
      });
    } finally {
      await administer(`drop owned by ${user} cascade; drop role ${user}`);
    }
  });
});
if (!mayMakeUsers) countSkipped(1);
