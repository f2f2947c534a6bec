import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { browserHere } from "../harness/browser.ts";
import { blocksOf, page } from "../service/document/manual.ts";
import { makeProject, temporary } from "../harness/project.ts";
import { folderOn, install, pack, registryAnswers, serve, type Shell } from "./packed.ts";

/**
 * The package as others build on it: bundled for a browser by Vite and esbuild, type-checked by their own TypeScript.
 */

const root = temporary("sortie-consumers-");
let shell: Shell;

beforeAll(async () => {
  if (!registryAnswers) return;
  shell = await folderOn(root.path, "24");
  await install(shell, await pack(root.path), "vite", "esbuild", "typescript", "@types/node");
}, 600_000);
afterAll(() => root[Symbol.dispose]());

const password = "correct horse battery";

/** What a front end does; the outcome stands in `window.outcome`. */
const front = `import { createServiceClient } from "sortie/client";
const { service, directory, password } = Object.fromEntries(new URLSearchParams(location.search));
const client = createServiceClient({ baseUrl: service, directory, password, throwOnError: true });
window.outcome = (async () => {
  const { data } = await client.task.create({ body: { request: "run the checks", checks: ["true"], productPillar: "code" } });
  const path = { taskID: data.taskID };
  const { data: events } = await client.task.events({ path, query: { after: 0 } });
  const seen = [];
  for await (const { type } of events) seen.push(type);
  const { data: task } = await client.task.wait({ path });
  const { data: zip } = await client.task.projectArchive({ path });
  return [seen.at(0), seen.at(-1), task.lifecycleStatus, zip.size > 1000];
})().catch(String);`;

/** Files of one folder, on an origin of their own. */
const host = async (folder: string): Promise<AsyncDisposable & { origin: string }> => {
  const server = createServer((request, response) => {
    const path = new URL(request.url ?? "/", "http://x").pathname;
    const file = join(folder, path === "/" ? "index.html" : path);
    if (!existsSync(file)) return void response.writeHead(404).end();
    response.setHeader("content-type", path === "/" ? "text/html" : "text/javascript");
    response.end(readFileSync(file));
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };
};

describe.skipIf(!registryAnswers || browserHere === undefined)("a front end on another origin", () => {
  test.each(["vite", "esbuild"])(
    "bundled by %s it speaks with a service that allows its origin, and with no other",
    async (by) => {
      writeFileSync(join(shell.cwd, "page.js"), front);
      writeFileSync(join(shell.cwd, "index.html"), '<!doctype html><script type="module" src="/page.js"></script>');
      const out = join(root.path, by);
      const made =
        by === "vite"
          ? await shell.run("npx", ["vite", "build", "--outDir", out, "--emptyOutDir"])
          : await shell.run("npx", [
              "esbuild",
              "page.js",
              "--bundle",
              "--format=esm",
              "--minify",
              `--outfile=${out}/page.js`,
            ]);
      expect(made.code, made.out).toBe(0);
      if (by === "esbuild") writeFileSync(join(out, "index.html"), readFileSync(join(shell.cwd, "index.html")));
      // Nothing of Node's stands in it, and little of anything.
      const script =
        by === "esbuild"
          ? "page.js"
          : (/\/(assets\/[^"]+)/.exec(readFileSync(join(out, "index.html"), "utf8"))?.[1] ?? "");
      const text = readFileSync(join(out, script), "utf8");
      expect(text).not.toMatch(/["']node:/);
      expect(text.length).toBeLessThan(40_000);
      console.log(`${by}: ${text.length} bytes`);

      await using site = await host(out);
      const settings = { SERVICE_SERVER_PASSWORD: password, SERVICE_ALLOWED_ORIGINS: site.origin };
      await using friend = await serve(shell, join(root.path, `friend-${by}`), settings);
      await using stranger = await serve(shell, join(root.path, `stranger-${by}`), {
        SERVICE_SERVER_PASSWORD: password,
      });
      const directory = makeProject(join(root.path, `project-${by}`), { "a.txt": "a\n" });
      const browser = await chromium.launch({
        executablePath: browserHere ?? "chromium",
        chromiumSandbox: process.getuid?.() !== 0,
      });
      try {
        const visit = async (service: string) => {
          const tab = await browser.newPage();
          await tab.goto(`${site.origin}/?${new URLSearchParams({ service, directory, password })}`);
          return tab.evaluate(() => (globalThis as unknown as { outcome: Promise<unknown> }).outcome);
        };
        expect(await visit(friend.url)).toEqual(["task.snapshot", "stream.end", "completed", true]);
        expect(await visit(stranger.url)).toBe("TypeError: Failed to fetch");
      } finally {
        await browser.close();
      }
    },
  );
});

describe.skipIf(!registryAnswers)("types", () => {
  test.each([
    ["bundler", "esnext"],
    ["nodenext", "nodenext"],
  ])("resolve with moduleResolution %s, libraries checked, and say no to what is wrong", async (resolution, module) => {
    writeFileSync(
      join(shell.cwd, "use.ts"),
      `import { createServiceClient, type StreamFrame } from "sortie/client";
      import { createService, loadConfig, type Service, silent, version } from "sortie";
      const client = createServiceClient({ baseUrl: "http://127.0.0.1:7878", directory: "/project" });
      const { data, error } = await client.task.status({ path: { taskID: "task_x" } });
      const word: "active" | "completed" | "failed" | "cancelled" | undefined = data?.lifecycleStatus;
      const { data: events } = await client.task.events({ path: { taskID: "task_x" } });
      for await (const event of events ?? []) { const frame: StreamFrame = event; console.log(frame.type); }
      const service: Service = await createService(loadConfig({ port: 0 }), silent);
      console.log(word, error?.message, service.url, version);`,
    );
    const options = ["--strict", "--target", "es2024", "--module", module, "--moduleResolution", resolution];
    const check = (file: string) =>
      shell.run("npx", ["tsc", "--noEmit", ...options, "--skipLibCheck", "false", "--types", "node", file]);
    for (const name of ["program", "embedded"]) {
      const text = blocksOf(page("docs/guide.md")).find(
        ({ lang, info }) => lang === "ts" && info["run"] === name,
      )?.text;
      writeFileSync(join(shell.cwd, `${name}.ts`), text ?? "none");
      expect([name, await check(`${name}.ts`)]).toEqual([name, { code: 0, out: expect.not.stringContaining("error") }]);
    }
    expect(await check("use.ts")).toEqual({ code: 0, out: expect.not.stringContaining("error") });
    writeFileSync(
      join(shell.cwd, "wrong.ts"),
      `import { createServiceClient } from "sortie/client";
      const client = createServiceClient({ baseUrl: "http://127.0.0.1:7878" });
      await client.task.create({ body: { productPillar: "code" } });`,
    );
    const wrong = await check("wrong.ts");
    expect([wrong.code, wrong.out]).toEqual([expect.any(Number), expect.stringContaining("'request' is missing")]);
    expect(wrong.code).not.toBe(0);
  });
});
