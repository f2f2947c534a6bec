import { existsSync, lstatSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Mount, SandboxPlace } from "./place.ts";
import { filterDescriptor } from "./spawn.ts";
import { rootLinkTarget } from "./system-mount.ts";

/** The arguments of bubblewrap. Each is there because leaving it out was shown to open a way out (test T6). */

export type Wrap = {
  bwrap: string;
  place: SandboxPlace;
  system: readonly Mount[];
  /** Folder for the files of this one sandbox. */
  folder: string;
  network: boolean;
  /** Whether a filter of system calls is given as `filterDescriptor`. */
  filtered: boolean;
  /** The size limit of /tmp and of /dev/shm, each, in bytes; 0: half of the machine's memory, the kernel's default. */
  tmpBytes: number;
  /** Mounted last, possibly over the tree. */
  extra?: readonly Mount[];
  /** The command line of process 1. */
  command: readonly string[];
  cwd: string;
};

/** By name, so that a test can leave one out and check that the self-test notices. */
export const guards = {
  user: ["--unshare-user"],
  "no-more-users": ["--disable-userns"],
  capabilities: ["--cap-drop", "ALL"],
  processes: ["--unshare-pid"],
  messages: ["--unshare-ipc"],
  names: ["--unshare-uts"],
  "end-with-parent": ["--die-with-parent"],
  terminal: ["--new-session"],
  "first-process": ["--as-pid-1"],
} as const;

const procHidden = ["keys", "key-users", "sched_debug", "latency_stats", "kallsyms", "sys/net/ipv4/tcp_fastopen_key"];

export const bubblewrapArguments = (wrap: Wrap, without: readonly string[] = []): string[] => {
  const { place, folder } = wrap;
  let texts = 0;
  const argsOf = (mount: Mount): string[] => {
    switch (mount.kind) {
      case "ro": {
        const link = mount.from === mount.to ? rootLinkTarget(mount.from) : undefined;
        return link === undefined ? ["--ro-bind-try", mount.from, mount.to] : ["--symlink", link, mount.to];
      }
      case "rw":
        return ["--bind", mount.from, mount.to];
      case "text": {
        const file = join(folder, `text-${(texts += 1)}`);
        writeFileSync(file, mount.text, { mode: 0o600 });
        return ["--ro-bind", file, mount.to];
      }
      case "link":
        return ["--symlink", mount.text, mount.to];
      case "empty":
        return ["--tmpfs", mount.to, "--remount-ro", mount.to];
    }
  };
  const size = wrap.tmpBytes === 0 ? [] : ["--size", String(wrap.tmpBytes)];
  const kept = Object.entries(guards).flatMap(([name, args]) => (without.includes(name) ? [] : args));
  return [
    wrap.bwrap,
    ...kept,
    ...(wrap.network || without.includes("network") ? [] : ["--unshare-net"]),
    ...(wrap.filtered ? ["--seccomp", String(filterDescriptor)] : []),
    "--proc",
    "/proc",
    // Even without capabilities, root owns the kernel's settings in /proc and could write them.
    ...(without.includes("settings") ? [] : ["--remount-ro", "/proc"]),
    ...hidden(),
    "--dev",
    "/dev",
    ...size,
    "--perms",
    "1777",
    "--tmpfs",
    "/dev/shm",
    // /dev is in memory as well, without a size limit, and is needed only for its devices.
    ...(without.includes("devices") ? [] : ["--remount-ro", "/dev"]),
    ...size,
    "--tmpfs",
    "/tmp",
    "--dir",
    "/var",
    "--symlink",
    "../tmp",
    "/var/tmp",
    ...wrap.system.flatMap(argsOf),
    ...place.under().flatMap(argsOf),
    "--bind",
    place.shown ?? place.tree,
    place.at,
    ...place.over().flatMap(argsOf),
    ...(wrap.extra ?? []).flatMap(argsOf),
    ...(without.includes("root") ? [] : ["--remount-ro", "/"]),
    "--chdir",
    wrap.cwd,
    "--",
    ...wrap.command,
  ];
};

/**
 * Hides the entries of /proc that reveal information about the machine, and those that the kernel shows only to root
 * (kcore, kmsg, vmallocinfo, slabinfo …): if the service runs as root, /proc treats its commands as root, too. Only
 * existing paths can be covered, because nothing can be created there. Determined once.
 */
let found: string[] | undefined;
const hidden = (): string[] =>
  (found ??= [...procHidden.filter((name) => existsSync(`/proc/${name}`)), ...closedInProc()].flatMap((name) => [
    "--ro-bind",
    "/dev/null",
    `/proc/${name}`,
  ]));

/**
 * Files of /proc that only root may read. Processes are skipped by name: a process that ends while /proc is listed has
 * no file type, and `withFileTypes` would fail for it.
 */
export const closedInProc = (): string[] =>
  readdirSync("/proc").filter((name) => {
    if (/^\d/.test(name)) return false;
    const stats = lstatSync(`/proc/${name}`, { throwIfNoEntry: false });
    return stats?.isFile() === true && (stats.mode & 0o004) === 0;
  });
