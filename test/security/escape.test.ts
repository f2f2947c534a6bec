import { execFile } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import type { SandboxPlace } from "../../src/process/sandbox/place.ts";
import { createProcesses } from "../../src/process/service.ts";
import { selfTest } from "../../src/process/sandbox/self-test.ts";
import { findSandbox, type SandboxOptions } from "../../src/process/sandbox/tier.ts";
import { bubblewrapSandbox, findProgram } from "../../src/process/sandbox/sandbox.ts";
import { temporary } from "../harness/project.ts";
import { engineEnv } from "../../src/process/image/engine.ts";
import { withContainer } from "../harness/container.ts";
import { sandboxesHere } from "../harness/sandboxes.ts";
import { kernelEscapes } from "./kernel-escapes.ts";
import { night } from "../harness/night.ts";

/** What the sandbox keeps in (T6), and that nothing runs where it is not what was asked for (T22). */

const path = process.env["PATH"] ?? "";
const tiers = (await sandboxesHere()).map(({ tier }) => tier);
const bwrap = findProgram("bwrap", path) ?? "";
const isRoot = process.getuid?.() === 0;

type Found = { uid: number; tried: number; escaped: string[]; broken: string[]; changed: string };
const script = fileURLToPath(new URL("./escape-run.ts", import.meta.url));

/** Tries the list in a process of its own; every nth of it by day. */
const attempt = (tier: number | "image" | "container", user: "same" | "nobody", nth: number): Promise<Found> =>
  new Promise((resolve, reject) => {
    const node = [process.execPath, script, String(tier), String(nth)];
    const other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--", ...node];
    const [file = "", ...args] = user === "nobody" ? other : node;
    const { TEST_IMAGE: image } = process.env;
    const env = {
      PATH: path,
      HOME: image === undefined ? "/tmp" : process.env["HOME"],
      NODE_NO_WARNINGS: "1",
      ...(image === undefined ? {} : { ...engineEnv(process.env), TEST_IMAGE: image }),
    };
    execFile(file, args, { env, timeout: 300_000 }, (error, stdout, stderr) => {
      if (error !== null) reject(new Error(`${error.message}\n${stderr}`));
      else resolve(JSON.parse(stdout) as Found);
    });
  });

describe.runIf(tiers.includes(1))("T6: ways out of the sandbox", { timeout: 300_000 }, () => {
  test("none works", async () => {
    const found = await attempt(1, "same", night ? 1 : 2);
    expect(found).toMatchObject({ escaped: [], broken: [], changed: "" });
    expect(found.tried).toBeGreaterThanOrEqual(night ? 175 : 87);
  });

  test("none works in an image", async () => {
    const found = await attempt("image", "same", night ? 1 : 2);
    expect(found).toMatchObject({ escaped: [], broken: [], changed: "" });
    expect(found.tried).toBeGreaterThanOrEqual(night ? 175 : 87);
  });

  // Where somebody has an engine for it (test/harness/container.ts): here podman and docker are seldom.
  if (withContainer)
    test("none works in a container", async () => {
      const found = await attempt("container", "same", 1);
      expect(found).toMatchObject({ escaped: [], broken: [], changed: "" });
      expect(found.tried).toBeGreaterThanOrEqual(175);
    });

  test.runIf(isRoot && night)("none works as another user", async () => {
    const found = await attempt(1, "nobody", 1);
    expect(found).toMatchObject({ uid: 65534, escaped: [], broken: [], changed: "" });
    expect(found.tried).toBeGreaterThanOrEqual(175);
  });

  test("control: without it most of them do", async () => {
    const found = await attempt(3, "same", night ? 1 : 4);
    expect(found.broken).toEqual([]);
    expect(found.escaped.length).toBeGreaterThanOrEqual(found.tried / 3);
    // Those by the kernel need rights, and devices that not every machine has; of the others each works.
    const byKernel = Object.keys(kernelEscapes).filter((name) => found.escaped.includes(name));
    console.log(
      `T6: without a sandbox ${found.escaped.length} of ${found.tried} work, ${byKernel.length} by the kernel`,
    );
    if (isRoot) expect(byKernel.length).toBeGreaterThanOrEqual(night ? 70 : 14);
  });

  test.each([
    ["no-more-users", "no-more-users"],
    ["network", "network"],
    ["root", "root"],
    ["devices", "devices"],
    ["first-process", "first-process"],
    // Bubblewrap leaves none to who is not root, whatever it is told.
    ...(isRoot
      ? [
          ["capabilities", "capabilities"],
          ["settings", "kernel-settings"],
        ]
      : []),
  ])("the self-test finds that %s is left out", async (guard = "", word = "") => {
    using folder = temporary();
    const options = { path, home: folder.path, paths: [], dataDir: join(folder.path, "data") };
    expect(await selfTest(bubblewrapSandbox(options, false, bwrap), path)).toMatchObject({ ok: true });
    const weak = await selfTest(bubblewrapSandbox(options, false, bwrap, [guard]), path);
    expect(weak).toMatchObject({ ok: false, found: expect.arrayContaining([word]) as string[] });
  });
});

describe.runIf(process.platform === "linux")("T22: no weaker than asked for", () => {
  /** A PATH with the system's programs, bash among them, and this for a bwrap. */
  const machine = (folder: string, fake: string | undefined, without: readonly string[] = []): SandboxOptions => {
    const bin = join(folder, "bin");
    mkdirSync(bin);
    for (const name of ["bash", "cat", "mkfifo", "unshare", "ip", "env", "git", "node", "true", "wc", "rm"]) {
      const found = findProgram(name, path);
      if (found !== undefined && !without.includes(name)) symlinkSync(found, join(bin, name));
    }
    if (fake !== undefined) writeFileSync(join(bin, "bwrap"), `#!/bin/bash\n${fake}\n`, { mode: 0o755 });
    return {
      mode: "required",
      source: "SERVICE_SANDBOX=required",
      network: undefined,
      paths: [],
      path: bin,
      home: folder,
      dataDir: join(folder, "data"),
    };
  };
  const version = 'if [ "$1" = --version ]; then echo bubblewrap 0.8.0; exit 0; fi';

  test.each<[string, string | undefined, RegExp]>([
    ["no bwrap", undefined, /bwrap is not on PATH\. Install bubblewrap 0\.8 or newer .*apt install bubblewrap/],
    ["a broken bwrap", "echo segfault >&2; exit 139", /bwrap does not work \(segfault\)\. Install bubblewrap/],
    [
      "an old bwrap",
      "echo bubblewrap 0.6.1",
      /is version 0\.6, which lacks --disable-userns\. Install bubblewrap 0\.8/,
    ],
    [
      "no user namespaces",
      `${version}; echo 'bwrap: No permissions to create new namespace' >&2; exit 1`,
      /cannot make a sandbox here \(bwrap: No permissions.*\)\. Allow user namespaces \(sysctl /,
    ],
    [
      "a bwrap that runs the command bare",
      `${version}; while [ "$1" != -- ]; do shift; done; shift; shift; exec bash "$@"`,
      /the self-test of bubblewrap failed \(it lets through: .*files/,
    ],
  ])("%s: refused with the remedy, and with auto weaker and told", async (_name, fake, remedy) => {
    using folder = temporary();
    const options = machine(folder.path, fake);
    await expect(findSandbox(options)).rejects.toMatchObject({
      exitCode: 78,
      message: expect.stringMatching(remedy) as string,
    });
    const found = await findSandbox({ ...options, mode: "auto" });
    expect(found.tier).toBeGreaterThan(1);
    expect(found.note).toMatch(remedy);
    // What cannot switch the network off does not say that it did.
    if (found.network) {
      await expect(findSandbox({ ...options, mode: "auto", network: false })).rejects.toMatchObject({ exitCode: 78 });
    }
  });

  test("without unshare it is tier 3, with network; network off is refused", async () => {
    using folder = temporary();
    const options = { ...machine(folder.path, undefined, ["unshare"]), mode: "auto" as const };
    expect(await findSandbox(options)).toMatchObject({ tier: 3, name: "process-group", network: true });
    await expect(findSandbox({ ...options, network: false })).rejects.toMatchObject({
      exitCode: 78,
      message: expect.stringMatching(
        /sandbox\.network is false, and process-group .* cannot switch the network off/,
      ) as string,
    });
  });

  test.runIf(tiers.includes(1))(
    "a sandbox that breaks while the service runs fails the command, which never runs bare",
    async () => {
      using folder = temporary();
      const shim = join(folder.path, "bwrap");
      writeFileSync(shim, `#!/bin/bash\nexec ${bwrap} "$@"\n`, { mode: 0o755 });
      const options = { path, home: folder.path, paths: [], dataDir: join(folder.path, "data") };
      const sandbox = bubblewrapSandbox(options, false, shim);
      const tree = join(folder.path, "tree");
      mkdirSync(tree);
      const place: SandboxPlace = { tree, at: tree, under: () => [], over: () => [] };
      const processes = createProcesses({
        folder: join(folder.path, "data/processes"),
        keepEnv: { PATH: path },
        sandbox,
        log: silent,
      });
      const run = (text: string) =>
        processes.run(
          "task_a",
          { run: text, cwd: tree, timeoutMs: 10_000, keepBytes: 10_000, signal: new AbortController().signal },
          place,
        );
      // Control: it works as long as it is whole.
      expect(await run("echo 1 > one")).toMatchObject({ ended: "exit", exitCode: 0 });
      expect(readFileSync(join(tree, "one"), "utf8")).toBe("1\n");
      await processes.closeSandboxes("task_a");
      writeFileSync(shim, "#!/bin/bash\necho gone >&2; exit 1\n", { mode: 0o755 });
      const ran = await run("echo 2 > two");
      expect(ran).toMatchObject({ ended: "not-started", exitCode: null });
      expect(ran.output).toMatch(/sandbox could not be started: gone/);
      expect(existsSync(join(tree, "two"))).toBe(false);
      await processes.stop();
    },
  );
});
