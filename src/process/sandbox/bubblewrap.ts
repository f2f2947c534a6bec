import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Mount, SandboxPlace } from "./place.ts";
import { topLink } from "./system-mount.ts";

/** The arguments of bubblewrap. Every one of them is there because leaving it out was seen to open a way out (T6). */

export type Wrap = {
  bwrap: string;
  place: SandboxPlace;
  system: readonly Mount[];
  /** Folder of this sandbox, for the files it needs. */
  folder: string;
  network: boolean;
  /** Mounted last, over the tree too. */
  extra?: readonly Mount[];
  /** What runs in it, as process 1. */
  command: readonly string[];
  cwd: string;
};

/** Named, so that a test can leave one out and see that the self-test finds it missing. */
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

const procHidden = ["kcore", "kmsg", "keys", "key-users", "timer_list", "sched_debug", "latency_stats", "kallsyms"];

export const bubblewrapArguments = (wrap: Wrap, without: readonly string[] = []): string[] => {
  const { place, folder } = wrap;
  let texts = 0;
  const argsOf = (mount: Mount): string[] => {
    switch (mount.kind) {
      case "ro": {
        const link = mount.from === mount.to ? topLink(mount.from) : undefined;
        return link === undefined ? ["--ro-bind-try", mount.from, mount.to] : ["--symlink", link, mount.to];
      }
      case "rw":
        return ["--bind", mount.from, mount.to];
      case "text": {
        const file = join(folder, `text-${(texts += 1)}`);
        writeFileSync(file, mount.text, { mode: 0o600 });
        return ["--ro-bind", file, mount.to];
      }
      case "empty":
        return ["--tmpfs", mount.to, "--remount-ro", mount.to];
    }
  };
  const kept = Object.entries(guards).flatMap(([name, args]) => (without.includes(name) ? [] : args));
  return [
    wrap.bwrap,
    ...kept,
    ...(wrap.network || without.includes("network") ? [] : ["--unshare-net"]),
    "--proc",
    "/proc",
    // Root without any capability is still the owner of the kernel's settings, and may write them.
    ...(without.includes("settings") ? [] : ["--remount-ro", "/proc"]),
    ...hidden(),
    "--dev",
    "/dev",
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

/** Only what is there can be covered: nothing can be made in /proc. Looked for once. */
let found: string[] | undefined;
const hidden = (): string[] =>
  (found ??= procHidden.flatMap((name) =>
    existsSync(`/proc/${name}`) ? ["--ro-bind", "/dev/null", `/proc/${name}`] : [],
  ));
