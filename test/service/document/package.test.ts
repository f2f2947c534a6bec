import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporary } from "../../harness/project.ts";
import { page } from "./manual.ts";

/** What npm packs besides files of the repository; test/night/pack.test.ts installs it. */

type Lock = {
  packages: Record<string, { version?: string; integrity?: string; dev?: true; devDependencies?: object }>;
};

/** The files of a packing that begins with `node scripts/shrinkwrap.mjs`, in a copy of the repository's outside. */
const copy = () => {
  const folder = temporary("sortie-package-");
  mkdirSync(join(folder.path, "scripts"));
  for (const name of ["package.json", "package-lock.json", "scripts/shrinkwrap.mjs"])
    writeFileSync(join(folder.path, name), page(name));
  const script = join(folder.path, "scripts/shrinkwrap.mjs");
  return {
    folder,
    file: join(folder.path, "npm-shrinkwrap.json"),
    write: () => spawnSync(process.execPath, [script], { encoding: "utf8" }),
    remove: () => spawnSync(process.execPath, [script, "--remove"], { encoding: "utf8" }),
    packed: (): string[] => {
      const json = execFileSync("npm", ["pack", "--dry-run", "--ignore-scripts", "--json"], {
        cwd: folder.path,
        encoding: "utf8",
        stdio: ["ignore", "pipe", "ignore"],
      });
      return (JSON.parse(json) as { files: { path: string }[] }[]).flatMap(({ files }) =>
        files.map(({ path }) => path),
      );
    },
  };
};

test("the package names what runs by version and hash, as the lockfile does, and nothing that develops", () => {
  const { folder, file, write, remove, packed } = copy();
  using _ = folder;
  const { scripts } = JSON.parse(page("package.json")) as { scripts: Record<string, string> };
  expect([scripts["prepack"], scripts["postpack"]]).toEqual([
    "node scripts/shrinkwrap.mjs",
    "node scripts/shrinkwrap.mjs --remove",
  ]);
  // Control: without the script nothing of it is packed, the lockfile neither.
  expect(packed().filter((path) => /shrinkwrap|package-lock/.test(path))).toEqual([]);
  expect(write().status).toBe(0);
  expect(packed()).toContain("npm-shrinkwrap.json");
  const made = JSON.parse(readFileSync(file, "utf8")) as Lock;
  const lock = JSON.parse(page("package-lock.json")) as Lock;
  const { "": own, ...others } = made.packages;
  expect(own?.devDependencies).toBeUndefined();
  expect(others).toEqual(
    Object.fromEntries(Object.entries(lock.packages).filter(([path, { dev }]) => path !== "" && !dev)),
  );
  expect(Object.keys(others).length).toBeGreaterThan(50);
  for (const { integrity } of Object.values(others)) expect(integrity).toMatch(/^sha512-/);
  // In a clone npm would take it for the lockfile.
  expect(remove().status).toBe(0);
  expect(existsSync(file)).toBe(false);
  expect(page(".gitignore").split("\n")).toContain("npm-shrinkwrap.json");
});

test("a package without a hash is not packed", () => {
  const { folder, file, write } = copy();
  using _ = folder;
  const lock = JSON.parse(page("package-lock.json")) as Lock;
  delete lock.packages["node_modules/zod"]?.integrity;
  writeFileSync(join(folder.path, "package-lock.json"), JSON.stringify(lock));
  const { status, stderr } = write();
  expect([status, existsSync(file)]).toEqual([1, false]);
  expect(stderr).toContain("Expected a hash for node_modules/zod in package-lock.json, got none.");
});

test("one that an interrupted packing left is removed before anything is installed", () => {
  using folder = temporary("sortie-package-");
  for (const name of ["package.json", "package-lock.json"]) writeFileSync(join(folder.path, name), page(name));
  cpSync("scripts", join(folder.path, "scripts"), { recursive: true });
  writeFileSync(join(folder.path, "npm-shrinkwrap.json"), "{}");
  // An npm that says what it would have found.
  const npm = join(folder.path, "npm.js");
  writeFileSync(
    npm,
    `import { existsSync } from "node:fs"; console.error(existsSync("npm-shrinkwrap.json") ? "there" : "gone"); process.exit(1);`,
  );
  const setup = join(folder.path, "scripts/setup.mjs");
  const { stderr } = spawnSync(process.execPath, [setup, "--no-build"], {
    encoding: "utf8",
    env: { ...process.env, npm_execpath: npm },
  });
  expect(stderr).toMatch(/npm ci said:\ngone/);
});
