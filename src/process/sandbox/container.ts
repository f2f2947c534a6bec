import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ociProfile } from "../seccomp/oci.ts";
import type { Image } from "./image-root.ts";
import type { Mount } from "./place.ts";
import { bashAt, type Container, ioAt, programAt, type Sandbox } from "./sandbox.ts";

/**
 * Tier 1 on machines without bubblewrap: a container of podman or docker, with an image that the operator names. Each
 * sandbox is a separate container, opened, fed and ended like bubblewrap's: process 1 reads its commands from standard
 * input, and everything in the container ends with process 1, which ends when its standard input does.
 *
 * Merged views of folders, and networks restricted to a list of hosts, are not available: both need mounts and networks
 * that the service makes for itself, and an engine does not see those.
 */

export type ContainerOptions = {
  engine: { name: "podman" | "docker"; file: string };
  /** The engine's environment. */
  env: Container["env"];
  /** Engine arguments that set the user of commands, so that they own the files of the service's user. */
  user: readonly string[];
  image: Image;
  dataDir: string;
  network: boolean;
  programs: Readonly<Record<string, string>>;
  /** As `Machine.tmpBytes`. */
  tmpBytes: number;
  refuses: NonNullable<Sandbox["refuses"]>;
  /** Further read-only folders. */
  paths: readonly string[];
  /** Label that identifies the containers of this data folder. */
  label: string;
} & Pick<Container, "openImage" | "sweep">;

/** Variables that engines set in each container on their own: the operator's proxies, with their passwords. */
const proxies = "http_proxy https_proxy ftp_proxy no_proxy all_proxy".split(" ");
export const withoutProxies = `unset ${[...proxies, ...proxies.map((name) => name.toUpperCase())].join(" ")}`;

/** A field of `--mount`, whose value is parsed as a line of comma-separated values. */
const field = (name: string, value: string): string => `"${`${name}=${value}`.replaceAll('"', '""')}"`;

const bind = (kind: "ro" | "rw", from: string, to: string): string[] => [
  "--mount",
  ["type=bind", field("source", from), field("target", to), ...(kind === "ro" ? ["readonly"] : [])].join(","),
];

const mountArguments = (mounts: readonly Mount[], folder: string): string[] => {
  let texts = 0;
  const own = (name: string, make: (path: string) => void): string => {
    const path = join(folder, name);
    make(path);
    return path;
  };
  return mounts.flatMap((mount): string[] => {
    switch (mount.kind) {
      case "ro":
        // A missing source is left out, as with bubblewrap; an engine would reject it.
        return existsSync(mount.from) ? bind("ro", mount.from, mount.to) : [];
      case "rw":
        return bind("rw", mount.from, mount.to);
      case "text": {
        const { text } = mount;
        const file = own(`text-${(texts += 1)}`, (path) => writeFileSync(path, text, { mode: 0o600 }));
        return bind("ro", file, mount.to);
      }
      case "empty":
        return bind(
          "ro",
          own("empty", (path) => mkdirSync(path, { recursive: true, mode: 0o700 })),
          mount.to,
        );
      case "link":
        throw new Error(`Expected no link in a container, got ${mount.to}.`);
    }
  });
};

let serial = 0;

export const containerSandbox = (options: ContainerOptions): Sandbox => {
  const { engine, env, image: usual, dataDir, programs, tmpBytes, label } = options;
  mkdirSync(join(dataDir, "sandbox"), { recursive: true, mode: 0o700 });
  const filter = join(dataDir, "sandbox", "filter.json");
  writeFileSync(filter, JSON.stringify(ociProfile()), { mode: 0o600 });
  const size = tmpBytes === 0 ? "" : `,size=${tmpBytes}`;
  const start = (name: string, network: boolean, folders: readonly string[]): string[] => [
    engine.file,
    "run",
    "--rm",
    "--interactive",
    "--name",
    name,
    "--label",
    label,
    "--pull",
    "never",
    // The engine must not store the output of commands.
    "--log-driver",
    "none",
    "--network",
    network ? "host" : "none",
    "--ipc",
    "private",
    "--cap-drop",
    "all",
    "--security-opt",
    "no-new-privileges",
    "--security-opt",
    "label=disable",
    "--security-opt",
    `seccomp=${filter}`,
    ...options.user,
    "--read-only",
    // Hides information about the machine; for docker a mount does this.
    ...(engine.name === "podman" ? ["--read-only-tmpfs=false", "--security-opt", "mask=/sys:/proc/pressure"] : []),
    // As in other sandboxes, low ports are reserved; an engine would allow any port to every user.
    ...(network ? [] : ["--sysctl", "net.ipv4.ip_unprivileged_port_start=1024"]),
    ...folders.flatMap((at) => ["--tmpfs", `${at}:rw,exec,nosuid,nodev,mode=1777${size}`]),
    ...(tmpBytes === 0 ? [] : ["--shm-size", String(tmpBytes)]),
    "--env",
    "LC_ALL=C",
  ];
  return {
    tier: 1,
    name: "container",
    network: options.network,
    note: undefined,
    env: {},
    programs: Object.fromEntries(Object.keys(programs).map((name) => [name, programAt(name)])),
    // The engine loads the filter itself.
    filter: undefined,
    unfiltered: undefined,
    refuses: options.refuses,
    container: { image: usual, env, openImage: options.openImage, sweep: options.sweep },
    wrap: ({
      place,
      folder,
      command,
      cwd,
      network: asked = options.network,
      extra = [],
      paths: more = [],
      image = usual,
    }) => {
      const shown = [...options.paths, ...more].map((from): Mount => ({ kind: "ro", from, to: from }));
      const mounts: Mount[] = [
        ...(engine.name === "docker" ? [{ kind: "empty", to: "/sys" } as const] : []),
        ...shown,
        ...place.under(),
        { kind: "rw", from: place.tree, to: place.at },
        ...place.over(),
        ...extra,
        { kind: "ro", from: folder, to: ioAt },
        { kind: "ro", from: image.first, to: bashAt },
        ...Object.entries(programs).map(([name, from]): Mount => ({ kind: "ro", from, to: programAt(name) })),
      ];
      return [
        ...start(`${nameOf(label)}-${process.pid}-${(serial += 1)}`, asked === true, ["/tmp", "/var/tmp"]),
        ...mountArguments(mounts, folder),
        "--workdir",
        cwd,
        "--entrypoint",
        bashAt,
        image.id,
        "--norc",
        "--noprofile",
        ...command(ioAt),
      ];
    },
  };
};

/** `label` has the form `name=value`. */
const nameOf = (label: string): string => `sortie-${label.split("=")[1]}`;
