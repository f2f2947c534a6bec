import { execFile, spawn } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeProject, temporary, until } from "../harness.ts";

/** What `npm pack` makes, installed into an empty folder as a user does it: the demo, the service, the client. Needs the npm registry. */

const home = join(import.meta.dirname, "../..");
const root = temporary("sortie-pack-");
const folder = join(root.path, "empty");
/** Nothing of the package's own scripts, and nothing that configures a service; npm keeps the settings of who runs this. */
const env = {
  ...Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) => !/^(SERVICE_|NODE_(ENV|OPTIONS|COMPILE_CACHE)$|npm_(package|lifecycle))/.test(name),
    ),
  ),
  PATH: `${join(process.execPath, "..")}:${process.env["PATH"] ?? ""}`,
};

type Ended = { code: number | null; out: string };
const run = (command: string, args: string[], cwd: string): Promise<Ended> =>
  new Promise((resolve) => {
    execFile(command, args, { cwd, env, maxBuffer: 64 * 1024 * 1024 }, (error, out, err) =>
      resolve({ code: error === null ? 0 : Number(error.code), out: out + err }),
    );
  });

beforeAll(async () => {
  mkdirSync(folder);
  const packed = await run("npm", ["pack", "--pack-destination", root.path], home);
  expect(packed.code, packed.out).toBe(0);
  const archive = readdirSync(root.path).find((name) => name.endsWith(".tgz")) ?? "none";
  writeFileSync(join(folder, "package.json"), '{ "private": true, "type": "module" }');
  const installed = await run("npm", ["install", "--no-audit", "--no-fund", join(root.path, archive)], folder);
  expect(installed.code, installed.out).toBe(0);
}, 600_000);
afterAll(() => root[Symbol.dispose]());

test("what is installed is the product: no tests, no sources, no dependency of development", () => {
  expect(readdirSync(join(folder, "node_modules/sortie")).toSorted()).toEqual([
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "bin",
    "dist",
    "docs",
    "examples",
    "package.json",
    "schemas",
    "squads",
  ]);
  const names = readdirSync(join(folder, "node_modules"));
  for (const name of ["vitest", "vite", "react", "typescript", "node"]) expect(names).not.toContain(name);
});

test("npx sortie demo", async () => {
  const { code, out } = await run("npx", ["sortie", "demo"], folder);
  expect(code, out).toBe(0);
  expect(out).toMatch(/\nLanded commit [0-9a-f]{40}\n/);
});

test("sortie serve: the page, its files, and a Task by the client imported in Node", async () => {
  const directory = makeProject(join(root.path, "project"), { "greet.txt": "hello\n" });
  const bin = join(folder, "node_modules/.bin/sortie");
  const service = spawn(bin, ["serve", "--port", "0", "--data-dir", join(root.path, "data")], { cwd: folder, env });
  let said = "";
  for (const stream of [service.stdout, service.stderr]) stream.on("data", (chunk) => (said += String(chunk)));
  const ended = new Promise<number | null>((done) => service.once("close", done));
  try {
    await until(
      async () => said,
      (text) => text.includes("\nData "),
    );
    const url = /listening on (\S+)/.exec(said)?.[1] ?? "";
    const page = await (await fetch(url)).text();
    for (const [, asset] of page.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g))
      expect([asset, (await fetch(url + asset)).status]).toEqual([asset, 200]);
    expect(page).toContain("/assets/");
    expect((await fetch(`${url}/doc/reference.js`)).status).toBe(200);
    writeFileSync(
      join(folder, "use.js"),
      `import { createServiceClient } from "sortie/client";
      import { createServiceClient as same, version } from "sortie";
      const client = createServiceClient({ baseUrl: "${url}", directory: ${JSON.stringify(directory)}, throwOnError: true });
      const body = { request: 'replace "hello" with "good day" in greet.txt', productPillar: "code" };
      const { data } = await client.task.create({ body });
      const { data: task } = await client.task.wait({ path: { taskID: data.taskID }, timeoutMs: 20000 });
      console.log(task.lifecycleStatus, typeof same, version);`,
    );
    const used = await run(process.execPath, ["use.js"], folder);
    const { version } = JSON.parse(readFileSync(join(home, "package.json"), "utf8")) as { version: string };
    expect(used.out).toBe(`completed function ${version}\n`);
    expect(readFileSync(join(directory, "greet.txt"), "utf8")).toBe("good day\n");
  } finally {
    service.kill("SIGTERM");
  }
  expect(await ended).toBe(0);
});
