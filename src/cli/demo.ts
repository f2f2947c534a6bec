import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Caller, loadConfig } from "../config.ts";
import { silent } from "../log.ts";
import { createService } from "../service.ts";
import { connect, need } from "./call.ts";
import { Exit, exit } from "./exit.ts";
import { show } from "./follow.ts";
import { bytes, clean, duration, type Screen } from "./print.ts";
import { openZip } from "./unzip.ts";

/**
 * `sortie demo`: the whole road of one Task on a small real project in a temporary folder: request, check before the
 * work, work, check after it, landing, ZIP. Everything it says it has looked up: what does not hold ends it with 1.
 */

const example = fileURLToPath(new URL("../../examples/sum", import.meta.url));

const request = `The fix for cents that drift (0.1 + 0.2 is 0.30000000000000004):

\`\`\`diff
--- a/sum.js
+++ b/sum.js
@@ -5,4 +5,5 @@
 };
 
 /** Adds up amounts of money. */
-export const sum = (amounts) => amounts.reduce((total, amount) => total + amount, 0);
+export const sum = (amounts) =>
+  amounts.reduce((cents, amount) => cents + Math.round(amount * 100), 0) / 100;
\`\`\`
`;

const ownModel = `
Your own model: give the service the key of a provider, for example

  ANTHROPIC_API_KEY=… npm start        (or OPENAI_API_KEY, GEMINI_API_KEY, OPENROUTER_API_KEY)

and then, in another terminal,

  npm run -s sortie -- run "Find out why …, and fix it" --check "npm test" -C /path/to/your/project

Local servers and other settings stand in README.md, "Your own model". sortie doctor says what is missing on a machine.`;

export const demo = (bare: Caller["bare"], screen: Screen): Promise<number> =>
  withFolder(screen, (folder, signal) => walk(folder, bare, screen, signal));

/** In a temporary folder that is gone afterwards. */
export const withFolder = async (
  screen: Screen,
  work: (folder: string, signal: AbortSignal) => Promise<void>,
): Promise<number> => {
  const began = performance.now();
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "sortie-demo-")));
  const stop = new AbortController();
  const onSignal = () => stop.abort();
  process.once("SIGINT", onSignal).once("SIGTERM", onSignal);
  try {
    await work(folder, stop.signal);
    screen.say(`\nEverything above was checked and held, in ${duration(performance.now() - began)}.\n${ownModel}`);
    return exit.completed;
  } catch (error) {
    if (stop.signal.aborted) throw new Exit(exit.cancelled, "The demo was interrupted.");
    throw error;
  } finally {
    process.off("SIGINT", onSignal).off("SIGTERM", onSignal);
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
};

const walk = async (folder: string, bare: Caller["bare"], screen: Screen, signal: AbortSignal): Promise<void> => {
  const { bold, dim, green } = screen.colors;
  const chapter = (text: string) => screen.say(`\n${bold(text)}`);

  chapter("The project: a small npm package with a failing test, made a Git repository");
  const { directory, git } = makeExample(folder, bare);
  const before = git("rev-parse", "HEAD");
  screen.say(`${directory}, commit ${before.slice(0, 10)}`);

  // The user's own settings stay out of it: no key is used, no password asked, nothing written to the data folder.
  const config = loadConfig({ port: 0, dataDir: join(folder, "data"), model: "builtin/rules-1" }, bare);
  const service = await createService(config, silent);
  try {
    chapter("The service");
    screen.say(
      `${service.url}, model ${service.model.ref} (rules, no language model), sandbox ${service.sandbox.name}`,
    );

    chapter("The Task: POST /task, with the check `npm test`, also run before the work");
    screen.say(dim(request.trim().replaceAll(/^(?=.)/gm, "  ")));
    const target = { url: service.url, directory, username: config.username, password: undefined };
    const client = connect(target);
    const created = await client.task.create({
      body: {
        request,
        productPillar: "code",
        title: "Add amounts in whole cents",
        checks: [{ id: "tests", name: "npm test", kind: "test", run: "npm test", baseline: true, timeoutSeconds: 60 }],
        source: "demo",
      },
    });
    const { taskID } = need(created, target.url);

    chapter("What happens, live from GET /task/{taskID}/events");
    await show({ service: client, target, taskID, screen }, "settled", signal);
    signal.throwIfAborted();

    chapter("The result: GET /task/{taskID}/status, and what Git says");
    const task = need(await client.task.status({ path: { taskID } }), target.url);
    hold(task.lifecycleStatus === "completed", "the Task to be completed", `${task.lifecycleStatus}: ${task.error}`);
    const check = task.checks.find(({ id }) => id === "tests");
    hold(check?.baseline?.state === "failed", "the check to fail before the work", check?.baseline?.state);
    hold(check?.state === "passed" && !check.stale, "the check to pass after the work", check?.state);
    const commit = git("rev-parse", "HEAD");
    hold(commit !== before && commit === task.git.landedCommit, `HEAD to be ${task.git.landedCommit}`, commit);
    hold(check.tree === git("rev-parse", "HEAD^{tree}"), "the checked tree to be the landed one", check.tree);
    const dirt = git("status", "--porcelain");
    hold(dirt === "", "a clean working tree", dirt);
    screen.say(`Check npm test: failed before the work (exit ${check.baseline.exitCode}), ${green("passes now")}`);
    screen.say(`Landed commit ${commit}`);
    const log = clean(git("log", "-1", "--stat", "--format=%an <%ae>%n%n%B"));
    screen.say(log.replaceAll(/\n{3,}/g, "\n\n").replaceAll(/^(?=.)/gm, "  "));

    chapter("The ZIP: GET /task/{taskID}/project-archive");
    const blob = need(await client.task.projectArchive({ path: { taskID } }), target.url);
    const file = join(folder, `${taskID}.zip`);
    writeFileSync(file, Buffer.from(await blob.arrayBuffer()));
    using zip = await openZip(file);
    const landed = readFileSync(join(directory, "sum.js"), "utf8");
    const fixed = await zip.text("project/sum.js", 2 * landed.length);
    hold(fixed === landed, "project/sum.js in the ZIP to be the landed one", fixed);
    const names = zip.entries.map(({ name }) => name);
    hold(names.includes("execution-flow/manifest.json"), "execution-flow/manifest.json in the ZIP", names.join(", "));
    screen.say(`${names.length} files, ${bytes(blob.size)}`);
    for (const entry of zip.entries) screen.say(`  ${bytes(entry.bytes).padStart(9)}  ${clean(entry.name)}`);
  } finally {
    await service.close();
  }
};

/** The example as a repository with one commit. */
export const makeExample = (folder: string, bare: Caller["bare"]) => {
  const directory = join(folder, "sum");
  cpSync(example, directory, { recursive: true });
  const git = createGit(directory, bare);
  git("init", "--quiet", "--initial-branch=main");
  git("add", "--all");
  git("commit", "--quiet", "--message=A package that adds up amounts of money");
  return { directory, git };
};

/** The demo verifies; a promise that is not kept ends it. */
export function hold(kept: boolean, expected: string, got: unknown): asserts kept {
  if (!kept) throw new Exit(exit.failed, `The demo does not hold: expected ${expected}, got ${clean(String(got))}.`);
}

/** Git in one folder, without the user's or the machine's configuration. */
const createGit = (cwd: string, bare: Caller["bare"]) => {
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
