import { execFile } from "node:child_process";
import { constants } from "node:fs";
import { access, mkdtemp, readdir, readFile, rm, stat, statfs } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { type Config, type Flags, loadConfig } from "../config.ts";
import { messageOf } from "../errors.ts";
import { silent } from "../log.ts";
import { exit } from "./exit.ts";
import { bad, type Finding, markOf, note, ok } from "./finding.ts";
import { bytes, clean, line, type Screen } from "./print.ts";

/** `sortie doctor`: what the service needs on this machine, each with the remedy. Looks only; starts and changes nothing. */

const builtin = "builtin/rules-1";

const execute = promisify(execFile);

/** Resolves to the exit code: 0 without a `bad` finding. */
export const doctor = async (
  flags: Flags,
  screen: Screen,
  emit: ((value: Finding) => void) | undefined,
): Promise<number> => {
  const { dim } = screen.colors;
  let failed = false;
  for await (const finding of examine(flags)) {
    failed ||= finding.state === "bad";
    if (emit !== undefined) emit(finding);
    else {
      screen.say(`${markOf(finding, screen)}  ${finding.name.padEnd(12)} ${clean(finding.text)}`);
      if (finding.remedy !== undefined) screen.say(dim(`${" ".repeat(19)}${finding.remedy}`));
    }
  }
  return failed ? exit.failed : exit.completed;
};

async function* examine(flags: Flags): AsyncGenerator<Finding> {
  yield ok("Node", process.versions.node);
  yield await git();
  yield await ripgrep();
  let config: Config;
  try {
    config = loadConfig(flags);
  } catch (error) {
    yield bad("Settings", messageOf(error), "Correct it; the other checks need the settings.");
    return;
  }
  yield ok("Settings", `${config.configPath}${(await exists(config.configPath)) ? "" : " (absent: defaults)"}`);
  yield await dataFolder(config);
  yield await disk(config);
  const running = config.socket === undefined ? await health(config) : undefined;
  yield running ??
    (config.socket === undefined ? await port(config) : note("Service", `on the socket ${config.socket}, not asked`));
  yield await model(config);
  yield await localModels(config);
  yield await squads(config);
  yield await store(config);
  yield await sandbox(config);
  yield await browser(config);
  yield await orphans(config, running !== undefined);
}

const git = async (): Promise<Finding> => {
  const remedy = "Install Git 2.39 or newer: https://git-scm.com";
  try {
    const { stdout } = await execute("git", ["--version"], { timeout: 5000 });
    const [, major = 0, minor = 0] = (/(\d{1,9})\.(\d{1,9})/.exec(stdout) ?? []).map(Number);
    const found = line(stdout);
    return major > 2 || (major === 2 && minor >= 39) ? ok("Git", found) : bad("Git", `${found} is too old`, remedy);
  } catch (error) {
    return bad("Git", messageOf(error), remedy);
  }
};

const browser = async (config: Config): Promise<Finding> => {
  const found = (await import("../service.ts")).browserOf(config);
  return found === undefined
    ? note(
        "Browser",
        "no Chromium",
        "Visual checks and previews need one: apt-get install chromium, or `browser` in config.jsonc.",
      )
    : ok("Browser", found);
};

const ripgrep = async (): Promise<Finding> => {
  try {
    const { rgPath } = await import("@vscode/ripgrep");
    const { stdout } = await execute(rgPath, ["--version"], { timeout: 5000 });
    return ok("ripgrep", stdout.split("\n")[0] ?? "");
  } catch (error) {
    return bad("ripgrep", line(messageOf(error)), "Agents search with it. Install the dependencies again: npm ci");
  }
};

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );

/** The folder itself, or where it will be made. */
const nearest = async (path: string): Promise<string> =>
  (await exists(path)) || path === dirname(path) ? path : nearest(dirname(path));

const dataFolder = async ({ dataDir }: Config): Promise<Finding> => {
  const place = await nearest(dataDir);
  try {
    if (!(await stat(place)).isDirectory()) throw new Error(`Expected a folder, got the file ${place}`);
    await access(place, constants.W_OK | constants.X_OK);
    return ok("Data folder", place === dataDir ? dataDir : `${dataDir} (will be made)`);
  } catch (error) {
    return bad("Data folder", messageOf(error), "Make it writable, or set SERVICE_DATA_DIR or --data-dir.");
  }
};

const disk = async ({ dataDir, limits }: Config): Promise<Finding> => {
  const { bavail, bsize, blocks } = await statfs(await nearest(dataDir));
  const free = bavail * bsize;
  const wanted = Math.max(limits.diskFreeBytes, (blocks * bsize * limits.diskFreePercent) / 100);
  return free >= wanted
    ? ok("Disk", `${bytes(free)} free`)
    : bad(
        "Disk",
        `${bytes(free)} free; under ${bytes(wanted)} new Tasks are refused`,
        "Free some, move the data folder (SERVICE_DATA_DIR), or lower limits.diskFreeBytes and diskFreePercent.",
      );
};

/** What already answers there, when it is a Sortie. */
const health = async ({ host, port, username, password }: Config): Promise<Finding | undefined> => {
  const address = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host.includes(":") ? `[${host}]` : host;
  const url = `http://${address}:${port}`;
  const headers: Record<string, string> =
    password === undefined
      ? {}
      : { authorization: `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}` };
  try {
    const response = await fetch(`${url}/health`, { headers, signal: AbortSignal.timeout(3000) });
    if (response.status === 401 && response.headers.get("www-authenticate")?.includes("service"))
      return note("Service", `${url} runs and refuses these credentials`, "Set SERVICE_SERVER_PASSWORD to its own.");
    const answer = (await response.json()) as { healthy?: unknown; version?: unknown; model?: { ref?: unknown } };
    if (typeof answer.healthy !== "boolean" || typeof answer.version !== "string") return undefined;
    const text = `${url}, version ${answer.version}, model ${String(answer.model?.ref)}`;
    return answer.healthy
      ? ok("Service", `runs at ${text}`)
      : bad("Service", `answers at ${text}, but is not healthy`, "Its log says why.");
  } catch {
    return undefined;
  }
};

const port = ({ host, port: number }: Config): Promise<Finding> =>
  new Promise((resolve) => {
    const server = createServer();
    server.once("error", (error: NodeJS.ErrnoException) =>
      resolve(
        bad(
          "Port",
          error.code === "EADDRINUSE"
            ? `Port ${number} is used by another program.`
            : `${host}:${number}: ${error.message}`,
          "Use --port, or stop it.",
        ),
      ),
    );
    server.listen({ host, port: number }, () => server.close(() => resolve(ok("Port", `${host}:${number} is free`))));
  });

/** What a start would choose with these settings; keys are looked for, not tried. */
const model = async ({ model: chosen, failover, providers, env }: Config): Promise<Finding> => {
  const [{ createRegistry }, { createRulesModel }] = await Promise.all([
    import("../model/registry.ts"),
    import("../model/rules/rules.ts"),
  ]);
  const registry = createRegistry({
    model: chosen,
    failover,
    providers,
    env,
    rules: async () => createRulesModel(),
    log: silent,
  });
  const { ref, source } = registry.active();
  try {
    const text = `${registry.resolve(undefined)} (${source})`;
    if (ref !== builtin) return ok("Model", text);
    return note(
      "Model",
      text,
      "No language model: set a provider's key, such as ANTHROPIC_API_KEY, or see `sortie model detect`.",
    );
  } catch (error) {
    return bad("Model", messageOf(error), `It was chosen by ${source}.`);
  }
};

/** What every project sees; a project's own packages are its catalog's to tell. */
const squads = async (config: Config): Promise<Finding> => {
  const { squad, dataDir } = config;
  const { catalogOf } = await import("../service.ts");
  const { squads: found, issues } = await catalogOf(config, (await exists(dataDir)) ? dataDir : undefined).scan();
  const ids = found.map((one) => one.squad.id);
  if (!ids.includes(squad))
    return bad(
      "Squads",
      `${squad} is chosen, and not among ${ids.join(", ")}`,
      "Set `squad` in config.jsonc, or install it.",
    );
  const [first] = issues;
  if (first === undefined) return ok("Squads", `${ids.join(", ")}; ${squad} unless a Task names another`);
  const more = issues.length > 1 ? ` and ${issues.length - 1} more` : "";
  const text = `${line(first.squad)}: ${line(first.message, 200)}${more}`;
  return note("Squads", text, "`sortie squad validate <folder>` shows all; the healthy ones work.");
};

/** Offered where there is no language model; never taken. */
const localModels = async ({ providers }: Config): Promise<Finding> => {
  const { detectServers } = await import("../model/detect.ts");
  const found = await detectServers();
  if (found.length === 0) return ok("Local models", "no server found on this machine");
  const text = found.map(({ name, baseURL, models }) => `${name} at ${baseURL}, ${models.length} models`).join("; ");
  const [first] = found.flatMap(({ id, models }) => models.map((entry) => `${id}/${entry.id}`));
  const known = Object.values(providers).some(({ baseURL }) => found.some((server) => server.baseURL === baseURL));
  return known || first === undefined
    ? ok("Local models", text)
    : note("Local models", text, `Not in use. To use one: sortie model use ${first}`);
};

const store = async ({ databaseURL, dataDir }: Config): Promise<Finding> => {
  if (databaseURL !== undefined) return postgres(databaseURL);
  const file = join(dataDir, "sortie.db");
  if (!(await exists(file))) return ok("Store", "SQLite, no Task yet");
  const remedy = `Keep ${file} as it is, and restore a copy. Nothing is repaired silently.`;
  try {
    const { default: Database } = await import("better-sqlite3");
    const database = new Database(file, { readonly: true, timeout: 2000 });
    try {
      const found = String(database.pragma("quick_check", { simple: true }));
      const { size } = await stat(file);
      return found === "ok" ? ok("Store", `SQLite, ${bytes(size)}, sound`) : bad("Store", line(found), remedy);
    } finally {
      database.close();
    }
  } catch (error) {
    return bad("Store", `${file}: ${messageOf(error)}`, remedy);
  }
};

const postgres = async (connectionString: string): Promise<Finding> => {
  const { default: pg } = await import("pg");
  const client = new pg.Client({ connectionString, connectionTimeoutMillis: 3000 });
  try {
    await client.connect();
    const { rows } = await client.query<{ version: string }>("show server_version");
    return ok("Store", `PostgreSQL ${rows[0]?.version ?? ""} answers`);
  } catch (error) {
    return bad("Store", `PostgreSQL: ${messageOf(error)}`, "Check SERVICE_DATABASE_URL, and that the server runs.");
  } finally {
    await client.end().catch(() => {});
  }
};

/** What a start would find here, by the same self-test; what a start would refuse is bad. */
const sandbox = async (config: Config): Promise<Finding> => {
  const scratch = await mkdtemp(join(tmpdir(), "sortie-doctor-"));
  try {
    const { sandboxOf } = await import("../service.ts");
    const found = await sandboxOf({ ...config, dataDir: scratch });
    const text = `${found.name}, tier ${found.tier}, network ${found.network ? "on" : "off"}`;
    return found.note === undefined ? ok("Sandbox", text) : note("Sandbox", text, `For tier 1: ${found.note}.`);
  } catch (error) {
    return bad("Sandbox", "a start would be refused", messageOf(error));
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
};

/** Commands carry SERVICE_RUN_ID, which begins with the data folder, in their environment. */
const orphans = async ({ dataDir }: Config, running: boolean): Promise<Finding> => {
  const pids = await readdir("/proc").catch(() => undefined);
  if (pids === undefined) return note("Processes", "not looked for: this system has no /proc");
  const mark = `SERVICE_RUN_ID=${dataDir}/`;
  const ours: string[] = [];
  for (const pid of pids.filter((name) => /^\d+$/.test(name))) {
    const environment = await readFile(`/proc/${pid}/environ`, "latin1").catch(() => "");
    if (environment.split("\0").some((entry) => entry.startsWith(mark))) ours.push(pid);
  }
  if (ours.length === 0) return ok("Processes", "none left over");
  return running
    ? ok("Processes", `${ours.length} of running Tasks`)
    : note(
        "Processes",
        `${ours.length} left by a service that is gone: ${ours.join(", ")}`,
        "The next start ends them.",
      );
};
