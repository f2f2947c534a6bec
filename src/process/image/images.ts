import { createHash } from "node:crypto";
import { chmodSync, existsSync, lstatSync, readFileSync, renameSync, utimesSync, writeFileSync } from "node:fs";
import { copyFile, mkdir, readdir, rm, stat, statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import { keptOrLoaded, loadOnce } from "../../async/load-once.ts";
import { messageOf } from "../../error.ts";
import type { Log } from "../../log.ts";
import { isOwnVariable } from "../../protocol/task/environment.ts";
import type { Command, CommandResult } from "../process.ts";
import type { SandboxPlace } from "../sandbox/place.ts";
import { type Image, inImage } from "../sandbox/image-root.ts";
import { type Engine, engineEnv, findEngine, type Inspected, inspectImage, type RunEngine } from "./engine.ts";

/**
 * The images that commands run in. An engine exports the files of an image once; they are unpacked below the data
 * folder, in a sandbox because their content is untrusted, and kept under the image's id. No container is started, so
 * none can be left over.
 */

export type ImagesOptions = {
  /** Below the data folder. */
  folder: string;
  env: Readonly<Record<string, string | undefined>>;
  /** Runs a program of this machine without a time limit, as long as it makes progress. */
  runEngine: RunEngine;
  /** Runs a command in a sandbox on this machine's files. */
  run: (command: Command, place: SandboxPlace) => Promise<CommandResult>;
  /** Resolves to what is wrong with the sandbox's isolation over these files; undefined: it holds. */
  test: (image: Image) => Promise<string | undefined>;
  removeTree: RemoveTree;
  log: Log;
};

/** Removes a folder whatever it contains: nesting deeper than a path may be long, folders closed to their owner. */
export type RemoveTree = (path: string) => Promise<void>;

export type Images = {
  /** Rejects with the reason and its remedy. */
  open(reference: string): Promise<Image>;
};

/** An image that no Task has used for this long is removed. */
const keptMs = 30 * 24 * 3_600_000;
const unpackMs = 20 * 60_000;

const mostBash = 64 * 1024 * 1024;

const recordOf = (at: string) => join(at, "ready.json");
const tarAt = "/run/sortie/image.tar";
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/**
 * Leaves out devices, owners and set-user-ID bits, which have no use here. Files that something is mounted over must
 * exist. The user gets a name, because programs such as ssh refuse one without.
 */
const unpack = `umask 022
tar -xf ${tarAt} --no-same-owner --no-same-permissions --exclude=dev --exclude=proc --exclude=sys --exclude=./dev --exclude=./proc --exclude=./sys || exit
rm -f etc/shadow* etc/gshadow* etc/sudoers || exit
chmod -R u+rwX . || exit
[ -d etc ] && [ ! -L etc ] || { echo "it has no /etc"; exit 1; }
for name in hosts resolv.conf passwd group; do
  [ -f "etc/$name" ] && [ ! -L "etc/$name" ] || { rm -rf "etc/$name"; : >"etc/$name"; } || exit
done
grep -q "^[^:]*:[^:]*:$(id -u):" etc/passwd || echo "sortie:x:$(id -u):$(id -g)::/tmp:/bin/sh" >>etc/passwd
grep -q "^[^:]*:[^:]*:$(id -g):" etc/group || echo "sortie:x:$(id -g):" >>etc/group`;

export const createImages = ({ folder, env, runEngine, run, test, removeTree, log }: ImagesOptions): Images => {
  const open = new Map<string, Promise<Image>>();
  const engine = loadOnce(
    () => findEngine(env, runEngine),
    (found) => !("why" in found),
  );
  const atOnce = new Map<string, Promise<Image>>();

  /** A container that a killed service left behind has this name and is removed first; it was never started. */
  const exported = async ({ file }: Engine, { id }: Inspected, to: string): Promise<void> => {
    const own = createHash("sha256").update(folder).digest("hex").slice(0, 12);
    const name = `sortie-${own}-${id.slice(0, 12)}`;
    const ask = async (...args: string[]) => {
      const { error } = await runEngine([file, ...args], engineEnv(env));
      if (error !== "") throw new Error(`${file} ${args[0]}: ${error.split("\n").at(-1)?.slice(0, 300)}`);
    };
    await ask("rm", "--force", name).catch(() => {});
    await ask("create", "--name", name, "--network", "none", id, "/bin/bash");
    try {
      await ask("export", "--output", to, name);
    } finally {
      await ask("rm", "--force", name).catch((error: unknown) => {
        log.warn({ container: name, error: messageOf(error) }, "a container that was never started stays");
      });
    }
  };

  const make = async (reference: string, found: Engine, inspected: Inspected): Promise<void> => {
    const at = join(folder, inspected.id);
    const part = `${at}.part`;
    await removeTree(part);
    const root = join(part, "root");
    await mkdir(root, { recursive: true, mode: 0o700 });
    try {
      const { bavail, bsize } = await statfs(part);
      if (bavail * bsize < 2 * inspected.bytes + 2 ** 30)
        throw new Error(`its ${Math.ceil(inspected.bytes / 2 ** 20)} MB need twice the space and a GB in ${folder}`);
      const tar = join(part, "image.tar");
      await exported(found, inspected, tar);
      const place: SandboxPlace = {
        tree: root,
        at: root,
        under: () => [],
        over: () => [{ kind: "ro", from: tar, to: tarAt }],
      };
      const { signal } = new AbortController();
      const ran = await run({ run: unpack, cwd: root, timeoutMs: unpackMs, keepBytes: 4096, signal, own: true }, place);
      if (ran.ended !== "exit" || ran.exitCode !== 0)
        throw new Error(`it could not be unpacked (${ran.output.trim().split("\n").at(-1) || ran.ended})`);
      await rm(tar, { force: true });
      const bash = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"].find(
        (path) => inImage(root, path) !== undefined,
      );
      if (bash === undefined) throw new Error("it has no bash, which commands are run with");
      const first = join(part, "bash");
      const own = join(root, inImage(root, bash) ?? "");
      // A pipe in its place would block the copy, and a file may have any length.
      const stats = lstatSync(own);
      if (!stats.isFile() || stats.size > mostBash) throw new Error(`its ${bash} is no program of at most 64 MiB`);
      await copyFile(own, first);
      chmodSync(first, 0o111);
      writeFileSync(recordOf(part), JSON.stringify({ bash }));
      await removeTree(at);
      renameSync(part, at);
      const problem = await test(imageAt(at, inspected));
      if (problem === undefined) return;
      await removeTree(at);
      throw new Error(`the sandbox does not hold in it: ${problem}`);
    } catch (error) {
      await removeTree(part);
      throw new Error(`The image ${reference} cannot be used: ${messageOf(error)}.`, { cause: error });
    }
  };

  const imageAt = (at: string, { id, env: given }: Inspected): Image => {
    const { bash } = JSON.parse(readFileSync(recordOf(at), "utf8")) as { bash: string };
    const all = Object.fromEntries(given.map((line) => [line.split("=")[0] ?? "", line.slice(line.indexOf("=") + 1)]));
    return {
      id,
      root: join(at, "root"),
      first: join(at, "bash"),
      bash,
      path: all["PATH"] || defaultPath,
      env: Object.fromEntries(Object.entries(all).filter(([name]) => /^\w+$/.test(name) && !isOwnVariable(name))),
    };
  };

  const removeOld = async (): Promise<void> => {
    for (const name of await readdir(folder).catch(() => [])) {
      const at = join(folder, name);
      if (open.has(name)) continue;
      const { mtimeMs } = await stat(recordOf(at)).catch(() => stat(at));
      if (Date.now() - mtimeMs > keptMs) await removeTree(at);
    }
  };

  const opened = async (reference: string): Promise<Image> => {
    const found = await engine();
    if ("why" in found)
      throw new Error(`Commands are to run in the image ${reference}, and there is no engine: ${found.why}.`);
    const inspected = await inspectImage(found, reference, env, runEngine);
    if ("why" in inspected) throw new Error(`Commands are to run in an image: ${inspected.why}.`);
    const at = join(folder, inspected.id);
    const image = await keptOrLoaded(open, inspected.id, async () => {
      if (!existsSync(recordOf(at))) await make(reference, found, inspected);
      return imageAt(at, inspected);
    });
    const now = new Date();
    utimesSync(recordOf(dirname(image.root)), now, now);
    await removeOld().catch((error: unknown) => log.warn({ error: messageOf(error) }, "old images stay"));
    return image;
  };

  return {
    open(reference) {
      const before = atOnce.get(reference);
      if (before !== undefined) return before;
      const opening = opened(reference).finally(() => atOnce.delete(reference));
      atOnce.set(reference, opening);
      return opening;
    },
  };
};
