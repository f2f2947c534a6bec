import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import {
  closeSync,
  constants,
  mkdirSync,
  mkdtempSync,
  openSync,
  readSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { shellQuote } from "../../shell-quote.ts";
import type { Image } from "./image-root.ts";
import type { SandboxPlace } from "./place.ts";
import { proxyPort, type Sandbox } from "./sandbox.ts";
import { spawnForTask } from "./spawn.ts";

/** The self-test of a sandbox: a tier is used only after its isolation was checked from the inside. */

type Tried = { ok: true } | { ok: false; why: string };

const patienceMs = 10_000;
/** A container takes a second to start, a sandbox of bubblewrap milliseconds. */
const engineMs = 60_000;
const maxChars = 1024 * 1024;

/** `error`: empty if the program exits with 0. `filter`: see `spawnForTask`. */
export const execute = (
  argv: readonly string[],
  env: Record<string, string>,
  { filter, timeout = patienceMs }: { filter?: string | undefined; timeout?: number } = {},
): Promise<{ output: string; error: string }> =>
  new Promise((resolve) => {
    const [file = "", ...args] = argv;
    const child = spawnForTask(file, args, { env, timeout, stdio: ["ignore", "pipe", "pipe"] }, { filter });
    const said = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"] as const)
      child[name]?.on("data", (chunk: Buffer) => {
        said[name] = (said[name] + chunk.toString("utf8")).slice(0, maxChars);
      });
    const done = (error: string) => resolve({ output: said.stdout, error });
    child.once("error", ({ message }) => done(message));
    child.once("close", (code, signal) =>
      done(code === 0 ? "" : said.stderr.trim() || `${file} ended with ${signal ?? code}`),
    );
  });

/** `unfiltered`: why the filter of system calls does not work here, although the rest does. */
type Findings = Tried & { found: string[]; unfiltered?: string };

/**
 * Tries from the inside what should be impossible there; each finding is one word. The probes cover the purpose of each
 * guard of `bubblewrap.ts`, so that a missing or ineffective guard is found at start-up, on this machine's files or an
 * image's. The filter of system calls is tried in a separate sandbox, because it would also refuse some of these
 * probes.
 */
export const selfTest = async (given: Sandbox, path: string, image?: Image): Promise<Findings> => {
  const { wrap } = given;
  if (wrap === undefined) return { ok: true, found: [] };
  const sandbox: Sandbox = { ...given, wrap: (request) => wrap({ ...request, image }) };
  const [tried, filtered] = await Promise.all([
    tryInside(sandbox, path, true, { ownPrograms: image === undefined }),
    sandbox.filter === undefined ? undefined : tryInside(sandbox, path, false),
  ]);
  return !tried.ok || filtered === undefined || filtered.ok ? tried : { ...tried, unfiltered: filtered.why };
};

/**
 * Whether commands can be restricted to a list of hosts: that takes a sandbox inside another one, which some machines
 * refuse.
 */
export const tryList = async (sandbox: Sandbox, path: string): Promise<Tried> =>
  sandbox.name === "bubblewrap"
    ? tryInside({ ...sandbox, network: false }, path, true, { network: { socket: "/nowhere" } })
    : {
        ok: false,
        why: `it needs bubblewrap (tier 1), and this is ${sandbox.container === undefined ? `tier ${sandbox.tier}` : "a container"}`,
      };

/**
 * The programs that commands do not find, though this machine may have them. Always empty for containers and for tiers
 * 2 and 3.
 */
export const programsMissingInside = async (
  sandbox: Sandbox,
  path: string,
  programs: readonly string[],
): Promise<string[]> => {
  if (sandbox.name !== "bubblewrap" || programs.length === 0) return [];
  const folder = probeFolder();
  try {
    const [tree, own] = [join(folder, "tree"), join(folder, "box")];
    for (const made of [tree, own]) mkdirSync(made);
    const lines = programs.map((program, at) => `command -v -- ${shellQuote(program)} >/dev/null || echo ${at}`);
    const argv = sandbox.wrap?.({
      place: { tree, at: tree, under: () => [], over: () => [] },
      folder: own,
      cwd: tree,
      unfiltered: true,
      command: () => ["-c", [...lines, ":"].join("\n")],
    });
    const { output } = await execute(argv ?? [], { PATH: path, LC_ALL: "C" });
    const unseen = new Set(output.trim().split("\n"));
    return programs.filter((_, at) => unseen.has(String(at)));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
};

/** What a container lacks that the service needs, by the word of its probe. */
const lacking = {
  git: "the image has no git",
  search: "this machine's ripgrep does not run in the image",
  pipe: "no named pipe of this machine's reaches into it",
  owner: "what it writes is not owned by the service's user",
};

/** A named pipe in a folder; `script` writes the word into it, as commands write their output. */
const pipeIn = async (folder: string, word: string) => {
  const path = join(folder, "pipe");
  await promisify(execFile)("mkfifo", ["-m", "600", "--", path]);
  const held = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
  return {
    script: (io: string) => `\necho ${word} >'${io}/pipe'`,
    hasCome(): boolean {
      try {
        const bytes = Buffer.alloc(word.length);
        return readSync(held, bytes) === bytes.length && bytes.toString("latin1") === word;
      } catch {
        return false;
      } finally {
        closeSync(held);
      }
    },
  };
};

/**
 * Preferably not in /tmp, which every sandbox replaces with its own; but in a read-only container only /tmp may be
 * writable.
 */
const probeFolder = (): string => {
  try {
    return mkdtempSync("/var/tmp/sortie-probe-");
  } catch {
    return mkdtempSync(join(tmpdir(), "sortie-probe-"));
  }
};

const tryInside = async (
  sandbox: Sandbox,
  path: string,
  unfiltered: boolean,
  { network, ownPrograms = false }: { network?: { socket: string }; ownPrograms?: boolean } = {},
): Promise<Tried & { found: string[] }> => {
  const folder = probeFolder();
  const secret = join(folder, "secret");
  const canary = randomUUID();
  try {
    const tree = join(folder, "tree");
    const own = join(folder, "box");
    for (const path of [tree, own]) mkdirSync(path);
    writeFileSync(secret, canary);
    const place: SandboxPlace = { tree, at: tree, under: () => [], over: () => [] };
    const listens = network === undefined ? "" : `(: </dev/tcp/127.0.0.1/${proxyPort}) 2>/dev/null || echo no-proxy\n`;
    const pipe = sandbox.container === undefined ? undefined : await pipeIn(own, canary);
    const script = unfiltered ? `${listens}${probe(sandbox, secret, process.pid, ownPrograms)}` : filterProbe;
    const argv = sandbox.wrap?.({
      place,
      folder: own,
      cwd: tree,
      unfiltered,
      ...(network === undefined ? {} : { network }),
      command: (io) => ["-c", `cd '${tree}' || exit\n${script}${pipe === undefined ? "" : pipe.script(io)}\necho done`],
    });
    const filter = unfiltered ? undefined : sandbox.filter;
    const { container } = sandbox;
    const { output, error } = await (container === undefined
      ? execute(argv ?? [], { PATH: path, LC_ALL: "C" }, { filter })
      : execute(argv ?? [], container.env, { timeout: engineMs }));
    const lines = output.trim().split("\n");
    if (lines.at(-1) !== "done") return { ok: false, why: error || "it ended early", found: [] };
    const found = [
      ...lines.slice(0, -1),
      ...(pipe === undefined || pipe.hasCome() ? [] : ["pipe"]),
      ...(container === undefined || statSync(join(tree, "writes")).uid === process.getuid?.() ? [] : ["owner"]),
    ];
    if (found.length === 0) return { ok: true, found };
    const lacks = Object.entries(lacking).flatMap(([word, why]) => (found.includes(word) ? [why] : []));
    const why = lacks.length > 0 ? lacks.join(", ") : `it lets through: ${found.join(", ")}`;
    return { ok: false, why, found };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
};

/** Runs a program, so that the system calls that start one pass the filter, too. */
const filterProbe = `while read -r name value; do case $name$value in Seccomp:[!2]*) echo system-calls ;; esac; done </proc/self/status
cat /proc/self/comm >/dev/null || exit`;

const probe = (
  { tier, network, container, programs }: Sandbox,
  secret: string,
  service: number,
  ownPrograms: boolean,
): string =>
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
          // In a container the file is the image's own, and protects nobody here.
          ...(container === undefined ? [`[ ! -e /etc/shadow ] || echo etc`] : []),
          `(: >/usr/.sortie-probe) 2>/dev/null && { rm -f /usr/.sortie-probe; echo system-writable; }`,
          `(: >/.sortie-probe) 2>/dev/null && echo root`,
          `(: >>/proc/sys/kernel/core_pattern) 2>/dev/null && echo kernel-settings`,
          `while read -r name value; do case $name$value in CapEff:*[1-9a-f]*|CapPrm:*[1-9a-f]*|CapBnd:*[1-9a-f]*|CapInh:*[1-9a-f]*) echo capabilities; break ;; esac; done </proc/self/status`,
          `while read -r name value; do case $name$value in NoNewPrivs:0) echo privileges ;; esac; done </proc/self/status`,
          `unshare --user true 2>/dev/null && echo no-more-users`,
          // An engine's /dev has a size limit.
          ...(container === undefined ? [`(: >/dev/.sortie-probe) 2>/dev/null && echo devices`] : []),
          `(: >./writes) 2>/dev/null || echo tree-not-writable`,
          `(: >/tmp/writes) 2>/dev/null || echo tmp-not-writable`,
          ...(container === undefined ? [] : [filterProbe, `chmod 4755 ./writes 2>/dev/null && echo set-id`]),
          ...(container === undefined || !ownPrograms
            ? []
            : [
                `git --version >/dev/null 2>&1 || echo git`,
                ...Object.values(programs).map((at) => `${at} --version >/dev/null 2>&1 || echo search`),
              ]),
        ]
      : [`(: >./writes) 2>/dev/null || echo tree-not-writable`]),
  ].join("\n");
