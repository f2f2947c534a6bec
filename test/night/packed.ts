import { execFile, spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect } from "vitest";
import { compileCache } from "../harness/built.ts";
import { until } from "../harness/project.ts";

/** What `npm pack` makes, and the Nodes to install it on, from the npm registry. */

const home = join(import.meta.dirname, "../..");

/** Whether the registry answers; without it nothing of this can be shown, which is said once. */
export const registryAnswers = spawnSync("npm", ["view", "node@24", "version"], { timeout: 60_000 }).status === 0;
if (!registryAnswers)
  console.warn("\n!!! TESTS SKIPPED: the npm registry does not answer; nothing of the package was installed.\n");

/**
 * Nothing of the package's own scripts, and nothing that configures a service; npm keeps the settings of who runs this.
 */
const plain = Object.fromEntries(
  Object.entries(process.env).filter(
    ([name]) => !/^(SERVICE_|NODE_(ENV|OPTIONS|COMPILE_CACHE)$|npm_(package|lifecycle))/.test(name),
  ),
);

export type Ended = { code: number | null; out: string };

/** Commands in one folder; `bin` is where their Node lies. */
export const shellIn = (cwd: string, bin: string, more: NodeJS.ProcessEnv = {}) => {
  const env = { ...plain, PATH: `${bin}:${process.env["PATH"] ?? ""}`, ...more };
  return {
    cwd,
    env,
    run: (command: string, args: string[]): Promise<Ended> =>
      new Promise((resolve) => {
        execFile(command, args, { cwd, env, maxBuffer: 64 * 1024 * 1024 }, (error, out, err) =>
          resolve({ code: error === null ? 0 : Number(error.code), out: out + err }),
        );
      }),
  };
};
export type Shell = ReturnType<typeof shellIn>;

const must = async (shell: Shell, command: string, args: string[]): Promise<string> => {
  const { code, out } = await shell.run(command, args);
  expect(code, out).toBe(0);
  return out;
};

/**
 * The archive that `npm pack` makes of this repository. One at a time: while it runs, a file of the package stands in
 * the repository, which it removes in the end.
 */
export const pack = async (into: string): Promise<string> => {
  await using _alone = await alone(`${compileCache.NODE_COMPILE_CACHE}-packing`);
  await must(shellIn(home, join(process.execPath, "..")), "npm", ["pack", "--pack-destination", into]);
  return join(into, readdirSync(into).find((name) => name.endsWith(".tgz")) ?? "none");
};

/** While the folder is this worker's; made in the folder of the run, so that none is left over. */
const alone = async (folder: string): Promise<AsyncDisposable> => {
  const take = (): boolean => {
    try {
      mkdirSync(folder);
      return true;
    } catch {
      return false;
    }
  };
  await until(
    () => Promise.resolve(take()),
    (taken) => taken,
    300_000,
  );
  return { [Symbol.asyncDispose]: () => Promise.resolve(rmdirSync(folder)) };
};

/** A folder for somebody's project, with this Node first on its `PATH`. */
export const folderOn = async (root: string, node: string, name = node): Promise<Shell> => {
  const [tools, folder] = [join(root, `node-${name}`), join(root, `empty-${name}`)];
  for (const path of [tools, folder]) mkdirSync(path);
  writeFileSync(join(tools, "package.json"), '{ "private": true, "allowScripts": { "node": true } }');
  await must(shellIn(tools, join(process.execPath, "..")), "npm", [...quiet, `node@${node}`]);
  writeFileSync(join(folder, "package.json"), '{ "private": true, "type": "module" }');
  const shell = shellIn(folder, join(tools, "node_modules/node/bin"));
  expect((await shell.run("node", ["--version"])).out).toMatch(new RegExp(`^v${node}\\.`));
  return shell;
};

const quiet = ["install", "--no-audit", "--no-fund"];
export const install = (shell: Shell, ...what: string[]): Promise<string> => must(shell, "npm", [...quiet, ...what]);

export type Served = AsyncDisposable & { url: string; said(): string };

/** `sortie serve` of what is installed there; it must end by itself with 0. */
export const serve = async (
  { cwd, env }: Shell,
  data: string,
  settings: Record<string, string> = {},
): Promise<Served> => {
  const bin = join(cwd, "node_modules/.bin/sortie");
  const service = spawn(bin, ["serve", "--port", "0", "--data-dir", data], { cwd, env: { ...env, ...settings } });
  let said = "";
  for (const stream of [service.stdout, service.stderr]) stream.on("data", (chunk) => (said += String(chunk)));
  const ended = new Promise<number | null>((done) => service.once("close", done));
  await until(
    async () => said,
    (text) => text.includes("\nData "),
  );
  return {
    url: /listening on (\S+)/.exec(said)?.[1] ?? "",
    said: () => said,
    async [Symbol.asyncDispose]() {
      service.kill("SIGTERM");
      expect(await ended, said).toBe(0);
    },
  };
};

/**
 * A registry that has the archive, and sends whoever asks for anything else to the one in use. Like npm's own it says
 * beforehand whether a package brings its shrinkwrap: out of a file npm would not look for it.
 */
export const registryWith = async (archive: string): Promise<AsyncDisposable & { url: string }> => {
  const { out } = await shellIn(home, join(process.execPath, "..")).run("npm", ["config", "get", "registry"]);
  const others = (/^https?:\S+$/m.exec(out)?.[0] ?? "https://registry.npmjs.org").replace(/\/$/, "");
  const bytes = readFileSync(archive);
  const unpacked = (name: string) => spawnSync("tar", ["xOzf", archive, `package/${name}`], { encoding: "utf8" });
  const manifest = JSON.parse(unpacked("package.json").stdout) as { name: string; version: string };
  const { name, version } = manifest;
  const server = createServer((request, response) => {
    const dist = {
      tarball: `${url}/${name}.tgz`,
      integrity: `sha512-${createHash("sha512").update(bytes).digest("base64")}`,
    };
    const one = { ...manifest, dist, _hasShrinkwrap: unpacked("npm-shrinkwrap.json").status === 0 };
    if (request.url === `/${name}`)
      response.end(JSON.stringify({ name, "dist-tags": { latest: version }, versions: { [version]: one } }));
    else if (request.url === `/${name}.tgz`) response.end(bytes);
    else response.writeHead(307, { location: `${others}${request.url}` }).end();
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };
};
