import { readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

/**
 * What `sortie serve` loads before it listens: each file and package more is time of every start, and memory of every
 * service.
 */

const root = fileURLToPath(new URL("../../src/", import.meta.url));

/** The files and packages that these files load with themselves: what is imported on use, and types, do not count. */
const loadedBy = (...entries: string[]) => {
  const files = new Set<string>();
  const packages = new Set<string>();
  const load = (path: string): void => {
    const name = relative(root, path);
    if (files.has(name)) return;
    files.add(name);
    for (const [, bare, what = "", from = bare ?? ""] of readFileSync(path, "utf8").matchAll(
      /^(?:import "([^"]+)"|(?:import|export) (?!type\b)([^;"]*?) from "([^"]+)");/gms,
    )) {
      if (/^\{(\s*type\s+[\w ]+,?)+\s*\}\s*$/.test(what)) continue;
      if (from.startsWith(".")) load(join(dirname(path), from));
      else if (!from.startsWith("node:")) packages.add(from);
    }
  };
  for (const entry of entries) load(join(root, entry));
  return { files: [...files], packages: [...packages].toSorted() };
};

const isClient = (name: string): boolean => name.startsWith("client/");

test("a start loads what every service needs; control: a command that calls one loads the client, with all of fetch", () => {
  const { files, packages } = loadedBy("cli/main.ts", "cli/serve.ts");
  expect(files.length).toBeGreaterThan(300);
  expect(files.filter(isClient)).toEqual([]);
  expect(packages).toEqual([
    "@vscode/ripgrep",
    "better-sqlite3",
    "commander",
    "diff",
    "jsonc-parser",
    "kysely",
    "picocolors",
    "pino",
    "ulid",
    "yaml",
    "yazl",
    "zod",
  ]);
  expect(loadedBy("cli/connection.ts").files.filter(isClient)).toContain("client/client.ts");
  expect(loadedBy("repository/forge/github.ts").packages).toContain("@octokit/request");
});
