import { StartError } from "../../error.ts";
import type { SandboxPlace } from "./place.ts";
import { execute, selfTest } from "./self-test.ts";
import {
  processGroupSandbox,
  bubblewrapSandbox,
  findProgram,
  loopbackCommand,
  type Machine,
  namespaceSandbox,
  type Sandbox,
} from "./sandbox.ts";
import { isWithin } from "./system-mount.ts";
import { toolEnv } from "./toolchain.ts";

/**
 * Chooses the sandbox of this machine: the best tier that passes its self-test, with the reason against each better
 * one.
 */

export type SandboxOptions = Machine & {
  mode: "auto" | "required";
  /** The setting that asked for `required`, for the error message. */
  source: string;
  /** undefined: off if possible. */
  network: boolean | undefined;
  /** The strongest tier to use; tier 1 by default. */
  tier?: 1 | 2 | 3;
  /** How bubblewrap is tried; by default anew at each start. */
  trial?: Trial;
  /** Tries a container if bubblewrap is not available; absent: none was asked for. */
  container?: () => Promise<{ sandbox: Sandbox } | { why: string }>;
};

/** Runs `bwrap --version`, and the self-test of bubblewrap's sandbox. */
export type Trial = (
  bwrap: string,
  sandbox: Sandbox,
  path: string,
) => Promise<[version: Awaited<ReturnType<typeof execute>>, tried: Awaited<ReturnType<typeof selfTest>>]>;

export const tryNow: Trial = (bwrap, sandbox, path) =>
  Promise.all([execute([bwrap, "--version"], { PATH: path }), selfTest(sandbox, path)]);

const needUsers =
  "Allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces=15000; on Ubuntu 24.04 kernel.apparmor_restrict_unprivileged_userns=0 or an AppArmor profile for bwrap; in a container run it with --security-opt seccomp=unconfined --security-opt systempaths=unconfined, with AppArmor apparmor=unconfined, too), or run the service where they are";

/** Tries tier 1; if it is impossible, returns the reason and its remedy. */
const tryBubblewrap = async (
  options: SandboxOptions,
  network: boolean,
): Promise<{ sandbox: Sandbox } | { why: string }> => {
  if ((options.tier ?? 1) > 1)
    return { why: `sandbox.tier in the configuration is ${options.tier}. Remove it for a stronger one` };
  if (process.platform !== "linux") return { why: `bubblewrap needs Linux, and this is ${process.platform}` };
  const bwrap = findProgram("bwrap", options.path);
  if (bwrap === undefined)
    return {
      why: "bwrap is not on PATH. Install bubblewrap 0.8 or newer (Debian, Ubuntu: apt install bubblewrap; Fedora: dnf install bubblewrap; Alpine: apk add bubblewrap; Arch: pacman -S bubblewrap)",
    };
  const sandbox = bubblewrapSandbox(options, network, bwrap);
  const [{ output, error }, tried] = await (options.trial ?? tryNow)(bwrap, sandbox, options.path);
  const [, major = 0, minor = 0] = (/(\d{1,9})\.(\d{1,9})/.exec(output) ?? []).map(Number);
  if (output === "")
    return { why: `${bwrap} does not work (${oneLine(error)}). Install bubblewrap 0.8 or newer again` };
  if (major === 0 && minor < 8)
    return {
      why: `${bwrap} is version ${major}.${minor}, which lacks --disable-userns. Install bubblewrap 0.8 or newer`,
    };
  if (tried.ok && tried.unfiltered === undefined) return { sandbox };
  if (tried.ok) {
    const unfiltered = oneLine(tried.unfiltered ?? "");
    return { sandbox: { ...bubblewrapSandbox(options, network, bwrap, ["filter"]), unfiltered } };
  }
  if (/namespace|uid map|setting up|Operation not permitted|No permissions|Permission denied/i.test(tried.why))
    return { why: `bwrap cannot make a sandbox here (${oneLine(tried.why)}). ${needUsers}` };
  return { why: `the self-test of bubblewrap failed (${oneLine(tried.why)}). Install bubblewrap 0.8 or newer again` };
};

const tryNamespace = async (options: SandboxOptions): Promise<Sandbox | undefined> => {
  if (options.tier === 3) return undefined;
  if (process.platform !== "linux" || findProgram("unshare", options.path) === undefined) return undefined;
  const { path } = options;
  // Without `ip` there would be no loopback interface, and most tests of servers would fail, so the network stays on.
  const off = options.network !== true && findProgram("ip", path) !== undefined;
  for (const network of off ? [false, true] : [true]) {
    const sandbox = namespaceSandbox(path, network, options.programs);
    const tried = await selfTest(sandbox, path);
    if (!tried.ok) continue;
    if (network || (await loopbackComesUp(sandbox, path))) return sandbox;
  }
  return undefined;
};

const loopbackComesUp = async (sandbox: Sandbox, path: string): Promise<boolean> => {
  const place: SandboxPlace = { tree: "/", at: "/", under: () => [], over: () => [] };
  const argv = sandbox.wrap?.({
    place,
    folder: "",
    cwd: "/",
    command: () => ["-c", `${loopbackCommand} && echo up`],
  });
  return argv !== undefined && (await execute(argv, { PATH: path })).output.trim() === "up";
};

const oneLine = (text: string): string => (text.split("\n")[0] ?? "").slice(0, 300);

/** The best available tier. Throws `StartError` with exit code 78 and the remedy if it is weaker than required. */
export const findSandbox = async (options: SandboxOptions): Promise<Sandbox> => {
  for (const path of options.paths)
    if (isWithin(path, options.home) || isWithin(path, options.dataDir) || isWithin(options.dataDir, path))
      throw new StartError(
        78,
        `sandbox.paths: Expected folders that hold neither your home nor the data folder, got ${path}.`,
      );
  const first = await tryBubblewrap(options, options.network ?? false);
  if ("sandbox" in first) return first.sandbox;
  const contained = options.tier === undefined || options.tier === 1 ? await options.container?.() : undefined;
  if (contained !== undefined && "sandbox" in contained) return contained.sandbox;
  const why = contained === undefined ? first.why : `${first.why}. Nor is a container one: ${contained.why}`;
  if (options.mode === "required")
    throw new StartError(
      78,
      `A sandbox is required (${options.source}), and there is none: ${why}. Or set SERVICE_SANDBOX=auto to accept a weaker one.`,
    );
  const found = (await tryNamespace(options)) ?? { ...processGroupSandbox, programs: options.programs ?? {} };
  if (options.network === false && found.network)
    throw new StartError(
      78,
      `sandbox.network is false, and ${found.name} (tier ${found.tier}) cannot switch the network off: ${why}. Or remove sandbox.network from the configuration.`,
    );
  return { ...found, env: toolEnv(options, found.network), note: why };
};
