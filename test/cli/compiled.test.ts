import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { built } from "../harness/built.ts";
import { temporary } from "../harness/project.ts";

/** The code that the build compiles ahead, so that the first start need not. */

const root = fileURLToPath(new URL("../../", import.meta.url));

/** Asks for the version with a home of its own; what is left in that. */
const leftBy = (at: string, home: string): string[] => {
  mkdirSync(home);
  const env = { PATH: process.env["PATH"] ?? "", HOME: home };
  const said = execFileSync(process.execPath, [join(at, "bin/sortie.js"), "--version"], { env, encoding: "utf8" });
  expect(said.trim()).not.toBe("");
  return readdirSync(home, { recursive: true }).map(String);
};

test("what the build has compiled is used where it is this user's own; control: without it the first start compiles", async () => {
  await built();
  const ahead = join(root, "dist/.compiled");
  expect(readdirSync(ahead, { recursive: true }).length).toBeGreaterThan(10);
  using folder = temporary("sortie-compiled-");
  expect(leftBy(root, join(folder.path, "one"))).toEqual([]);

  const copy = join(folder.path, "copy");
  for (const name of ["bin", "dist", "package.json"]) cpSync(join(root, name), join(copy, name), { recursive: true });
  symlinkSync(join(root, "node_modules"), join(copy, "node_modules"));
  rmSync(join(copy, "dist/.compiled"), { recursive: true });
  const left = leftBy(copy, join(folder.path, "two"));
  expect(left).toContain(".cache/sortie");
  expect(existsSync(join(copy, "dist/.compiled"))).toBe(false);
});
