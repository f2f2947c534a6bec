import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { delimiter, join } from "node:path";
import { StartError } from "../errors.ts";
import { wrapped } from "./bubblewrap.ts";
import type { Mount, Place } from "./place.ts";
import { isWithin, systemMounts, toolEnv } from "./system.ts";

/**
 * What keeps commands apart from this machine, decided once at the start by trying it, and never changed while the
 * service runs: a command whose sandbox cannot be made fails.
 *   1 bubblewrap     its own files, processes, network; nothing outlives it
 *   2 pid-namespace  its own processes; nothing outlives it
 *   3 process-group  nothing of its own; what leaves its group is searched for
 */

export type SandboxName = "bubblewrap" | "pid-namespace" | "process-group";

export type BoxRequest = {
  place: Place;
  /** Of this sandbox alone. */
  folder: string;
  /** Where the pipes are inside, and the folder they are in here. */
  command: (io: string) => readonly string[];
  io: string;
  cwd: string;
  network?: boolean;
  extra?: readonly Mount[];
};

export type Sandbox = {
  tier: 1 | 2 | 3;
  name: SandboxName;
  network: boolean;
  /** Why it is not tier 1, with the remedy. */
  note: string | undefined;
  /** Variables of the tools that it makes readable. */
  env: Readonly<Record<string, string>>;
  /** The command line that opens a sandbox; undefined in tier 3. */
  wrap: ((request: BoxRequest) => string[]) | undefined;
};

export type SandboxOptions = {
  mode: "auto" | "required";
  /** What asked for `required`, for the message. */
  source: string;
  /** undefined: off where that is possible. */
  network: boolean | undefined;
  /** The strongest tier to use. */
  tier?: 1 | 2 | 3;
  /** Further read-only folders. */
  paths: readonly string[];
  path: string;
  home: string;
  dataDir: string;
};

export const bare: Sandbox = {
  tier: 3,
  name: "process-group",
  network: true,
  note: undefined,
  env: {},
  wrap: undefined,
};

/** Where a sandbox's pipes and its first program are inside. */
const ioAt = "/run/sortie/io";
const bashAt = "/run/sortie/bash";

export const findProgram = (name: string, path: string): string | undefined =>
  path
    .split(delimiter)
    .filter((folder) => folder.startsWith("/"))
    .map((folder) => join(folder, name))
    .find((file) => existsSync(file));

type Tried = { ok: true } | { ok: false; why: string };

const execute = (argv: readonly string[], env: Record<string, string>): Promise<{ output: string; error: string }> =>
  new Promise((resolve) => {
    const [file = "", ...args] = argv;
    execFile(file, args, { env, timeout: 10_000, maxBuffer: 1024 * 1024 }, (error, stdout, stderr) =>
      resolve({ output: stdout, error: error === null ? "" : stderr.trim() || error.message }),
    );
  });

export const bubblewrapSandbox = (
  options: Pick<SandboxOptions, "path" | "home" | "paths" | "dataDir">,
  network: boolean,
  bwrap: string,
  without: readonly string[] = [],
): Sandbox => {
  const { path, home, paths, dataDir } = options;
  const hidden = [dataDir, ...(existsSync(dataDir) ? [realpathSync(dataDir)] : [])];
  const system = systemMounts({ path, home, paths, hidden: [...new Set(hidden)], network });
  const first = bashCopy(path, dataDir);
  return {
    tier: 1,
    name: "bubblewrap",
    network,
    note: undefined,
    env: toolEnv(home, network),
    wrap: ({ place, folder, command, io, cwd, network: asked = network, extra = [] }) =>
      wrapped(
        {
          bwrap,
          place,
          system,
          folder,
          network: asked,
          cwd,
          extra: [...extra, { kind: "ro", from: io, to: ioAt }, { kind: "ro", from: first, to: bashAt }],
          command: [bashAt, "--norc", "--noprofile", ...command(ioAt)],
        },
        without,
      ),
  };
};

/**
 * A bash that can be run and not read: the kernel then lets nobody of the same user look into its memory or its
 * descriptors, so that a command cannot speak in place of the process that watches it.
 */
const bashCopy = (path: string, dataDir: string): string => {
  const bash = findProgram("bash", path) ?? "/bin/bash";
  const folder = join(dataDir, "sandbox");
  const copy = join(folder, "bash");
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  rmSync(copy, { force: true });
  copyFileSync(realpathSync(bash), copy);
  chmodSync(copy, 0o111);
  return copy;
};

export const namespaceSandbox = (path: string, network: boolean): Sandbox => {
  const unshare = findProgram("unshare", path) ?? "unshare";
  const bash = findProgram("bash", path) ?? "/bin/bash";
  const user = process.getuid?.() === 0 ? [] : ["--user", "--map-current-user"];
  return {
    tier: 2,
    name: "pid-namespace",
    network,
    note: undefined,
    env: {},
    wrap: ({ command, io, network: asked = network }) => [
      unshare,
      ...user,
      "--pid",
      "--fork",
      "--kill-child",
      "--mount-proc",
      ...(asked ? [] : ["--net"]),
      "--",
      bash,
      "--norc",
      "--noprofile",
      ...command(io),
    ],
  };
};

/** Brings up the loopback interface of a network of its own; needs iproute2. bubblewrap does that itself. */
export const loopbackUp = "ip link set lo up";

/**
 * Looks from the inside for what should not be possible there; each finding is one word. What it looks for is what the
 * guards of `bubblewrap.ts` are for, so that a guard that is missing or without effect is found at the start.
 */
export const weaknessesOf = async (sandbox: Sandbox, path: string): Promise<Tried & { found: string[] }> => {
  if (sandbox.wrap === undefined) return { ok: true, found: [] };
  const folder = mkdtempSync("/var/tmp/sortie-probe-");
  const secret = join(folder, "secret");
  const canary = randomUUID();
  try {
    const tree = join(folder, "tree");
    const io = join(folder, "io");
    for (const path of [tree, io]) mkdirSync(path);
    writeFileSync(secret, canary);
    const place: Place = { tree, at: tree, under: () => [], over: () => [] };
    const argv = sandbox.wrap({
      place,
      folder: join(folder, "box"),
      io,
      cwd: tree,
      command: () => ["-c", `cd '${tree}' || exit\n${probe(sandbox, secret, process.pid)}`],
    });
    const { output, error } = await execute(argv, { PATH: path, LC_ALL: "C" });
    const lines = output.trim().split("\n");
    if (lines.at(-1) !== "done") return { ok: false, why: error || "it ended early", found: [] };
    const found = lines.slice(0, -1);
    return found.length === 0 ? { ok: true, found } : { ok: false, why: `it lets through: ${found.join(", ")}`, found };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
};

const probe = ({ tier, network }: Sandbox, secret: string, service: number): string =>
  [
    `[ $$ = 1 ] || echo first-process`,
    `[ ! -e /proc/${service}/root/proc ] || [ $(echo /proc/[0-9]* | wc -w) -le 6 ] || echo processes`,
    ...(network
      ? []
      : [
          `while read -r line; do case $line in Inter*|face*|lo:*) ;; *) echo network; break ;; esac; done </proc/net/dev`,
        ]),
    ...(tier === 1
      ? [
          `[ ! -e '${secret}' ] || echo files`,
          `[ ! -e /etc/shadow ] || echo etc`,
          `(: >/usr/.sortie-probe) 2>/dev/null && { rm -f /usr/.sortie-probe; echo system-writable; }`,
          `(: >/.sortie-probe) 2>/dev/null && echo root`,
          `(: >>/proc/sys/kernel/core_pattern) 2>/dev/null && echo kernel-settings`,
          `while read -r name value; do case $name$value in CapEff:*[1-9a-f]*|CapPrm:*[1-9a-f]*|CapBnd:*[1-9a-f]*|CapInh:*[1-9a-f]*) echo capabilities; break ;; esac; done </proc/self/status`,
          `while read -r name value; do case $name$value in NoNewPrivs:0) echo privileges ;; esac; done </proc/self/status`,
          `unshare --user true 2>/dev/null && echo no-more-users`,
          `(: >./writes) 2>/dev/null || echo tree-not-writable`,
          `(: >/tmp/writes) 2>/dev/null || echo tmp-not-writable`,
        ]
      : [`(: >./writes) 2>/dev/null || echo tree-not-writable`]),
    `echo done`,
  ].join("\n");

const needUsers =
  "Allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces=15000; on Ubuntu 24.04 kernel.apparmor_restrict_unprivileged_userns=0 or an AppArmor profile for bwrap; in a container run it with --security-opt seccomp=unconfined), or run the service where they are";

/** What stands in the way of tier 1 and what to do about it; undefined: nothing. */
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
  const { output, error } = await execute([bwrap, "--version"], { PATH: options.path });
  const [, major = 0, minor = 0] = (/(\d{1,9})\.(\d{1,9})/.exec(output) ?? []).map(Number);
  if (output === "")
    return { why: `${bwrap} does not work (${oneLine(error)}). Install bubblewrap 0.8 or newer again` };
  if (major === 0 && minor < 8)
    return {
      why: `${bwrap} is version ${major}.${minor}, which lacks --disable-userns. Install bubblewrap 0.8 or newer`,
    };
  const sandbox = bubblewrapSandbox(options, network, bwrap);
  const tried = await weaknessesOf(sandbox, options.path);
  if (tried.ok) return { sandbox };
  if (/namespace|uid map|setting up|Operation not permitted|No permissions|Permission denied/i.test(tried.why))
    return { why: `bwrap cannot make a sandbox here (${oneLine(tried.why)}). ${needUsers}` };
  return { why: `the self-test of bubblewrap failed (${oneLine(tried.why)}). Install bubblewrap 0.8 or newer again` };
};

const tryNamespace = async (options: SandboxOptions): Promise<Sandbox | undefined> => {
  if (options.tier === 3) return undefined;
  if (process.platform !== "linux" || findProgram("unshare", options.path) === undefined) return undefined;
  const { path } = options;
  // Without a loopback interface most tests of servers would fail: then the network stays.
  const off = options.network !== true && findProgram("ip", path) !== undefined;
  for (const network of off ? [false, true] : [true]) {
    const sandbox = namespaceSandbox(path, network);
    const tried = await weaknessesOf(sandbox, path);
    if (!tried.ok) continue;
    if (network || (await loopbackComesUp(sandbox, path))) return sandbox;
  }
  return undefined;
};

const loopbackComesUp = async (sandbox: Sandbox, path: string): Promise<boolean> => {
  const place: Place = { tree: "/", at: "/", under: () => [], over: () => [] };
  const argv = sandbox.wrap?.({
    place,
    folder: "",
    io: "",
    cwd: "/",
    command: () => ["-c", `${loopbackUp} && echo up`],
  });
  return argv !== undefined && (await execute(argv, { PATH: path })).output.trim() === "up";
};

const oneLine = (text: string): string => (text.split("\n")[0] ?? "").slice(0, 300);

/** The best tier there is; throws `StartError(78)` with the remedy when that is not enough. */
export const findSandbox = async (options: SandboxOptions): Promise<Sandbox> => {
  for (const path of options.paths)
    if (isWithin(path, options.home) || isWithin(path, options.dataDir) || isWithin(options.dataDir, path))
      throw new StartError(
        78,
        `sandbox.paths: Expected folders that hold neither your home nor the data folder, got ${path}.`,
      );
  const first = await tryBubblewrap(options, options.network ?? false);
  if ("sandbox" in first) return first.sandbox;
  if (options.mode === "required")
    throw new StartError(
      78,
      `A sandbox is required (${options.source}), and there is none: ${first.why}. Or set SERVICE_SANDBOX=auto to accept a weaker one.`,
    );
  const found = (await tryNamespace(options)) ?? bare;
  if (options.network === false && found.network)
    throw new StartError(
      78,
      `sandbox.network is false, and ${found.name} (tier ${found.tier}) cannot switch the network off: ${first.why}. Or remove sandbox.network from the configuration.`,
    );
  return { ...found, note: first.why };
};
