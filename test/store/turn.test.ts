import { describe, expect, test } from "vitest";
import { createClock } from "../../src/clock.ts";
import { silent } from "../../src/log.ts";
import { joinDatabase } from "../../src/store/postgres/node/member.ts";
import { startPostgresProxy } from "../harness/double/postgres-proxy.ts";
import { countSkipped, freshSchema, postgresURL } from "../harness/postgres.ts";

/** What one node at a time does. */

const place = async (url: string) => {
  const schema = freshSchema(url);
  await schema.create();
  const proxy = await startPostgresProxy(url);
  const join = (name: string, to = url) => {
    const at = new URL(to);
    at.searchParams.set("options", `-c search_path=${schema.name}`);
    const about = {
      dataDir: `/nowhere/${name}`,
      instance: name,
      version: "1.0.0",
      sole: undefined,
      role: "all",
    } as const;
    return joinDatabase({ ...about, url: at.href, name, clock: createClock(), log: silent });
  };
  return {
    proxy,
    join,
    async [Symbol.asyncDispose]() {
      await proxy[Symbol.asyncDispose]();
      await schema[Symbol.asyncDispose]();
    },
  };
};

describe.skipIf(postgresURL === undefined)("PostgreSQL", () => {
  test("a turn is one node's, and one caller's there, until it is over; control: another name is free", async () => {
    await using here = await place(postgresURL ?? "");
    await using a = await here.join("a");
    await using b = await here.join("b");
    const turn = await a.turn("sweep");
    expect([turn?.isHeld(), await b.turn("sweep"), await a.turn("sweep")]).toEqual([true, undefined, undefined]);
    await using other = await b.turn("other");
    expect(other?.isHeld()).toBe(true);
    await turn?.[Symbol.asyncDispose]();
    await using next = await b.turn("sweep");
    expect([next?.isHeld(), await a.turn("sweep")]).toEqual([true, undefined]);
  });

  test("it ends with the connection of its node, which knows of that", async () => {
    await using here = await place(postgresURL ?? "");
    await using a = await here.join("a", here.proxy.url);
    await using b = await here.join("b");
    await using turn = await a.turn("sweep");
    here.proxy.cutAll();
    await expect.poll(() => turn?.isHeld()).toBe(false);
    await expect
      .poll(async () => {
        await using next = await b.turn("sweep");
        return next?.isHeld();
      })
      .toBe(true);
  });
});
if (postgresURL === undefined) countSkipped(2);
