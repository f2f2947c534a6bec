import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { silent } from "../../src/log.ts";
import { defaultLimits } from "../../src/protocol/limit.ts";
import { createProcesses } from "../../src/process/service.ts";
import { processGroupSandbox, bubblewrapSandbox } from "../../src/process/sandbox/sandbox.ts";
import { removeTree } from "../../src/workspace/file/remove-tree.ts";
import { createWorkspaces } from "../../src/workspace/service.ts";
import { containerHere } from "../harness/container.ts";
import { imageFor } from "../harness/image.ts";
import { makeProject, writeFiles } from "../harness/project.ts";
import { escapes, harmful } from "./escapes.ts";
import { kernelEscapes } from "./kernel-escapes.ts";

/**
 * Tries every way out, in a process of its own so that it can be another user's: `escape-run.ts <tier|image|container>
 * <every nth>`. Prints what escaped, how many were tried, and what changed of files that are not the Task's.
 */

const [asked = "1", nth = "1"] = process.argv.slice(2);
const tier = asked === "image" || asked === "container" ? "1" : asked;
const folder = mkdtempSync("/tmp/sortie-escape-");
const planted = `${folder}-planted`;
const path = process.env["PATH"] ?? "";
const dataDir = join(folder, "data");
const home = join(folder, "home");

writeFiles(folder, {
  secret: "secret\n",
  "data/sortie.db": "database\n",
  "data/instance": "instance\n",
  "data/worktrees/task_other/a.txt": "other\n",
  "home/.npmrc": "token\n",
  "home/.bashrc": "start\n",
  "home/.ssh/id_ed25519": "key\n",
  "home/.cargo/bin/tool": "tool\n",
});
writeFileSync(planted, "planted\n");
const project = makeProject(join(folder, "project"), { "a.txt": "a\n" });
execFileSync("git", ["remote", "add", "origin", "https://user:TOKEN@example.org/x.git"], { cwd: project });
writeFileSync(join(project, ".gitignore"), "only-here\nnode_modules\n");
writeFileSync(join(project, "only-here"), "here\n");
writeFiles(project, { "node_modules/dep/index.js": "dep\n" });

const server = createServer((socket) => socket.end());
await new Promise<void>((resolve) => server.listen(0, resolve));
const address = server.address();
const port = typeof address === "object" && address !== null ? address.port : 0;
const abstract = createServer().listen(`\0sortie-escape-${port}`);
const socketFile = createServer().listen(join(folder, "socket"));
process.env["PLANTED_SECRET"] = "planted";

// A process outside, in a session of its own, with a file open; `script` gives it a terminal.
const victim = spawn(
  "script",
  ["-qefc", `exec 7<${folder}/secret; echo $$ > ${folder}/victim; exec sleep 300`, "/dev/null"],
  { stdio: ["pipe", "ignore", "ignore"], cwd: folder },
);
await once(victim, "spawn");
while (!existsSync(join(folder, "victim")) || readFileSync(join(folder, "victim"), "utf8") === "")
  await new Promise((resolve) => setTimeout(resolve, 10));
const segment = /\d+/.exec(execFileSync("ipcmk", ["-M", "4096", "-p", "0600"], { encoding: "utf8" }))?.[0] ?? "";
const queue = `sortie-escape-${port}`;
const [mqOpen, mqUnlink] = process.arch === "arm64" ? [180, 181] : [240, 241];
execFileSync("perl", ["-e", `$n = "${queue}"; exit(syscall(${mqOpen}, $n, 0102, 0600, 0) >= 0 ? 0 : 1)`]);

const bwrap = path
  .split(":")
  .map((each) => join(each, "bwrap"))
  .find((file) => existsSync(file));
const sandbox =
  asked === "container"
    ? await containerHere(dataDir, home)
    : tier === "1"
      ? bubblewrapSandbox({ path: `${path}:${home}/.cargo/bin`, home, paths: [], dataDir }, false, bwrap ?? "bwrap")
      : processGroupSandbox;
const engines = mkdtempSync("/tmp/sortie-escape-engine-");
const images = asked === "image" ? imageFor(engines) : undefined;
const processes = createProcesses({
  folder: join(dataDir, "processes"),
  keepEnv: images === undefined ? { PATH: path } : { ...images.env },
  sandbox,
  images: images && { removeTree },
  log: silent,
});
if (images !== undefined) {
  const image = await processes.openImage(images.reference);
  processes.setEnvironment("task_escape", { variables: {}, network: undefined, paths: [], image });
}
// Under a layer, so that the way it is mounted is tried too.
const dependencies = { names: ["node_modules"], tier: sandbox.container === undefined ? sandbox.tier : (2 as const) };
const options = { dataDir, projectRoots: [], processes, dependencies, path, limits: defaultLimits, log: silent };
const workspaces = createWorkspaces(options);
const workspace = await workspaces.prepare({
  taskID: "task_escape",
  directory: project,
  isolation: "worktree",
  landing: "commit",
});

const fill = (command: string): string => {
  const values: Record<string, string> = {
    HOST: join(folder, "secret"),
    DATA: dataDir,
    OTHER: join(dataDir, "worktrees/task_other"),
    CHECKOUT: join(project, "only-here"),
    PORT: String(port),
    PID: String(process.pid),
    HOME: home,
    NODE: "escape-run",
    SOCKET: join(folder, "socket"),
    PLANTED: planted,
    VICTIM: readFileSync(join(folder, "victim"), "utf8").trim(),
    SHM: segment,
    QUEUE: queue,
    UID: "1",
    COMMON: tier === "1" ? "/run/sortie/git" : join(project, ".git"),
    OBJECTS: tier === "1" ? "/run/sortie/objects" : join(project, ".git/objects"),
  };
  return command.replace(/\{([A-Z]+)\}/g, (_whole, name: string) => values[name] ?? "");
};

/** What must be as it was, whatever was tried. */
const watched = (): string =>
  JSON.stringify([
    readFileSync(join(folder, "secret"), "utf8"),
    readFileSync(planted, "utf8"),
    readFileSync(join(project, "a.txt"), "utf8"),
    readFileSync(join(project, ".git/config"), "utf8"),
    readFileSync("/proc/sys/kernel/core_pattern", "utf8"),
    readdirSync(join(project, ".git/hooks")),
    readFileSync(join(project, "node_modules/dep/index.js"), "utf8"),
    readdirSync(join(project, "node_modules")),
    readdirSync(join(folder, "home"), { recursive: true }),
    readdirSync(join(dataDir, "worktrees/task_other")),
    execFileSync("git", ["for-each-ref"], { cwd: project, encoding: "utf8" }),
  ]);

const before = watched();
/** The kernel gives these to everybody, and an engine mounts nothing over them. */
const everybodys = "-path /proc/pressure -prune -o ";
const all: Record<string, string> = { ...escapes, ...kernelEscapes };
if (asked === "container") {
  const name = "any setting in /proc";
  all[name] = (all[name] ?? "").replace("find /proc -maxdepth 4 ", `find /proc -maxdepth 4 ${everybodys}`);
}
const names = Object.keys(all).filter((name, at) => at % Number(nth) === 0 && (tier === "1" || !harmful.has(name)));
const escaped: string[] = [];
const broken: string[] = [];
for (let at = 0; at < names.length; at += 4)
  await Promise.all(
    names.slice(at, at + 4).map(async (name) => {
      const ran = await workspace.run({
        run: `${fill(all[name] ?? "")}\necho tried`,
        cwd: workspace.root,
        timeoutMs: 60_000,
        keepBytes: 10_000,
        signal: new AbortController().signal,
      });
      if (ran.output.includes("ESCAPED")) escaped.push(name);
      if (!ran.stdout.includes("tried")) broken.push(`${name}: ${ran.ended} ${ran.output.slice(0, 200)}`);
    }),
  );
const signal = new AbortController().signal;
const write =
  "[ $(id -u) = $SEEN_UID ] && echo task >> node_modules/dep/index.js && rm -r node_modules/dep && touch node_modules/new && ls node_modules";
const env = { SEEN_UID: String(process.getuid?.()) };
const layer = { run: write, cwd: workspace.root, timeoutMs: 60_000, keepBytes: 10_000, env, signal };
const layered = tier === "1" ? (await workspace.run(layer)).output.trim() : "new";
if (layered !== "new") broken.push(`layer: ${layered}`);
const changed = watched() === before ? "" : `${before} became ${watched()}`;
await processes.stop();
await workspaces.remove("task_escape");
if (readdirSync(join(dataDir, "worktrees")).join() !== "task_other") broken.push("something of the layer is left");
victim.kill("SIGKILL");
execFileSync("ipcrm", ["-m", segment]);
execFileSync("perl", ["-e", `$n = "${queue}"; syscall(${mqUnlink}, $n)`]);
server.close();
abstract.close();
socketFile.close();
rmSync(folder, { recursive: true, force: true });
rmSync(engines, { recursive: true, force: true });
rmSync(planted, { force: true });
process.stdout.write(`${JSON.stringify({ uid: process.getuid?.(), tried: names.length, escaped, broken, changed })}\n`);
process.exit(0);
