import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { SandboxPlace } from "./place.ts";
import type { Sandbox } from "./sandbox.ts";

/** The self-test of a sandbox: a tier is used only after its isolation was checked from the inside. */

type Tried = { ok: true } | { ok: false; why: string };

export const execute = (
  argv: readonly string[],
  env: Record<string, string>,
): Promise<{ output: string; error: string }> =>
  new Promise((resolve) => {
    const [file = "", ...args] = argv;
    execFile(file, args, { env, timeout: 10_000, maxBuffer: 1024 * 1024 }, (error, stdout, stderr) =>
      resolve({ output: stdout, error: error === null ? "" : stderr.trim() || error.message }),
    );
  });

/**
 * Tries from the inside what should be impossible there; each finding is one word. It covers what the guards of
 * `bubblewrap.ts` are for, so that a missing or ineffective guard is found at the start.
 */
export const selfTest = async (sandbox: Sandbox, path: string): Promise<Tried & { found: string[] }> => {
  if (sandbox.wrap === undefined) return { ok: true, found: [] };
  const folder = mkdtempSync("/var/tmp/sortie-probe-");
  const secret = join(folder, "secret");
  const canary = randomUUID();
  try {
    const tree = join(folder, "tree");
    const own = join(folder, "box");
    for (const path of [tree, own]) mkdirSync(path);
    writeFileSync(secret, canary);
    const place: SandboxPlace = { tree, at: tree, under: () => [], over: () => [] };
    const argv = sandbox.wrap({
      place,
      folder: own,
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
