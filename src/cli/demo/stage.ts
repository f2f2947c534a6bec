import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadConfig } from "../../config/config.ts";
import type { Caller } from "../../config/caller.ts";
import { silent } from "../../log.ts";
import { packageRoot } from "../../package-root.ts";
import { createService } from "../../service/service.ts";
import { connect, type Service as Client, type Target } from "../connection.ts";
import { Exit, exit } from "../terminal/exit.ts";
import type { Screen } from "../terminal/screen.ts";
import { clean, duration } from "../terminal/format.ts";

/**
 * The setting of every demo: a small real project and a service for it, in a temporary folder that is removed
 * afterwards.
 */

const example = join(packageRoot, "examples/sum");

/** The change that the demos request: amounts are added in whole cents. */
export const patch = `--- a/sum.js
+++ b/sum.js
@@ -5,4 +5,5 @@
 };
 
 /** Adds up amounts of money. */
-export const sum = (amounts) => amounts.reduce((total, amount) => total + amount, 0);
+export const sum = (amounts) =>
+  amounts.reduce((cents, amount) => cents + Math.round(amount * 100), 0) / 100;
`;

const ownModel = (self: string) => `
Your own model: give the service the key of a provider, for example

  ANTHROPIC_API_KEY=… ${self} serve        (or OPENAI_API_KEY, GEMINI_API_KEY, OPENROUTER_API_KEY)

and then, in another terminal,

  ${self} run "Find out why …, and fix it" --check "npm test" -C /path/to/your/project

For local servers and other settings see "Give it a model" in ${join(packageRoot, "docs/guide.md")}. ${self} doctor shows what is missing on this machine.`;

export type Stage = {
  screen: Screen;
  folder: string;
  /** The example as a Git repository with one commit, whose id is `before`. */
  directory: string;
  before: string;
  git: (...args: string[]) => string;
  target: Target;
  client: Client;
  /** The port on which the service receives events of forges. */
  forgePort: number | undefined;
  signal: AbortSignal;
  chapter: (text: string) => void;
};

type Built = Pick<Stage, "folder" | "directory" | "git" | "chapter">;

/** What a demo adds to the service's configuration: entries of `config.jsonc`, and environment variables. */
export type Setting = { config: object; env: Record<string, string> };

/** Runs a demo on its stage; resolves to the exit code. `prepare` is called before the service starts. */
export const runDemo = async (
  { bare, self }: Pick<Caller, "bare" | "self">,
  screen: Screen,
  play: (stage: Stage) => Promise<void>,
  prepare?: (built: Built) => Setting | Promise<Setting>,
): Promise<number> => {
  const began = performance.now();
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "sortie-demo-")));
  const stop = new AbortController();
  const onSignal = () => stop.abort();
  process.once("SIGINT", onSignal).once("SIGTERM", onSignal);
  const chapter = (text: string) => screen.say(`\n${screen.colors.bold(text)}`);
  try {
    chapter("The project: a small npm package with a failing test, in a Git repository");
    const directory = join(folder, "sum");
    cpSync(example, directory, { recursive: true });
    const git = createGit(directory, bare);
    git("init", "--quiet", "--initial-branch=main");
    git("add", "--all");
    git("commit", "--quiet", "--message=A package that adds up amounts of money");
    const before = git("rev-parse", "HEAD");
    screen.say(`${directory}, commit ${before.slice(0, 10)}`);

    // The user's settings are not used: no key, no password, and nothing is written to the data folder.
    const setting = await prepare?.({ folder, directory, git, chapter });
    const file = join(folder, "config.jsonc");
    if (setting !== undefined) writeFileSync(file, JSON.stringify(setting.config));
    const flags = { port: 0, dataDir: join(folder, "data"), model: "builtin/rules-1" };
    const named = setting === undefined ? flags : { ...flags, config: file };
    const config = loadConfig(named, { ...bare, ...setting?.env });
    const service = await createService(config, silent);
    try {
      const { url, model, sandbox, forgePort } = service;
      chapter("The service");
      screen.say(`${url}, model ${model.ref} (rules, no language model), sandbox ${sandbox.name}`);
      const target = { url, directory, username: config.username, password: undefined };
      const client = connect(target);
      await play({ screen, folder, directory, before, git, target, client, forgePort, signal: stop.signal, chapter });
    } finally {
      await service.close();
    }
    screen.say(`\nAll checks passed, in ${duration(performance.now() - began)}.\n${ownModel(self)}`);
    return exit.completed;
  } catch (error) {
    if (stop.signal.aborted) throw new Exit(exit.cancelled, "The demo was interrupted.");
    throw error;
  } finally {
    process.off("SIGINT", onSignal).off("SIGTERM", onSignal);
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
};

/** Ends the demo with exit code 1 when a promise does not hold. */
export function assertKept(kept: boolean, expected: string, got: unknown): asserts kept {
  if (!kept) throw new Exit(exit.failed, `The demo failed: expected ${expected}, got ${clean(String(got))}.`);
}

/** Runs Git in one folder, without the configuration of the user or the machine. */
export const createGit = (cwd: string, bare: Caller["bare"]) => {
  const person = { NAME: "Sortie demo", EMAIL: "demo@localhost" };
  const env = {
    ...bare,
    GIT_CONFIG_GLOBAL: "/dev/null",
    GIT_CONFIG_NOSYSTEM: "1",
    ...Object.fromEntries(
      ["AUTHOR", "COMMITTER"].flatMap((role) =>
        Object.entries(person).map(([what, value]) => [`GIT_${role}_${what}`, value]),
      ),
    ),
  };
  return (...args: string[]): string =>
    execFileSync("git", args, {
      cwd,
      env,
      encoding: "utf8",
      timeout: 30_000,
      stdio: ["ignore", "pipe", "inherit"],
    }).trim();
};
