import { readFileSync, realpathSync } from "node:fs";
import type { Config } from "../config/config.ts";
import { messageOf } from "../error.ts";
import type { Tracker } from "../process/process.ts";
import type { Environments } from "../task/run.ts";
import { EnvironmentLost } from "../workspace/error.ts";

/**
 * The operator's environments, and the values of the secrets that they name. Variables and files are read each time
 * they are needed; a command of the operator's runs on this machine, outside of any sandbox. Every value that was read
 * is redacted for as long as the service runs.
 */

export type VaultDeps = {
  config: Pick<Config, "environments" | "secretStore" | "env"> & { sandbox: Pick<Config["sandbox"], "containers"> };
  tracker: Tracker;
  /** The address of the repository that the service keeps in a directory; undefined: it keeps none there. */
  addressOf: (directory: string) => string | undefined;
  learn: (kind: string, values: readonly string[]) => void;
};

/** Redaction takes shorter values for ordinary words, so they would stay visible. */
const shortest = 8;
const longest = 32 * 1024;
const commandMs = 30_000;
/** How long a command's output is reused, so that many Tasks that begin together run the command once. */
const keptMs = 30_000;

export const createVault = ({ config, tracker, addressOf, learn }: VaultDeps): Environments => {
  const { environments, secretStore, env, sandbox } = config;
  const seen = new Map<string, Set<string>>();
  const asked = new Map<string, { at: number; value: Promise<string> }>();

  const ofCommand = (name: string, argv: readonly string[]): Promise<string> => {
    const before = asked.get(name);
    if (before !== undefined && performance.now() - before.at < keptMs) return before.value;
    const value = outputOf(tracker, argv, env);
    asked.set(name, { at: performance.now(), value });
    value.catch(() => asked.delete(name));
    return value;
  };

  const read = async (name: string): Promise<string> => {
    const source = secretStore[name];
    const lost = (why: string) => new EnvironmentLost(`The secret ${name} is not available: ${why}.`);
    if (source === undefined || !Object.hasOwn(secretStore, name))
      throw lost("secretStore of the configuration has none of that name");
    let text: string;
    try {
      text =
        typeof source === "object"
          ? await ofCommand(name, source.command)
          : source.startsWith("env:")
            ? (env[source.slice("env:".length)] ?? "")
            : readFileSync(source.slice("file:".length), "utf8");
    } catch (error) {
      throw lost(messageOf(error));
    }
    const value = text.replace(/(?<![\r\n])[\r\n]+$/, "");
    if (value === "")
      throw lost(typeof source === "object" ? "its command printed nothing" : `${source} is empty or not set`);
    if (value.length < shortest) throw lost(`it has fewer than ${shortest} characters, so it could not be redacted`);
    if (value.length > longest || value.includes("\0")) throw lost(`expected a text of at most ${longest} characters`);
    const known = seen.get(name) ?? new Set();
    // Each line is redacted too, because a key is seldom printed in one piece.
    for (const part of [value, ...value.split(/\r?\n/)]) if (part.length >= shortest) known.add(part);
    seen.set(name, known);
    learn(`secret-${name}`, [...known]);
    return value;
  };

  return {
    containers: sandbox.containers,
    of(directory) {
      const address = addressOf(directory);
      if (address !== undefined)
        return Object.entries(environments).find(([key]) => plain(key) === plain(address))?.[1];
      return configuredFor(directory, environments);
    },
    secrets: async (names) =>
      Object.fromEntries(await Promise.all(names.map(async (name) => [name, await read(name)] as const))),
  };
};

/** The operator's environment for a project in a directory. */
export const configuredFor = (directory: string, environments: Config["environments"]) => {
  const real = realOf(directory);
  const found = Object.entries(environments)
    .filter(([key]) => key.startsWith("/") && isWithin(real, realOf(key)))
    .toSorted(([a], [b]) => realOf(b).length - realOf(a).length);
  return found[0]?.[1];
};

/** Names of the secrets that can be read without running a command, so that they are redacted from the start. */
export const readableSecrets = ({ secretStore }: Pick<Config, "secretStore">): string[] =>
  Object.entries(secretStore).flatMap(([name, source]) => (typeof source === "object" ? [] : [name]));

const plain = (address: string): string =>
  address
    .replace(/(?<!\/)\/+$/, "")
    .replace(/\.git$/, "")
    .toLowerCase();

const realOf = (path: string): string => {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
};

const isWithin = (path: string, folder: string): boolean =>
  path === folder || path.startsWith(`${folder.replace(/\/$/, "")}/`);

/**
 * What a program prints on stdout. The error of a failed program never contains output, which may be part of a secret.
 */
const outputOf = (tracker: Tracker, [file = "", ...args]: readonly string[], env: Config["env"]): Promise<string> =>
  new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let length = 0;
    const given = Object.fromEntries(
      Object.entries(env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
    );
    const program = tracker.start(
      { file, args, cwd: "/", env: given },
      { idleMs: commandMs, undisturbed: false },
      {
        output(from, chunk) {
          if (from !== "stdout") return;
          length += chunk.length;
          if (length <= longest * 4) chunks.push(chunk);
        },
        failed: (message) => reject(new Error(`${file} could not be started: ${message}`)),
        ended(code, _, killed) {
          clearTimeout(timer);
          if (code === 0) resolve(Buffer.concat(chunks).toString("utf8"));
          else
            reject(
              new Error(killed === undefined ? `${file} ended with exit code ${code}` : `${file} did not end in time`),
            );
        },
      },
    );
    const timer = setTimeout(() => program.kill(), commandMs);
    timer.unref();
  });
