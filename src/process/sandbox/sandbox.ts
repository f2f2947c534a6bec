import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  realpathSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { totalmem } from "node:os";
import { delimiter, join } from "node:path";
import { compileFilter } from "../seccomp/bpf.ts";
import { profile } from "../seccomp/profile.ts";
import { entryPoint } from "../../package-root.ts";
import { bubblewrapArguments } from "./bubblewrap.ts";
import { copyEtc } from "./etc-copy.ts";
import { type Image, imageMounts } from "./image-root.ts";
import type { Mount, SandboxPlace } from "./place.ts";
import { isWithin, systemMounts } from "./system-mount.ts";
import { movedTools, type MachineEnvironment, toolEnv } from "./toolchain.ts";

/**
 * The ways to isolate commands from this machine. One is chosen at start-up by trying it, and never changed while the
 * service runs: a command whose sandbox cannot be opened fails.
 *
 * 1. bubblewrap: own files, processes and network, and a filter of system calls; nothing outlives it. On machines
 *    without bubblewrap, a container can provide the same.
 * 2. pid-namespace: own processes; nothing outlives it.
 * 3. process-group: no isolation; processes that leave their group are searched for.
 */

export type SandboxName = "bubblewrap" | "container" | "pid-namespace" | "process-group";

export type SandboxRequest = {
  place: SandboxPlace;
  /** Folder for the pipes and small files of this one sandbox. */
  folder: string;
  /** Returns the command to run as process 1, given the folder's path inside. */
  command: (io: string) => readonly string[];
  cwd: string;
  /** `socket`: the proxy that is the only way to the network. */
  network?: boolean | { socket: string };
  extra?: readonly Mount[];
  /** Further readable folders and files; `refuses` must accept each. */
  paths?: readonly string[];
  /** The image whose files replace this machine's. Only in tier 1. */
  image?: Image | undefined;
  /** Leaves out the filter of system calls, which would hide from the self-test whether the rest isolates by itself. */
  unfiltered?: boolean;
};

export type Sandbox = {
  tier: 1 | 2 | 3;
  name: SandboxName;
  network: boolean;
  /** Why the sandbox is not tier 1, with the remedy. */
  note: string | undefined;
  /** Environment variables for the toolchains that are readable inside. */
  env: Readonly<Record<string, string>>;
  /** The service's own programs: their paths inside, by name. */
  programs: Readonly<Record<string, string>>;
  /** In tier 1, the file of the filter of system calls, to be opened as the command line's `filterDescriptor`. */
  filter: string | undefined;
  /** Why tier 1 has no filter; undefined in other tiers, too. */
  unfiltered: string | undefined;
  /**
   * Why commands must not read a path of this machine; undefined: they may. Without the function they can read
   * everything.
   */
  refuses?: (path: string) => string | undefined;
  /** Set if the sandbox is a container, whose system is an image's and not this machine's. */
  container?: Container;
  /** The command line that opens a sandbox; undefined in tier 3. */
  wrap: ((request: SandboxRequest) => string[]) | undefined;
};

export type Container = {
  image: Image;
  /**
   * The environment of the program that opens a sandbox. The program is not the parent of the sandbox's processes: a
   * sandbox ends when its standard input does.
   */
  env: Readonly<Record<string, string>>;
  /** Another image of the same engine, for the commands of a project. Rejects with the reason and its remedy. */
  openImage(reference: string): Promise<Image>;
  /** Removes the containers that an earlier service of this data folder left. */
  sweep(): Promise<void>;
};

/** The parts of this machine that a sandbox uses. */
export type Machine = MachineEnvironment & {
  path: string;
  dataDir: string;
  /** Further read-only folders. */
  paths: readonly string[];
  /**
   * The size limit of /tmp and of /dev/shm in tier 1, each, in bytes; 0: half of the machine's memory. 0 by default.
   */
  tmpBytes?: number;
  /** Programs of the service that run on a Task's files like its commands: absolute paths by name. */
  programs?: Readonly<Record<string, string>>;
};

export const processGroupSandbox: Sandbox = {
  tier: 3,
  name: "process-group",
  network: true,
  note: undefined,
  env: {},
  programs: {},
  filter: undefined,
  unfiltered: undefined,
  wrap: undefined,
};

/** Paths inside a sandbox: its pipes, its first program, and the service's own programs. */
export const ioAt = "/run/sortie/io";
export const bashAt = "/run/sortie/bash";
export const programAt = (name: string) => `/run/sortie/bin/${name}`;

export const findProgram = (name: string, path: string): string | undefined =>
  path
    .split(delimiter)
    .filter((folder) => folder.startsWith("/"))
    .map((folder) => join(folder, name))
    .find((file) => existsSync(file));

export const bubblewrapSandbox = (
  options: Machine,
  network: boolean,
  bwrap: string,
  without: readonly string[] = [],
): Sandbox => {
  const { path, home, paths, dataDir, programs = {}, tmpBytes = 0 } = options;
  const hidden = hiddenIn(dataDir);
  const moved = movedTools(options);
  const own = systemMounts({ path, home, paths, hidden: [...new Set(hidden)], moved });
  const ofMachine = own.filter(({ to }) => to === "/etc/hosts" || to === "/etc/resolv.conf");
  const system = [...copyEtc(join(dataDir, "sandbox", "etc"), own), ...own];
  const first = bashCopy(path, dataDir);
  const filter = without.includes("filter") ? undefined : filterFile(dataDir);
  return {
    tier: 1,
    name: "bubblewrap",
    network,
    note: undefined,
    env: toolEnv(options, network),
    programs: Object.fromEntries(Object.keys(programs).map((name) => [name, programAt(name)])),
    filter,
    unfiltered: filter === undefined ? `there is no profile for ${process.arch}, only for x64 and arm64` : undefined,
    refuses: refusing({ home, dataDir }),
    wrap: ({
      place,
      folder,
      command,
      cwd,
      network: asked = network,
      extra = [],
      paths: more = [],
      unfiltered = false,
      image,
    }) => {
      const filtered = filter !== undefined && !unfiltered;
      const besides = more.map((from): Mount => ({ kind: "ro", from, to: from }));
      const given: Mount[] = [
        ...extra,
        { kind: "ro", from: folder, to: ioAt },
        { kind: "ro", from: image?.first ?? first, to: bashAt },
        ...Object.entries(programs).map(([name, from]): Mount => ({ kind: "ro", from, to: programAt(name) })),
      ];
      const shown =
        image === undefined ? { place, system } : over(image, place, { besides: [...besides, ...given], ofMachine });
      const through = typeof asked === "boolean" ? [] : wayThrough(bwrap, asked.socket, filtered);
      const argv = bubblewrapArguments(
        {
          bwrap,
          place: shown.place,
          system: [...shown.system, ...besides],
          folder,
          // With a bridge, the network already ends there, so bubblewrap must share the bridge's.
          network: asked !== false,
          filtered,
          // A value above the kernel's own limit would raise that limit.
          tmpBytes: tmpBytes >= totalmem() / 2 ? 0 : tmpBytes,
          cwd,
          extra: given,
          command: [bashAt, "--norc", "--noprofile", ...command(ioAt)],
        },
        without,
      );
      return [...through, ...argv];
    },
  };
};

/**
 * The system of an image, without the entries that other mounts cover, and with this machine's `hosts` and
 * `resolv.conf`.
 */
const over = (
  { root }: Image,
  place: SandboxPlace,
  { besides, ofMachine }: { besides: readonly Mount[]; ofMachine: readonly Mount[] },
) => {
  const [under, above] = [place.under(), place.over()];
  const targets = [place.at, ...[...under, ...above, ...besides].map(({ to }) => to)];
  return {
    place: { ...place, under: () => under, over: () => above },
    system: [...imageMounts(root, targets), ...ofMachine],
  };
};

/** The service's data folder, by its name and by its real path. */
const hiddenIn = (dataDir: string): string[] => [dataDir, ...(existsSync(dataDir) ? [realpathSync(dataDir)] : [])];

/** Returns the function `Sandbox.refuses`. */
export const refusing = ({ home, dataDir }: Pick<Machine, "home" | "dataDir">): NonNullable<Sandbox["refuses"]> => {
  const hidden = hiddenIn(dataDir);
  return (path) => refusal(path, home, hidden);
};

/**
 * Links are refused because they are followed when the sandbox is opened, which is later, wherever they lead by then.
 */
const refusal = (path: string, home: string, hidden: readonly string[]): string | undefined => {
  if (!existsSync(path)) return "it does not exist";
  if (realpathSync(path) !== path) return `it is a link, to ${realpathSync(path)}`;
  if (hidden.some((own) => isWithin(path, own) || isWithin(own, path))) return "the service's own data is there";
  if (isWithin(path, home)) return "it holds the home of the service's user";
  return ["/proc", "/sys", "/dev", "/run"].some((kernel) => isWithin(kernel, path))
    ? "it is no folder of files"
    : undefined;
};

/** The port at which commands find the proxy, if their network is a list of hosts. */
export const proxyPort = 61_128;
const proxyAt = `http://127.0.0.1:${proxyPort}`;
const here = "localhost,127.0.0.1,::1";
export const proxyEnv: Readonly<Record<string, string>> = {
  HTTP_PROXY: proxyAt,
  HTTPS_PROXY: proxyAt,
  http_proxy: proxyAt,
  https_proxy: proxyAt,
  NO_PROXY: here,
  no_proxy: here,
  NODE_USE_ENV_PROXY: "1",
};

/** Opens a separate network with only a loopback interface, for the bridge and the sandbox that the bridge starts. */
const wayThrough = (bwrap: string, socket: string, filtered: boolean): string[] => [
  bwrap,
  "--unshare-user",
  "--unshare-net",
  "--die-with-parent",
  "--cap-drop",
  "ALL",
  // If the service runs as root: without this capability the kernel does not let a process map root into a sandbox.
  ...(process.getuid?.() === 0 ? ["--cap-add", "CAP_SETFCAP"] : []),
  "--dev-bind",
  "/",
  "/",
  "--",
  process.execPath,
  "--max-semi-space-size=1",
  "--disable-warning=ExperimentalWarning",
  entryPoint("process/network/bridge"),
  socket,
  String(proxyPort),
  filtered ? "4" : "3",
];

/**
 * A copy of bash that can be executed but not read. The kernel then lets no process of the same user inspect its memory
 * or descriptors, so a command cannot impersonate the process that watches it. The copy keeps the modification time of
 * the original, which shows at the next start whether it is still up to date.
 */
const bashCopy = (path: string, dataDir: string): string => {
  const bash = findProgram("bash", path) ?? "/bin/bash";
  const folder = join(dataDir, "sandbox");
  const copy = join(folder, "bash");
  const original = realpathSync(bash);
  const { size, atime, mtime } = statSync(original);
  const made = statSync(copy, { throwIfNoEntry: false });
  if (made?.size === size && made.mtime.getTime() === mtime.getTime() && (made.mode & 0o777) === 0o111) return copy;
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  rmSync(copy, { force: true });
  copyFileSync(original, copy);
  utimesSync(copy, atime, mtime);
  chmodSync(copy, 0o111);
  return copy;
};

/** undefined: there is no profile for this machine's architecture. */
const filterFile = (dataDir: string): string | undefined => {
  const filter = compileFilter(profile, process.arch);
  if (filter === undefined) return undefined;
  const file = join(dataDir, "sandbox", "filter");
  writeFileSync(file, filter, { mode: 0o600 });
  return file;
};

export const namespaceSandbox = (path: string, network: boolean, programs: Sandbox["programs"] = {}): Sandbox => {
  const unshare = findProgram("unshare", path) ?? "unshare";
  const bash = findProgram("bash", path) ?? "/bin/bash";
  const setpriv = findProgram("setpriv", path);
  /** `unshare` kills its children when it exits, but does not notice that the service was killed. */
  const withParent = setpriv === undefined ? [] : [setpriv, "--pdeathsig", "KILL"];
  const user = process.getuid?.() === 0 ? [] : ["--user", "--map-current-user"];
  return {
    tier: 2,
    name: "pid-namespace",
    network,
    note: undefined,
    env: {},
    programs,
    filter: undefined,
    unfiltered: undefined,
    wrap: ({ command, folder, network: asked = network }) => [
      ...withParent,
      unshare,
      ...user,
      "--pid",
      "--fork",
      "--kill-child",
      "--mount-proc",
      // This tier cannot enforce a list of hosts, so with a list nothing is reachable.
      ...(asked === true ? [] : ["--net"]),
      "--",
      bash,
      "--norc",
      "--noprofile",
      ...command(folder),
    ],
  };
};

/** Brings up the loopback interface of a separate network; needs iproute2. bubblewrap does this by itself. */
export const loopbackCommand = "ip link set lo up";
