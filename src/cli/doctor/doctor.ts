import { mkdtemp, rm, stat } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Config, type Flags, loadConfig } from "../../config/config.ts";
import { messageOf } from "../../error.ts";
import { silent } from "../../log.ts";
import { exit } from "../terminal/exit.ts";
import { bad, type Finding, markOf, note, ok } from "../terminal/finding.ts";
import { clockAgainst, dataFolder, disk, exists, git, leftoverProcesses, ripgrep } from "./machine.ts";
import { during, type Screen } from "../terminal/screen.ts";
import { bytes, clean, line } from "../terminal/format.ts";
import { checkEnvironments, checkImages } from "./environment.ts";
import { checkMcpServers } from "./mcp-server.ts";
import { checkRepositories } from "./repository.ts";
import { checkWebhooks } from "./webhook.ts";

/**
 * `sortie doctor`: checks what the service needs on this machine, with a remedy for each finding. It only looks: it
 * starts and changes nothing.
 */

const builtin = "builtin/rules-1";

/** Resolves to the exit code: 0 when no finding is `bad`. */
export const doctor = async (
  flags: Flags,
  screen: Screen,
  emit: ((value: Finding) => void) | undefined,
): Promise<number> => {
  const { dim } = screen.colors;
  let failed = false;
  const findings = examine(flags);
  for (;;) {
    const { value: finding, done } = await during(screen, "Looking", findings.next());
    if (done) return failed ? exit.failed : exit.completed;
    failed ||= finding.state === "bad";
    if (emit !== undefined) emit(finding);
    else {
      screen.say(`${markOf(finding, screen)}  ${finding.name.padEnd(12)} ${clean(finding.text)}`);
      if (finding.remedy !== undefined) screen.say(dim(`${" ".repeat(19)}${finding.remedy}`));
    }
  }
};

async function* examine(flags: Flags): AsyncGenerator<Finding, undefined, undefined> {
  yield ok("Node", process.versions.node);
  yield await git();
  yield await ripgrep();
  let config: Config;
  try {
    config = loadConfig(flags);
  } catch (error) {
    yield bad("Settings", messageOf(error), "Fix it: the other checks depend on the settings.");
    return;
  }
  yield ok("Settings", `${config.configPath}${(await exists(config.configPath)) ? "" : " (absent: defaults)"}`);
  yield await dataFolder(config);
  yield await disk(config);
  const running = config.socket === undefined ? await health(config) : undefined;
  yield running ??
    (config.socket === undefined ? await port(config) : note("Service", `on the socket ${config.socket}; not checked`));
  yield await model(config);
  yield await localModels(config);
  yield await squads(config);
  yield* store(config);
  yield await checkWebhooks(config);
  yield* await checkRepositories(config);
  const { lists, tier, programs, unseen, ...found } = await sandbox(config);
  yield* await checkMcpServers(config, programs, unseen, lists);
  yield found;
  yield* await checkEnvironments(config, lists);
  yield* await checkImages(config, tier);
  yield await browser(config);
  yield await worktrees(config);
  yield await leftoverProcesses(config, running !== undefined);
}

/**
 * Worktrees that could not be removed: the service tries again by itself, but a person may have to remove the cause.
 */
const worktrees = async (config: Config): Promise<Finding> => {
  try {
    const kept = (await import("../../service/machine.ts")).keptWorktrees(config);
    const [first] = kept;
    if (first === undefined) return ok("Worktrees", "none left over");
    const all = kept.map(({ key }) => key);
    const more = all.length > 5 ? ` and ${all.length - 5} more` : "";
    return note(
      "Worktrees",
      `${all.slice(0, 5).join(", ")}${more} could not be removed; the first: ${line(first.reason, 200)}`,
      "They are in `worktrees` in the data folder. The service tries again every hour.",
    );
  } catch (error) {
    return bad("Worktrees", messageOf(error), "Make the data folder readable to this user.");
  }
};

const browser = async (config: Config): Promise<Finding> => {
  const found = (await import("../../service/machine.ts")).browserOf(config);
  return found === undefined
    ? note(
        "Browser",
        "no Chromium",
        "Visual checks and previews need one: apt-get install chromium, or `browser` in config.jsonc.",
      )
    : ok("Browser", found);
};

/** The service that answers at the configured address, if it is a Sortie. */
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
      return note("Service", `${url} runs and refuses these credentials`, "Set SERVICE_SERVER_PASSWORD to match.");
    const answer = (await response.json()) as {
      healthy?: unknown;
      version?: unknown;
      model?: { ref?: unknown };
      store?: { reason?: unknown };
      providers?: { id: string; failures: number; since: string | null; retryAt: string | null }[];
    };
    if (typeof answer.healthy !== "boolean" || typeof answer.version !== "string") return undefined;
    const text = `${url}, version ${answer.version}, model ${String(answer.model?.ref)}`;
    const reason = typeof answer.store?.reason === "string" ? `: ${answer.store.reason}` : "";
    const failing = (answer.providers ?? []).map(
      ({ id, failures, since, retryAt }) =>
        `${id} failed ${failures === 1 ? "once" : `${failures} times in a row`} and has been paused since ${since}; next try at ${retryAt}`,
    );
    if (answer.healthy && failing.length > 0)
      return note(
        "Service",
        `runs at ${text}; ${failing.join("; ")}`,
        "See the provider's status page, or add another provider to `failover`.",
      );
    return answer.healthy
      ? ok("Service", `runs at ${text}`)
      : bad("Service", `answers at ${text}, but is not healthy${reason}`, "Its log says why.");
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
          "Use --port, or stop that program.",
        ),
      ),
    );
    server.listen({ host, port: number }, () => server.close(() => resolve(ok("Port", `${host}:${number} is free`))));
  });

/** The model that a start with these settings would choose; keys are looked for but not tried. */
const model = async ({ model: chosen, failover, providers, env }: Config): Promise<Finding> => {
  const [{ createRegistry }, { createBuiltinModel: createRulesModel }] = await Promise.all([
    import("../../model/registry.ts"),
    import("../../model/builtin/builtin.ts"),
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
    return bad("Model", messageOf(error), `It was set by ${source}.`);
  }
};

/** The squads that every project sees; a project's own packages are not checked here. */
const squads = async (config: Config): Promise<Finding> => {
  const { squad, dataDir } = config;
  const { catalogOf } = await import("../../service/machine.ts");
  const { squads: found, issues } = await catalogOf(config, (await exists(dataDir)) ? dataDir : undefined).scan();
  const ids = found.map((one) => one.squad.id);
  if (!ids.includes(squad))
    return bad(
      "Squads",
      `${squad} is configured, but is not among ${ids.join(", ")}`,
      "Set `squad` in config.jsonc, or install it.",
    );
  const [first] = issues;
  if (first === undefined) return ok("Squads", `${ids.join(", ")}; ${squad} unless a Task names another`);
  const more = issues.length > 1 ? ` and ${issues.length - 1} more` : "";
  const text = `${line(first.squad)}: ${line(first.message, 200)}${more}`;
  return note("Squads", text, "`sortie squad validate <folder>` shows all problems; the other squads still work.");
};

/** Suggests model servers on this machine when there is no language model; they are never configured automatically. */
const localModels = async ({ providers }: Config): Promise<Finding> => {
  const { detectServers } = await import("../../model/local-server.ts");
  const found = await detectServers();
  if (found.length === 0) return ok("Local models", "no model server found on this machine");
  const text = found.map(({ name, baseURL, models }) => `${name} at ${baseURL}, ${models.length} models`).join("; ");
  const [first] = found.flatMap(({ id, models }) => models.map((entry) => `${id}/${entry.id}`));
  const known = Object.values(providers).some(({ baseURL }) => found.some((server) => server.baseURL === baseURL));
  return known || first === undefined
    ? ok("Local models", text)
    : note("Local models", text, `Not in use. To use one: sortie model use ${first}`);
};

/** The store, and this machine's clock compared with a time that the store knows. */
async function* store({ databaseURL, dataDir }: Config): AsyncGenerator<Finding, void, undefined> {
  const known = databaseURL === undefined ? await sqlite(dataDir) : await postgres(databaseURL);
  yield known.finding;
  yield databaseURL === undefined
    ? clockAgainst(known.time, "the newest event on record", false)
    : clockAgainst(known.time, "the database's", true);
}

type Known = { finding: Finding; time?: Date };

const sqlite = async (dataDir: string): Promise<Known> => {
  const file = join(dataDir, "sortie.db");
  if (!(await exists(file))) return { finding: ok("Store", "SQLite, no Tasks yet") };
  const remedy = `Keep ${file} as it is, and restore a backup. The service does not repair it.`;
  try {
    const { default: Database } = await import("better-sqlite3");
    const database = new Database(file, { readonly: true, timeout: 2000 });
    try {
      const found = String(database.pragma("quick_check", { simple: true }));
      const { size } = await stat(file);
      if (found !== "ok") return { finding: bad("Store", line(found), remedy) };
      const finding = ok("Store", `SQLite, ${bytes(size)}, sound`);
      const newest = database.prepare<[], { at: string }>("select at from events order by position desc limit 1").get();
      return newest === undefined ? { finding } : { finding, time: new Date(newest.at) };
    } finally {
      database.close();
    }
  } catch (error) {
    return { finding: bad("Store", `${file}: ${messageOf(error)}`, remedy) };
  }
};

const postgres = async (connectionString: string): Promise<Known> => {
  const { default: pg } = await import("pg");
  const client = new pg.Client({ connectionString, connectionTimeoutMillis: 3000 });
  client.on("error", () => {});
  try {
    await client.connect();
    const { rows } = await client.query<{ version: string; time: Date }>(
      "select current_setting('server_version') as version, clock_timestamp() as time",
    );
    const [first] = rows;
    return {
      finding: ok("Store", `PostgreSQL ${first?.version ?? ""} answers`),
      ...(first === undefined ? {} : { time: first.time }),
    };
  } catch (error) {
    const text = `PostgreSQL: ${messageOf(error)}`;
    return { finding: bad("Store", text, "Check SERVICE_DATABASE_URL, and that the server is running.") };
  } finally {
    await client.end().catch(() => {});
  }
};

const unfilteredLine = (why: string): string =>
  `System calls are not filtered: ${why}. Use a kernel with CONFIG_SECCOMP_FILTER on x64 or arm64.`;

/** The sandbox that a start would find, by the same self-test. `bad` if the start would refuse it. */
const sandbox = async (
  config: Config,
): Promise<
  Finding & {
    lists: string | undefined;
    tier: 1 | 2 | 3;
    programs: ReadonlySet<string> | undefined;
    unseen: readonly string[];
  }
> => {
  const scratch = await mkdtemp(join(tmpdir(), "sortie-doctor-"));
  try {
    const { hostListProblem, sandboxOf, unseenServers } = await import("../../service/machine.ts");
    const found = await sandboxOf({ ...config, dataDir: scratch });
    const { container } = found;
    const filtered = found.filter === undefined && container === undefined ? "" : ", system calls filtered";
    const of = container === undefined ? "" : ` (${config.sandbox.image}; an experiment)`;
    const text = `${found.name}${of}, tier ${found.tier}, network ${found.network ? "on" : "off"}${filtered}`;
    const networks = [
      ...Object.values(config.environments).flatMap(({ network, setupNetwork }) => [network, setupNetwork]),
      ...Object.values(config.mcpServers).map((server) => server.kind === "stdio" && server.network),
    ];
    const usesLists = networks.some((wanted) => typeof wanted === "object");
    const lists = usesLists ? await hostListProblem(found, config) : undefined;
    const unseen = await unseenServers(found, config);
    const about = { lists, tier: found.tier, programs: container?.image.programs, unseen };
    if (found.note !== undefined) return { ...note("Sandbox", text, `For tier 1: ${found.note}.`), ...about };
    return found.unfiltered === undefined
      ? { ...ok("Sandbox", text), ...about }
      : { ...note("Sandbox", text, unfilteredLine(found.unfiltered)), ...about };
  } catch (error) {
    return {
      ...bad("Sandbox", "the service would not start", messageOf(error)),
      lists: "there is no sandbox",
      tier: 3,
      programs: undefined,
      unseen: [],
    };
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
};
