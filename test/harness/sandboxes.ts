import { appendFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { rgPath } from "@vscode/ripgrep";
import { selfTest } from "../../src/process/sandbox/self-test.ts";
import {
  processGroupSandbox,
  bubblewrapSandbox,
  findProgram,
  namespaceSandbox,
  type Sandbox,
} from "../../src/process/sandbox/sandbox.ts";

/** The sandboxes that can be tried on this machine. Those that cannot are counted loudly at the end of the run. */

const path = process.env["PATH"] ?? "";

/** A folder for what they keep, gone when the process ends. */
const scratch = mkdtempSync(join(tmpdir(), "sortie-sandboxes-"));
process.once("exit", () => rmSync(scratch, { recursive: true, force: true }));

const candidates = (): Sandbox[] => {
  if (process.platform !== "linux") return [];
  const bwrap = findProgram("bwrap", path);
  const options = { path, home: process.env["HOME"] ?? "/root", paths: [], dataDir: scratch, programs: { rg: rgPath } };
  return [
    ...(bwrap === undefined ? [] : [bubblewrapSandbox(options, false, bwrap)]),
    ...(findProgram("unshare", path) === undefined ? [] : [namespaceSandbox(path, true, options.programs)]),
  ];
};

/** Tier 1 and 2 as far as they work here, then tier 3. */
export const sandboxesHere = async (): Promise<Sandbox[]> => {
  const found: Sandbox[] = [];
  for (const sandbox of candidates()) if ((await selfTest(sandbox, path)).ok) found.push(sandbox);
  for (const tier of [1, 2]) if (!found.some((sandbox) => sandbox.tier === tier)) noteMissing(tier);
  return [...found, processGroupSandbox];
};

const noteMissing = (tier: number): void => {
  const file = process.env["TEST_SKIPS"];
  if (file !== undefined) appendFileSync(`${file}-tiers`, `${tier}\n`);
};
