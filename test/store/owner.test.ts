import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, describe, test } from "vitest";
import { silent } from "../../src/log.ts";
import { ownDatabase } from "../../src/store/postgres/node/owner.ts";
import { startProcess } from "../crash/process.ts";
import { compileCache } from "../harness/built.ts";
import { startPostgresProxy } from "../harness/double/postgres-proxy.ts";
import { night } from "../harness/night.ts";
import { countSkipped, freshSchema, postgresURL } from "../harness/postgres.ts";
import { startService } from "../harness/service.ts";
import { temporary } from "../harness/project.ts";

/** One live service per database, and who it is. */

const command = fileURLToPath(new URL("../crash/serve.ts", import.meta.url));

const place = async (url: string) => {
  const schema = freshSchema(url);
  await schema.create();
  const proxy = await startPostgresProxy(url);
  const at = (to: string): string => {
    const own = new URL(to);
    own.searchParams.set("options", `-c search_path=${schema.name}`);
    return own.href;
  };
  const own = (instance: string, to = url) =>
    ownDatabase({ url: at(to), dataDir: `/data/${instance}`, instance, log: silent });
  return {
    proxy,
    url: at(url),
    own,
    async [Symbol.asyncDispose]() {
      await proxy[Symbol.asyncDispose]();
      await schema[Symbol.asyncDispose]();
    },
  };
};

const refusal = (folder: string) => ({
  name: "StartError",
  exitCode: 75,
  message: expect.stringMatching(new RegExp(`process ${process.pid} on .* with the data folder ${folder}`)) as string,
});

const cases: { name: string; night?: true; run: (url: string) => Promise<void> }[] = [
  {
    name: "another is refused while one lives, and has it at once when that one has stopped",
    async run(url) {
      await using here = await place(url);
      const one = await here.own("one");
      await expect(here.own("two")).rejects.toMatchObject(refusal("/data/one"));
      await one[Symbol.asyncDispose]();
      const begun = performance.now();
      await using two = await here.own("two");
      expect(performance.now() - begun).toBeLessThan(1_500);
      expect(two).toBeDefined();
    },
  },
  {
    name: "the next life of the same data folder ends what is left of the last one's connection",
    async run(url) {
      await using here = await place(url);
      // Held, and never heard of again, as after the loss of a host.
      await using before = await here.own("one", here.proxy.url);
      here.proxy.rule(() => "hold");
      await using after = await here.own("one");
      await expect(here.own("two")).rejects.toMatchObject(refusal("/data/one"));
      expect([before, after]).toHaveLength(2);
      here.proxy.rule(undefined);
      here.proxy.cutAll();
    },
  },
  {
    name: "a connection that is cut is made again, and nobody gets between",
    async run(url) {
      await using here = await place(url);
      await using one = await here.own("one", here.proxy.url);
      let lost = false;
      void one.lost.then(() => {
        lost = true;
      });
      here.proxy.cutAll();
      await expect(here.own("two")).rejects.toMatchObject(refusal("/data/one"));
      here.proxy.cutAll();
      await expect(here.own("two")).rejects.toMatchObject(refusal("/data/one"));
      expect(lost).toBe(false);
    },
  },
  {
    night: true,
    name: "one that cannot reach the database loses it to the next, and hears of that",
    async run(url) {
      await using here = await place(url);
      await using one = await here.own("one", here.proxy.url);
      here.proxy.down();
      await using two = await here.own("two");
      here.proxy.open();
      expect(await one.lost).toMatchObject({ exitCode: 75 });
      await expect(here.own("three")).rejects.toMatchObject(refusal("/data/two"));
      expect(two).toBeDefined();
    },
  },
  {
    name: "a service whose start is refused says why; control: with the data folder of the last one it starts",
    async run(url) {
      await using here = await place(url);
      using folder = temporary("sortie-owner-");
      const start = (name: string) =>
        startService(`${folder.path}/${name}`, { SERVICE_DATABASE_URL: here.url, SERVICE_ENGINE: "local" });
      {
        await using _first = await start("a");
        await expect(start("b")).rejects.toMatchObject(refusal(`${folder.path}/a`));
      }
      await using again = await start("a");
      expect((await fetch(`${again.url}/health`)).status).toBe(200);
    },
  },
  {
    night: true,
    name: "a second service with another data folder ends with 75 and one line; control: after the first was killed it starts",
    async run(url) {
      await using here = await place(url);
      using folder = temporary("sortie-owner-");
      const env = (name: string) => ({
        SERVICE_DATA_DIR: `${folder.path}/${name}`,
        SERVICE_DATABASE_URL: here.url,
        SERVICE_ENGINE: "local",
        HOME: folder.path,
      });
      const first = await startProcess(env("a"));
      const ended: unknown = await promisify(execFile)(process.execPath, [command, "serve", "--port", "0"], {
        env: { PATH: process.env["PATH"], NODE_NO_WARNINGS: "1", ...compileCache, ...env("b") },
      }).catch((error: unknown) => error);
      expect(ended).toMatchObject({
        code: 75,
        stdout: "",
        stderr: expect.stringMatching(
          /^sortie: Another service uses this database: process \d+ on .*\/a, last heard of \d s ago\. Stop it, .*\n$/,
        ) as string,
      });
      await first.kill("SIGKILL");
      await using second = await startProcess(env("b"));
      expect((await fetch(`${second.url}/health`)).status).toBe(200);
    },
  },
];

describe.skipIf(postgresURL === undefined)("PostgreSQL", () => {
  for (const { name, run } of cases.filter((each) => night || each.night === undefined))
    test.concurrent(name, () => run(postgresURL ?? ""));
});
if (postgresURL === undefined) countSkipped(cases.length);
