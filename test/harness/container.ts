import { findContainer } from "../../src/process/image/container.ts";
import type { Sandbox } from "../../src/process/sandbox/sandbox.ts";
import { execute } from "../../src/process/sandbox/self-test.ts";
import { rgPath } from "@vscode/ripgrep";

/** Whether the suites are to be run with it, too: as a user that is not root, or with a rootless engine. */
export const withContainer = process.env["TEST_CONTAINER"] !== undefined;

/**
 * The machine's own podman or docker as the sandbox, with the image that `TEST_IMAGE` names: bash, coreutils, git, and
 * nothing in /var/log and /run, which counts as the machine's. An engine that copies an image for each container
 * (driver vfs) is too slow.
 */
export const containerHere = async (dataDir: string, home: string): Promise<Sandbox> => {
  const found = await findContainer({
    reference: process.env["TEST_IMAGE"] ?? "",
    env: process.env,
    path: process.env["PATH"] ?? "",
    home,
    dataDir,
    paths: [],
    programs: { rg: rgPath },
    network: false,
    run: ([file = "", ...args], env) => execute([file, ...args], env, { timeout: 60_000 }),
  });
  if ("why" in found) throw new Error(found.why);
  return found.sandbox;
};
