import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { blocksOf, page } from "../service/document/manual.ts";
import { makeProject, temporary } from "../harness/project.ts";
import { folderOn, install, pack, registryAnswers, registryWith, serve, type Shell } from "./packed.ts";

/**
 * What `npm pack` makes, installed into an empty folder as a user does it, on every Node that it promises: the demo,
 * the service with a Task by curl, the client, the service inside of somebody's program. Needs the npm registry.
 */

const root = temporary("sortie-pack-");
const { version } = JSON.parse(page("package.json")) as { version: string };
let archive: string;

beforeAll(async () => {
  if (registryAnswers) archive = await pack(root.path);
}, 600_000);
afterAll(() => root[Symbol.dispose]());

/** Runs it, prints how long it took, and gives what it gave. */
const timed = async <T>(what: string, work: () => Promise<T>): Promise<T> => {
  const began = performance.now();
  const result = await work();
  console.log(`${what}: ${((performance.now() - began) / 1000).toFixed(1)} s`);
  return result;
};

describe.skipIf(!registryAnswers).each(["22", "24", "26"])("on Node %s", (node) => {
  let shell: Shell;

  beforeAll(async () => {
    shell = await folderOn(root.path, node);
    await timed(`Node ${node}, npm install`, () => install(shell, archive));
  }, 600_000);

  test("what is installed is the product: no tests, no sources, no dependency of development", () => {
    expect(readdirSync(join(shell.cwd, "node_modules/sortie")).toSorted()).toEqual([
      "CHANGELOG.md",
      "LICENSE",
      "README.md",
      "bin",
      "deploy",
      "dist",
      "docs",
      "examples",
      "npm-shrinkwrap.json",
      "package.json",
      "schemas",
      "squads",
    ]);
    const names = readdirSync(join(shell.cwd, "node_modules"));
    for (const name of ["vitest", "vite", "react", "typescript", "node"]) expect(names).not.toContain(name);
  });

  test("npx sortie demo", async () => {
    const { code, out } = await timed(`Node ${node}, npx sortie demo`, () => shell.run("npx", ["sortie", "demo"]));
    expect(code, out).toBe(0);
    expect(out).toMatch(/\nLanded commit [0-9a-f]{40}\n/);
    // What it says next works where no clone is.
    expect(out).toContain("npx sortie serve");
    expect(out).not.toContain("npm start");
  });

  test("sortie serve: the page with its files, a Task by curl, a Task by the client", async () => {
    const directory = makeProject(join(root.path, `project-${node}`), { "greet.txt": "hello\n", "who.txt": "world\n" });
    await using service = await timed(`Node ${node}, sortie serve`, () =>
      serve(shell, join(root.path, `data-${node}`)),
    );
    const { url } = service;
    const html = await (await fetch(url)).text();
    for (const [, asset] of html.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g))
      expect([asset, (await fetch(url + asset)).status]).toEqual([asset, 200]);
    expect(html).toContain("/assets/");
    expect((await fetch(`${url}/doc/reference.js`)).status).toBe(200);

    const body = { request: 'replace "world" with "all" in who.txt', productPillar: "code" };
    const headers = ["-H", `x-service-directory: ${directory}`, "-H", "content-type: application/json"];
    const made = await shell.run("curl", ["-s", `${url}/task`, ...headers, "-d", JSON.stringify(body)]);
    const { task_id: taskID } = JSON.parse(made.out) as { task_id: string };
    const events = await shell.run("curl", ["-sN", `${url}/task/${taskID}/events?after=0`]);
    expect(events.out).toContain('"type":"task.settled"');
    expect(readFileSync(join(directory, "who.txt"), "utf8")).toBe("all\n");

    writeFileSync(
      join(shell.cwd, "use.js"),
      `import { createServiceClient } from "sortie/client";
      import { createServiceClient as same, version } from "sortie";
      const client = createServiceClient({ baseUrl: "${url}", directory: ${JSON.stringify(directory)}, throwOnError: true });
      const body = { request: 'replace "hello" with "good day" in greet.txt', productPillar: "code" };
      const { data } = await client.task.create({ body });
      const { data: task } = await client.task.wait({ path: { taskID: data.taskID }, timeoutMs: 20000 });
      console.log(task.lifecycleStatus, typeof same, version);`,
    );
    const used = await shell.run("node", ["use.js"]);
    expect(used.out).toBe(`completed function ${version}\n`);
    expect(readFileSync(join(directory, "greet.txt"), "utf8")).toBe("good day\n");
  });

  test("createService() in somebody's program, as the guide shows it", async () => {
    const text = blocksOf(page("docs/guide.md")).find(({ info }) => info["run"] === "embedded")?.text ?? "none";
    const project = makeProject(join(root.path, `embedded-${node}`), {
      "package.json": '{ "scripts": { "test": "true" } }',
    });
    writeFileSync(join(shell.cwd, "embedded.ts"), text);
    const { out } = await shell.run("env", [
      `--chdir=${project}`,
      `HOME=${root.path}`,
      "node",
      join(shell.cwd, "embedded.ts"),
    ]);
    expect(out).toBe("completed [ 'npm test: passed' ]\n");
  });
});

describe.skipIf(!registryAnswers)("on a Node that is too old", () => {
  test("one line says what is needed and where to get it, and nothing is a stack", async () => {
    const shell = await folderOn(root.path, "20");
    await install(shell, archive);
    const { code, out } = await shell.run("node_modules/.bin/sortie", ["demo"]);
    expect(code).toBe(78);
    expect(out).toMatch(/^sortie: expected Node 22\.18 or newer, got 20\.\d+\.\d+\. Install Node 24 from .*\n$/);
    // The client asks for nothing that Node 20 lacks.
    const client = await shell.run("node", ["-e", 'import("sortie/client").then((m) => console.log(Object.keys(m)))']);
    expect(client.out).toBe("[ 'ServiceCallError', 'StrangeAnswer', 'createServiceClient' ]\n");
  });
});

describe.skipIf(!registryAnswers)("from a registry", () => {
  /** Names and versions of what lies in a folder of packages, and in those of these, but those of one platform. */
  const versionsIn = (folder: string, own = ""): string[] =>
    readdirSync(folder)
      .flatMap((name) =>
        name.startsWith("@") ? readdirSync(join(folder, name)).map((inner) => `${name}/${inner}`) : name,
      )
      .flatMap((name) => {
        if (name.startsWith(".")) return [];
        const { version, os } = JSON.parse(readFileSync(join(folder, name, "package.json"), "utf8")) as Entry;
        const inner = join(folder, name, "node_modules");
        const below = existsSync(inner) && inner !== own ? versionsIn(inner) : [];
        return [
          ...(os === undefined ? [`${name} ${version}`] : []),
          ...below.map((each) => `${name}/node_modules/${each}`),
        ];
      })
      .toSorted();
  type Entry = { version: string; dev?: true; os?: string[] };

  test("what it needs is installed in the versions of the lockfile, and nothing else", {
    timeout: 300_000,
  }, async () => {
    const { packages } = JSON.parse(page("package-lock.json")) as { packages: Record<string, Entry> };
    const wanted = Object.entries(packages).flatMap(([path, { version, dev, os }]) =>
      path === "" || dev === true || os !== undefined ? [] : [`${path.slice("node_modules/".length)} ${version}`],
    );
    const shell = await folderOn(join(root.path), "24", "registry");
    await using registry = await registryWith(archive);
    await install(shell, "sortie", "--registry", registry.url);
    const own = join(shell.cwd, "node_modules/sortie/node_modules");
    expect(versionsIn(own)).toEqual(wanted.toSorted());
    expect(versionsIn(join(shell.cwd, "node_modules"), own)).toEqual([`sortie ${version}`]);
    expect((await shell.run("npx", ["sortie", "--version"])).out.split("\n")[0]).toBe(version);
  });
});
