import { createHash } from "node:crypto";
import { chmodSync, lstatSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { keptOrLoaded } from "../../async/load-once.ts";
import { messageOf } from "../../error.ts";
import { isOwnVariable } from "../../protocol/task/environment.ts";
import { containerSandbox } from "../sandbox/container.ts";
import type { Image } from "../sandbox/image-root.ts";
import { type Machine, refusing, type Sandbox } from "../sandbox/sandbox.ts";
import { selfTest } from "../sandbox/self-test.ts";
import { type Engine, engineEnv, findEngine, inspectImage, type Inspected, type RunEngine } from "./engine.ts";

/** Containers as the sandbox of this machine: what they need from an engine and an image, and whether they isolate. */

export type ContainerSettings = Machine & {
  reference: string;
  network: boolean;
  run: RunEngine;
};

const outAt = "/run/sortie/out";
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** Prints the path of bash and the names of all programs, and copies bash out. */
const ask = `bash=$(command -v bash) && cp -- "$(readlink -f "$bash")" ${outAt}/bash && echo "$bash" || exit
IFS=:; for folder in $PATH; do ls -- "$folder" 2>/dev/null; done; exit 0`;

export const findContainer = async (options: ContainerSettings): Promise<{ sandbox: Sandbox } | { why: string }> => {
  const { env = {}, path, dataDir, run, reference, network, programs = {}, tmpBytes = 0, paths } = options;
  const engine = await findEngine(env, run);
  if ("why" in engine) return engine;
  const own = engineEnv(env);
  const user = await userOf(engine, own, run);
  if ("why" in user) return user;
  const label = `sortie.data=${createHash("sha256").update(dataDir).digest("hex").slice(0, 12)}`;

  const described = async (wanted: string, found: Inspected): Promise<Image | { why: string }> => {
    const folder = join(dataDir, "sandbox", "images", found.id);
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const out = ["--mount", `type=bind,"source=${folder.replaceAll('"', '""')}",target=${outAt}`];
    const safe = ["--network", "none", "--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges"];
    const more = ["--security-opt", "label=disable", "--pull", "never", "--label", label, ...user, ...out];
    const argv = [engine.file, "run", "--rm", ...safe, ...more, "--entrypoint", "bash", found.id, "-c", ask];
    const { output, error } = await run(argv, own);
    if (error !== "") return { why: `the image ${wanted} cannot be used: ${error.split("\n").at(-1)?.slice(0, 300)}` };
    const [bash = "", ...names] = output.split("\n");
    const first = join(folder, "bash");
    // The file is whatever the image contains there, and will be mounted.
    if (lstatSync(first, { throwIfNoEntry: false })?.isFile() !== true)
      return { why: `the image ${wanted} cannot be used: its bash is no file` };
    chmodSync(first, 0o111);
    const all = Object.fromEntries(
      found.env.map((line) => [line.split("=")[0] ?? "", line.slice(line.indexOf("=") + 1)]),
    );
    return {
      id: found.id,
      root: "",
      programs: new Set(names.filter((name) => name !== "")),
      first,
      bash,
      path: all["PATH"] || defaultPath,
      env: Object.fromEntries(Object.entries(all).filter(([name]) => /^\w+$/.test(name) && !isOwnVariable(name))),
    };
  };

  const inspected = await inspectImage(engine, reference, env, run);
  if ("why" in inspected) return inspected;
  const image = await described(reference, inspected);
  if ("why" in image) return image;
  const sweep = async (): Promise<void> => {
    const { output } = await run([engine.file, "ps", "--all", "--quiet", "--filter", `label=${label}`], own);
    const left = output.split("\n").filter((id) => /^[0-9a-f]+$/.test(id));
    if (left.length > 0) await run([engine.file, "rm", "--force", ...left], own);
  };
  const holds = async (other?: Image): Promise<string | undefined> => {
    const tried = await selfTest(sandbox, path, other);
    return tried.ok ? undefined : tried.why;
  };
  const opened = new Map([[inspected.id, Promise.resolve(image)]]);
  const openImage = async (wanted: string): Promise<Image> => {
    const found = await inspectImage(engine, wanted, env, run);
    if ("why" in found) throw new Error(`Commands are to run in an image: ${found.why}.`);
    return keptOrLoaded(opened, found.id, async () => {
      const other = await described(wanted, found);
      if ("why" in other) throw new Error(`Commands are to run in an image: ${other.why}.`);
      const why = await holds(other);
      if (why === undefined) return other;
      throw new Error(`The image ${wanted} cannot be used: the sandbox does not hold in it: ${why}.`);
    });
  };
  const refuses = refusing(options);
  const about = { engine, env: own, user, image, dataDir, network, programs, tmpBytes, paths, label, refuses };
  const sandbox = containerSandbox({ ...about, openImage, sweep });
  const problem = await holds().catch(messageOf);
  if (problem === undefined) return { sandbox };
  await sweep();
  return { why: `${engine.file} with the image ${reference}: ${problem}` };
};

/** Arguments that make the service's user the owner of the files that commands write. */
const userOf = async (
  { name, file }: Engine,
  env: Record<string, string>,
  run: RunEngine,
): Promise<string[] | { why: string }> => {
  const format = name === "podman" ? "{{.Host.Security.Rootless}}" : "{{json .SecurityOptions}}";
  const { output, error } = await run([file, "info", "--format", format], env);
  if (error !== "") return { why: `${file} info: ${error.split("\n").at(-1)?.slice(0, 300)}` };
  const rootless = name === "podman" ? output.trim() === "true" : output.includes("name=rootless");
  if (process.getuid?.() === 0 && !rootless)
    return {
      why: `the service's user is root, and so are commands in a container of ${file}, to the kernel. Run the service as another user, or a rootless ${name}`,
    };
  const own = ["--user", `${process.getuid?.() ?? 0}:${process.getgid?.() ?? 0}`];
  if (!rootless) return own;
  // Root in a rootless docker is the user that docker runs as.
  return name === "podman" ? ["--userns", "keep-id", ...own] : ["--user", "0:0"];
};
