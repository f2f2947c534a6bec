import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, fstatSync, mkdirSync, mkdtempSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { Log } from "../../log.ts";
import type { Given } from "../../protocol/event/workspace.ts";
import { folderStats, problemOf } from "./find.ts";
import type { Mount, SandboxPlace } from "../../process/sandbox/place.ts";
import { findProgram } from "../../process/sandbox/sandbox.ts";
import { openFolder } from "../file/folder.ts";
import { removeTree } from "../file/remove-tree.ts";
import { keptOrLoaded } from "../../async/load-once.ts";

/**
 * Tier 1: mounts a dependency folder of the user's over the same path of the Task's tree, with an overlay that receives
 * what the Task's commands write. bubblewrap 0.8 cannot mount overlays, so a mount namespace around it does.
 */

/** `user`: mounts in a user namespace, because this process may not mount. */
type Way = { how: "layer" | "read-only"; user: boolean };

/** `sure`: another try would give the same result. */
type Tried = { way: Way | undefined; sure: boolean };

/**
 * For each folder: binds it without the mounts inside it, and compares it with the one that was inspected, since the
 * name may lead elsewhere by now. Names are relative, because a path may contain the separators of mount options.
 */
const script = `options=$1; n=$2; shift 2
while [ "$n" -gt 0 ]; do
  n=$((n - 1))
  cd -- "$3" && mount --bind -- "$1" lower || exit 1
  if [ "$(stat -c %d:%i lower)" != "$2" ]; then echo "$1 was replaced meanwhile" >&2; exit 1; fi
  below=lower
  if [ -n "$5" ]; then mount --bind -- "$5" below && below=below:lower || exit 1; fi
  if [ "$4" = layer ]; then mount -t overlay -o "$options,lowerdir=$below,upperdir=upper,workdir=work" sortie merged || exit 1
  else mount --bind lower merged && mount -o remount,bind,ro merged || exit 1; fi
  shift 5
done
cd /
exec "$@"`;

/** Mount options whose kernel defaults may make an overlay unusable when the user changes the folder below it. */
const options = "index=off,redirect_dir=off,metacopy=off,xino=off";

/** `below`: the upper folder of another overlay, mounted between the user's folder and this one. */
type Layer = { from: string; id: string; folder: string; how: Way["how"]; below?: string };

export type OverlayContext = {
  /** The folder that holds the overlays. */
  folder: string;
  place: SandboxPlace;
  /** The project's top, which the provided folders are relative to. */
  toplevel: string;
  given: readonly Given[];
  /** A folder with other overlays, which are mounted below these. */
  below?: string;
};

const treeLayer = "tree";
/** The folder that holds what was written to the overlay over the whole tree. */
export const upperOf = (folder: string): string => join(folder, treeLayer, "upper");

export const createOverlays = ({ home, path, log }: { home: string; path: string; log: Log }) => {
  /** The result of trying to mount, by device number of the project's file system. */
  const ways = new Map<number, Promise<Tried>>();
  const layersOf = (taskID: string) => join(home, `${taskID}.overlays`);

  const wrapped = (way: Pick<Way, "user">, overlays: readonly Layer[], argv: readonly string[]): string[] => {
    const [file = "", ...args] = argv;
    const ids = [process.getuid?.() ?? 0, process.getgid?.() ?? 0].map(String);
    // bubblewrap runs as root of its own user namespace here; without these options commands would be root, too.
    const same =
      way.user && overlays.length > 0 && file.endsWith("bwrap") ? ["--uid", ids[0] ?? "", "--gid", ids[1] ?? ""] : [];
    return [
      findProgram("unshare", path) ?? "unshare",
      ...(way.user ? ["--user", "--map-root-user"] : []),
      "--mount",
      "--",
      findProgram("bash", path) ?? "/bin/bash",
      // With a socket as its input, which our pipe is, bash takes itself for a remote shell and reads ~/.bashrc.
      "--norc",
      "-c",
      script,
      "sortie",
      way.user ? `userxattr,index=off,metacopy=off,xino=off` : options,
      String(overlays.length),
      ...overlays.flatMap(({ from, id, folder, how, below = "" }) => [from, id, folder, how, below]),
      file,
      ...same,
      ...args,
    ];
  };

  /** How folders can be mounted on this machine and file system; tried once. undefined: not at all. */
  const wayFor = async (toplevel: string, sample: string): Promise<Way | undefined> => {
    const { dev } = statSync(toplevel);
    const { way } = await keptOrLoaded(
      ways,
      dev,
      () => tryWays(toplevel, sample),
      ({ sure }) => sure,
    );
    return way;
  };
  const tryWays = async (toplevel: string, sample: string): Promise<Tried> => {
    let sure = true;
    mkdirSync(home, { recursive: true, mode: 0o700 });
    for (const how of ["layer", "read-only"] as const)
      for (const user of process.getuid?.() === 0 ? [false, true] : [true]) {
        const folder = mkdtempSync(join(home, "try."));
        try {
          makeParts(folder);
          const stats = folderStats(toplevel, sample);
          if (typeof stats === "string") continue;
          const layer = { from: join(toplevel, sample), id: `${stats.dev}:${stats.ino}`, folder, how };
          const test = `cd -- "$0" && ls merged >/dev/null${how === "layer" ? " && : >merged/.sortie-try && rm merged/.sortie-try" : ""}`;
          const worked = await works(wrapped({ user }, [layer], ["/bin/bash", "--norc", "-c", test, folder]), path);
          if (worked === true) return { way: { how, user }, sure: true };
          sure &&= worked === false;
        } finally {
          await removeTree(folder);
        }
      }
    return { way: undefined, sure };
  };

  return {
    /** Decides how each of these folders can be provided; mounts nothing. */
    async plan(toplevel: string, paths: readonly string[]): Promise<(path: string) => Given> {
      const [first] = paths;
      const way = first === undefined ? undefined : await wayFor(toplevel, first);
      if (way !== undefined)
        return (path) =>
          way.how === "layer"
            ? { path, how: "layer" }
            : { path, how: "read-only", reason: "this file system does not support a writable layer" };
      return (path) => ({
        path,
        how: "left-out",
        reason: "this machine does not let the service mount anything over the tree",
      });
    },

    /** The place with these folders mounted. Each folder is inspected again whenever a sandbox is opened. */
    async around(request: OverlayContext): Promise<SandboxPlace> {
      const { place, toplevel, given } = request;
      const wanted = given.filter(({ how }) => how === "layer" || how === "read-only");
      const [first] = wanted;
      const way = first === undefined ? undefined : await wayFor(toplevel, first.path);
      return way === undefined ? place : withLayers(request, way, wanted, undefined);
    },

    /**
     * Like `around`, with an overlay over the tree as well, so that all writes stay in `folder`. undefined: not
     * possible on this machine.
     */
    async apart(request: OverlayContext): Promise<SandboxPlace | undefined> {
      const { place, toplevel, given } = request;
      const wanted = given.filter(({ how }) => how === "layer" || how === "read-only");
      const [first] = wanted;
      const own = await wayFor(dirname(place.tree), basename(place.tree));
      const way = first === undefined ? own : await wayFor(toplevel, first.path);
      if (own?.how !== "layer" || way?.user !== own.user) return undefined;
      const stats = folderStats(dirname(place.tree), basename(place.tree));
      if (typeof stats === "string") return undefined;
      const folder = join(request.folder, treeLayer);
      makeParts(folder);
      const over: Layer = { from: place.tree, id: `${stats.dev}:${stats.ino}`, folder, how: "layer" };
      return withLayers({ ...request, place: { ...place, shown: join(folder, "merged") } }, way, wanted, over);
    },

    folderOf: layersOf,
    /** Discards what the Task's commands wrote to overlays. No sandbox of the Task may be open. */
    remove: (taskID: string): Promise<void> => removeTree(layersOf(taskID)),
  };

  function withLayers(
    request: OverlayContext,
    way: Way,
    wanted: readonly Given[],
    over: Layer | undefined,
  ): SandboxPlace {
    const { place } = request;
    let overlays: Layer[] = [];
    return {
      ...place,
      over() {
        overlays = over === undefined ? [] : [over];
        const mounts: Mount[] = [];
        for (const { path: name } of wanted) {
          const layer = layerOf(request, name, way.how);
          if (typeof layer === "string")
            log.warn({ path: name, reason: layer }, "a dependency folder is not available");
          else {
            overlays.push(layer);
            mounts.push({ kind: "rw", from: join(layer.folder, "merged"), to: join(place.at, name) });
          }
        }
        return [...place.over(), ...mounts];
      },
      around: (argv) => (overlays.length === 0 ? argv : wrapped(way, overlays, argv)),
    };
  }

  function layerOf(
    { folder: layersAt, place, toplevel, below }: OverlayContext,
    name: string,
    how: Way["how"],
  ): Layer | string {
    const stats = folderStats(toplevel, name);
    const problem = problemOf({ toplevel, hidden: home }, name);
    if (typeof stats === "string" || problem !== undefined) return problem ?? "it is gone";
    try {
      // The mount point is created here, following no link: bubblewrap would follow one.
      using target = openFolder(place.tree, name.split("/"), true);
      fstatSync(target.fd);
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
    const key = createHash("sha256").update(name).digest("hex").slice(0, 16);
    const folder = join(layersAt, key);
    makeParts(folder);
    const layer = { from: join(toplevel, name), id: `${stats.dev}:${stats.ino}`, folder, how };
    const under = below === undefined ? undefined : join(below, key, "upper");
    return under === undefined || !existsSync(under) ? layer : { ...layer, below: under };
  }
};

export type Overlays = ReturnType<typeof createOverlays>;

const makeParts = (folder: string): void => {
  for (const part of ["lower", "below", "upper", "work", "merged"])
    mkdirSync(join(folder, part), { recursive: true, mode: part === "upper" ? 0o755 : 0o700 });
};

/**
 * Whether the command succeeds; undefined: it could not be started, or not finished, which says nothing about the
 * machine.
 */
const works = ([file = "", ...args]: readonly string[], path: string): Promise<boolean | undefined> =>
  new Promise((resolve) => {
    execFile(file, args, { env: { PATH: path, LC_ALL: "C" }, timeout: 10_000 }, (error) => {
      if (error === null) resolve(true);
      else resolve(typeof error.code === "number" || error.code === "ENOENT" ? false : undefined);
    });
  });
