import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { isAbsolute, join, resolve } from "node:path";
import { StartError } from "../error.ts";
import type { Effort } from "../protocol/field.ts";
import { defaultLimits, type Limits } from "../protocol/limit.ts";
import { type AgentConfig, agentsOf, type McpConfig, mcpServersOf } from "./program.ts";
import { type Bucket, bucketOf } from "./bucket.ts";
import { checkEnvironments, type OperatorEnvironment, type SecretSource } from "./environment.ts";
import { type ProviderConfig, readFile, type RepositoryCredential, type RepositoryEvents } from "./file.ts";

/**
 * The service's configuration, and the only reader of `process.env`. Flags take precedence over the environment, the
 * environment over `config.jsonc`. A wrong value ends the start with exit 78 and one line that names it and the remedy.
 */

export type Config = {
  host: string;
  port: number;
  socket: string | undefined;
  dataDir: string;
  /** The configuration file, whether it exists or not. */
  configPath: string;
  databaseURL: string | undefined;
  /** The database's URL past a pooler; undefined: `databaseURL` has no pooler. */
  databaseDirectURL: string | undefined;
  /** Where blobs are kept; undefined: see `store/open.ts`. */
  blobs: "folder" | "database" | Bucket | undefined;
  /** The name of this node among those of its PostgreSQL database; undefined: see `store/open.ts`. */
  node: string | undefined;
  /**
   * The role among several nodes. `api`: answers requests and runs nothing; `worker`: runs what is due and answers only
   * requests about itself.
   */
  role: "all" | "api" | "worker";
  /** What runs the Tasks that are due: DBOS's queues, which several nodes share, or this process alone. */
  engine: "dbos" | "local";
  /** The folder that the service was started in; it is offered as a project if it is one. */
  startedIn: string | undefined;
  username: string;
  /** undefined: no authentication. */
  password: string | undefined;
  /** `provider/model`, and where it was configured. "none": Tasks that name no model are refused. */
  model: { ref: string; source: string } | undefined;
  /** The reasoning effort; undefined: each provider's default. */
  effort: Effort | undefined;
  /** Models to ask when another cannot answer, in this order. */
  failover: string[];
  squad: string;
  landing: "commit" | "branch";
  /** The author of the commits of Tasks; undefined: the service. */
  author: { name: string; email: string } | undefined;
  providers: Record<string, ProviderConfig>;
  /** Environment variables whose values are redacted from everything that is written. */
  secrets: string[];
  agents: Record<string, AgentConfig>;
  /** MCP servers, with the variables that they name replaced by their values. */
  mcpServers: Record<string, McpConfig>;
  sandbox: {
    mode: "auto" | "required";
    /** The setting that chose the mode, for messages. */
    source: string;
    /** undefined: off where the sandbox can turn it off. */
    network: boolean | undefined;
    /** The strongest tier to use; 1 is the strongest of all. */
    tier: 1 | 2 | 3;
    /** Whether commands may run in container images. */
    containers: boolean;
    /** The image of the container that serves as sandbox on a machine without bubblewrap; undefined: none. */
    image: string | undefined;
    /** Additional folders that commands can read. */
    paths: string[];
    /** Additional environment variables that commands get. */
    env: string[];
  };
  /** Permission rules; they are validated where the tools are known. */
  permissions: { deny: string[]; ask: string[]; allow: string[] };
  /** Hours that a worktree is kept after its Task has ended. */
  retentionHours: number;
  /** Names of ignored folders that a Task's commands need. */
  dependencies: string[];
  /** What the commands of particular projects get, by the project's path or address. */
  environments: Record<string, OperatorEnvironment>;
  /** Where the values of secrets come from, by name. */
  secretStore: Record<string, SecretSource>;
  /** Whether the projects' own checkers look at edits. */
  diagnostics: boolean;
  /** A command to run once in every new worktree, before the first command. */
  setup: { run: string; network: boolean } | undefined;
  /** Whether agents may fetch pages of the public web, and whether also over http. */
  web: { fetch: boolean; http: boolean };
  /** Webhook targets besides public https; the entries are validated in webhook/target.ts. */
  webhooks: { allow: string[] };
  /** Projects by address; `allow` is empty by default. The entries are validated in repository/service.ts. */
  repositories: {
    allow: string[];
    landing: ("pull-request" | "branch" | "commit")[];
    branch: string;
    credentials: RepositoryCredential[];
    pullRequest: { labels: string[]; draft: boolean; page: string | undefined };
    fetchSeconds: number;
    mirrorBytes: number;
    mirrorDays: number;
    lfs: boolean | "same-host";
    submodules: boolean | "same-host";
    /** Forges whose events create Tasks; the entries are validated in forge/settings.ts. */
    events: ({ [K in Exclude<keyof RepositoryEvents, "page">]-?: NonNullable<RepositoryEvents[K]> } & Pick<
      RepositoryEvents,
      "page"
    >)[];
  };
  /** The address at which other nodes reach this one; undefined: they cannot. */
  peer: { url: string; host: string; port: number } | undefined;
  /** The port of the listener for events of forges; undefined: there is no listener. */
  forgePort: number | undefined;
  browser: string | undefined;
  codemods: Record<string, string>;
  limits: Limits;
  maxRunning: number;
  allowedHosts: string[];
  allowedOrigins: string[];
  projectRoots: string[];
  /** Folders of recorded exchanges with providers: to write to, and to play from. */
  record: string | undefined;
  cassettes: string | undefined;
  /** Whether Missions may have squads produced; undefined: a Mission's caller decides. */
  production: boolean | undefined;
  /** Refuse connections of other users of this machine. */
  sameUser: boolean;
  logLevel: string;
  /** The process environment: provider keys (`env:NAME` and the usual variables), PATH, HOME, LANG. */
  env: Readonly<Record<string, string | undefined>>;
};

export type Flags = {
  host?: string;
  port?: number;
  socket?: string;
  dataDir?: string;
  config?: string;
  model?: string;
  /** The folder that the command was run in. */
  startedIn?: string;
};

/** Variables that no command gets, even if the operator lists them. */
const neverGiven =
  /KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|^SERVICE_|^LD_|^GIT_|^PYTHON|^(NODE_OPTIONS|BASH_ENV|ENV|SSH_AUTH_SOCK)$/i;

/** Variables with lists, which may be empty. */
const lists = new Set(["SERVICE_ALLOWED_HOSTS", "SERVICE_ALLOWED_ORIGINS", "SERVICE_PROJECT_ROOTS"]);

const logLevels = ["trace", "debug", "info", "warn", "error", "fatal", "silent"];

const bad = (message: string) => new StartError(78, message);

const list = (text: string | undefined) =>
  (text ?? "")
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");

const wholeNumber = (name: string, text: string | undefined, min: number, max: number): number | undefined => {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < min || value > max)
    throw bad(`Expected ${name} to be a whole number from ${min} to ${max}, got "${text}".`);
  return value;
};

/**
 * Reads the configuration. Throws a `StartError` with exit 78 for a wrong value; an absent default file is an empty
 * one.
 */
export const loadConfig = (flags: Flags, env: Config["env"] = process.env): Config => {
  for (const [name, value] of Object.entries(env))
    if (name.startsWith("SERVICE_") && value?.trim() === "" && !lists.has(name))
      throw bad(`${name} is set but empty. Give it a value, or unset it.`);

  const home = env["HOME"] ?? homedir();
  const dataDir = resolve(
    flags.dataDir ?? env["SERVICE_DATA_DIR"] ?? join(env["XDG_DATA_HOME"] ?? join(home, ".local/share"), "sortie"),
  );
  const configPath = resolve(flags.config ?? env["SERVICE_CONFIG"] ?? join(dataDir, "config.jsonc"));
  const named = flags.config ?? env["SERVICE_CONFIG"];
  if (named !== undefined && !existsSync(configPath))
    throw bad(`Expected a configuration file at ${configPath}, found none. Create it, or unset SERVICE_CONFIG.`);
  const file = readFile(configPath);
  for (const name of file.sandbox?.env ?? [])
    if (neverGiven.test(name))
      throw bad(
        `${configPath}: sandbox.env: ${name} is never given to commands: it may hold a secret or change how programs start. Remove it.`,
      );

  for (const name of ["modelFirstSeconds", "modelSilentSeconds", "modelReplySeconds"] as const)
    if (file.limits?.[name] === 0) throw bad(`${configPath}: limits.${name}: expected at least 1, got 0.`);

  if (file.workspace?.setupNetwork !== undefined && file.workspace.setup === undefined)
    throw bad(`${configPath}: workspace.setupNetwork: expected workspace.setup with it, got none.`);

  checkEnvironments(configPath, file);

  const host = flags.host ?? env["SERVICE_HOST"] ?? "127.0.0.1";
  const password = env["SERVICE_SERVER_PASSWORD"];
  const loopback = isLoopback(host);
  if (!loopback && (password === undefined || password.length < 12))
    throw bad(
      `Listening on ${host} needs SERVICE_SERVER_PASSWORD of at least 12 characters. Set it, or listen on 127.0.0.1.`,
    );

  const sandbox = env["SERVICE_SANDBOX"] ?? (loopback ? "auto" : "required");
  if (sandbox !== "auto" && sandbox !== "required")
    throw bad(`Expected SERVICE_SANDBOX to be auto or required, got "${sandbox}".`);

  const projectRoots = list(env["SERVICE_PROJECT_ROOTS"]);
  for (const root of projectRoots)
    if (!isAbsolute(root)) throw bad(`Expected absolute paths in SERVICE_PROJECT_ROOTS, got "${root}".`);

  const folder = (path: string | undefined) => (path === undefined ? undefined : resolve(path));

  const model =
    flags.model !== undefined
      ? { ref: flags.model, source: "--model" }
      : env["SERVICE_MODEL"] !== undefined
        ? { ref: env["SERVICE_MODEL"], source: "SERVICE_MODEL" }
        : file.model !== undefined
          ? { ref: file.model, source: configPath }
          : undefined;

  if (model !== undefined && model.ref !== "none" && !/^[^/]+\/./.test(model.ref))
    throw bad(`Expected ${model.source} to name a model as provider/model (or "none"), got "${model.ref}".`);
  const logLevel = env["SERVICE_LOG_LEVEL"] ?? "info";
  if (!logLevels.includes(logLevel))
    throw bad(`Expected SERVICE_LOG_LEVEL to be one of ${logLevels.join(", ")}, got "${logLevel}".`);

  const sameUser = env["SERVICE_SAME_USER"] ?? "0";
  if (sameUser !== "0" && sameUser !== "1") throw bad(`Expected SERVICE_SAME_USER to be 1 or 0, got "${sameUser}".`);
  if (sameUser === "1" && (process.platform !== "linux" || !loopback))
    throw bad("SERVICE_SAME_USER is available on Linux, listening on a loopback address. Unset it.");

  const offline = env["SERVICE_OFFLINE"] ?? "0";
  if (offline !== "0" && offline !== "1") throw bad(`Expected SERVICE_OFFLINE to be 1 or 0, got "${offline}".`);

  const production = env["SERVICE_ALLOW_SQUAD_PRODUCTION"];
  if (production !== undefined && production !== "0" && production !== "1")
    throw bad(`Expected SERVICE_ALLOW_SQUAD_PRODUCTION to be 1 or 0, got "${production}".`);

  const place = env["SERVICE_BLOBS"];
  const bucket = place === undefined ? undefined : bucketOf(place, env, bad);
  if (place !== undefined && place !== "folder" && place !== "database" && bucket === undefined)
    throw bad(`Expected SERVICE_BLOBS to be folder, database or s3://bucket/prefix, got "${place}".`);
  const blobs = bucket ?? (place as "folder" | "database" | undefined);
  if (blobs === "database" && env["SERVICE_DATABASE_URL"] === undefined)
    throw bad("SERVICE_BLOBS=database needs SERVICE_DATABASE_URL. Set it, or SERVICE_BLOBS=folder.");

  if (env["SERVICE_DATABASE_DIRECT_URL"] !== undefined && env["SERVICE_DATABASE_URL"] === undefined)
    throw bad("SERVICE_DATABASE_DIRECT_URL requires SERVICE_DATABASE_URL. Set both, or neither.");

  const node = env["SERVICE_NODE"];
  if (node !== undefined && !/^[a-z0-9][a-z0-9._-]{0,62}$/.test(node))
    throw bad(`Expected SERVICE_NODE to be a name of a-z, 0-9, ".", "_" and "-", at most 63 of them, got "${node}".`);
  if (node !== undefined && env["SERVICE_DATABASE_URL"] === undefined)
    throw bad(
      "SERVICE_NODE is for several services that share a PostgreSQL database. Set SERVICE_DATABASE_URL too, or unset SERVICE_NODE.",
    );

  const role = env["SERVICE_ROLE"] ?? "all";
  if (role !== "all" && role !== "api" && role !== "worker")
    throw bad(`Expected SERVICE_ROLE to be all, api or worker, got "${role}".`);
  if (role !== "all" && env["SERVICE_DATABASE_URL"] === undefined)
    throw bad(
      `SERVICE_ROLE=${role} is for one of several services that share a PostgreSQL database. Set SERVICE_DATABASE_URL too, or unset SERVICE_ROLE.`,
    );

  const engine = env["SERVICE_ENGINE"] ?? (env["SERVICE_DATABASE_URL"] === undefined ? "local" : "dbos");
  if (engine !== "dbos" && engine !== "local")
    throw bad(`Expected SERVICE_ENGINE to be dbos or local, got "${engine}".`);
  if (engine === "dbos" && env["SERVICE_DATABASE_URL"] === undefined)
    throw bad("SERVICE_ENGINE=dbos needs SERVICE_DATABASE_URL. Set it, or SERVICE_ENGINE=local.");
  if (engine === "local" && role !== "all")
    throw bad(
      `SERVICE_ENGINE=local is only for a service that does not share its work. Unset it, or SERVICE_ROLE=${role}.`,
    );

  const loopRepeats = wholeNumber("SERVICE_LOOP_LIMIT", env["SERVICE_LOOP_LIMIT"], 0, 1_000_000);
  return {
    host,
    port: flags.port ?? wholeNumber("SERVICE_PORT", env["SERVICE_PORT"], 0, 65_535) ?? 7878,
    socket: flags.socket ?? env["SERVICE_SOCKET"],
    dataDir,
    configPath,
    databaseURL: env["SERVICE_DATABASE_URL"],
    databaseDirectURL: env["SERVICE_DATABASE_DIRECT_URL"],
    blobs,
    node,
    role,
    engine,
    startedIn: flags.startedIn,
    username: env["SERVICE_SERVER_USERNAME"] ?? "service",
    password,
    model,
    effort: file.effort,
    failover: file.failover ?? [],
    squad: file.squad ?? "base",
    landing: (typeof file.landing === "object" ? file.landing.as : file.landing) ?? "commit",
    author: typeof file.landing === "object" ? file.landing.author : undefined,
    providers: file.providers ?? {},
    secrets: file.secrets ?? [],
    agents: agentsOf(file.agents ?? {}, env),
    mcpServers: mcpServersOf(file.mcpServers ?? {}, env),
    sandbox: {
      mode: sandbox,
      source: env["SERVICE_SANDBOX"] === undefined ? `listening on ${host}` : `SERVICE_SANDBOX=${sandbox}`,
      network: file.sandbox?.network,
      tier: file.sandbox?.tier ?? 1,
      containers: file.sandbox?.containers === "experimental",
      image: file.sandbox?.image,
      paths: file.sandbox?.paths ?? [],
      env: file.sandbox?.env ?? [],
    },
    permissions: {
      deny: file.permissions?.deny ?? [],
      ask: file.permissions?.ask ?? [],
      allow: file.permissions?.allow ?? [],
    },
    retentionHours: file.workspace?.retentionHours ?? 24,
    dependencies: file.workspace?.dependencies ?? ["node_modules", ".venv", "venv", "vendor", "target"],
    environments: file.environments ?? {},
    secretStore: file.secretStore ?? {},
    diagnostics: file.diagnostics ?? true,
    setup:
      file.workspace?.setup === undefined
        ? undefined
        : { run: file.workspace.setup, network: file.workspace.setupNetwork ?? false },
    web: { fetch: offline === "0" && (file.web?.fetch ?? false), http: file.web?.http ?? false },
    webhooks: { allow: file.webhooks?.allow ?? [] },
    repositories: {
      allow: file.repositories?.allow ?? [],
      landing: file.repositories?.landing ?? ["pull-request", "branch", "commit"],
      branch: file.repositories?.branch ?? "sortie/{task}",
      credentials: file.repositories?.credentials ?? [],
      pullRequest: {
        labels: file.repositories?.pullRequest?.labels ?? [],
        draft: file.repositories?.pullRequest?.draft ?? false,
        page: file.repositories?.pullRequest?.page?.replace(/(?<!\/)\/+$/, ""),
      },
      fetchSeconds: file.repositories?.fetchSeconds ?? 120,
      mirrorBytes: file.repositories?.mirrorBytes ?? 10 * 1024 ** 3,
      mirrorDays: file.repositories?.mirrorDays ?? 90,
      lfs: file.repositories?.lfs ?? false,
      submodules: file.repositories?.submodules ?? false,
      events: (file.repositories?.events ?? []).map((entry) => ({
        ...entry,
        label: entry.label ?? "sortie",
        mention: entry.mention ?? "@sortie",
        tasksPerHour: entry.tasksPerHour ?? 10,
        checkRounds: entry.checkRounds ?? 3,
        network: entry.network ?? false,
        secrets: entry.secrets ?? false,
      })),
    },
    peer: peerOf(env["SERVICE_NODE_URL"], node !== undefined || engine === "dbos"),
    forgePort: wholeNumber("SERVICE_FORGE_PORT", env["SERVICE_FORGE_PORT"], 0, 65_535),
    browser: file.browser,
    codemods: file.rules?.codemods ?? {},
    limits: {
      ...defaultLimits,
      // Tasks are accepted down to `diskFreeBytes`, so the default must not pause a Task right after its acceptance.
      diskPauseBytes: Math.min(defaultLimits.diskPauseBytes, file.limits?.diskFreeBytes ?? defaultLimits.diskFreeBytes),
      ...Object.fromEntries(Object.entries(file.limits ?? {}).filter(([, value]) => value !== undefined)),
      ...(loopRepeats === undefined ? {} : { loopRepeats }),
    },
    maxRunning: wholeNumber("SERVICE_MAX_RUNNING", env["SERVICE_MAX_RUNNING"], 1, 100_000) ?? 64,
    allowedHosts: list(env["SERVICE_ALLOWED_HOSTS"]),
    allowedOrigins: list(env["SERVICE_ALLOWED_ORIGINS"]),
    projectRoots,
    record: folder(env["SERVICE_RECORD"]),
    cassettes: folder(env["SERVICE_CASSETTES"]),
    sameUser: sameUser === "1",
    production: production === undefined ? undefined : production === "1",
    logLevel,
    env,
  };
};

export const isLoopback = (host: string): boolean =>
  host === "localhost" || host === "::1" || /^127\.\d+\.\d+\.\d+$/.test(host);

/** Parses SERVICE_NODE_URL, the address at which this node listens and other nodes reach it. */
const peerOf = (given: string | undefined, mayHaveOthers: boolean): Config["peer"] => {
  if (given === undefined || given === "") return undefined;
  const url = URL.canParse(given) ? new URL(given) : undefined;
  if (
    url?.protocol !== "http:" ||
    url.port === "" ||
    url.pathname !== "/" ||
    url.username + url.password + url.search + url.hash !== ""
  )
    throw bad(`Expected SERVICE_NODE_URL as http://<host>:<port>, as other nodes reach this one, got "${given}".`);
  if (!mayHaveOthers)
    throw bad(
      "SERVICE_NODE_URL is where other services of its PostgreSQL database reach this one, which has its database alone. Set SERVICE_DATABASE_URL and no SERVICE_ENGINE, or unset SERVICE_NODE_URL.",
    );
  return { url: url.href, host: url.hostname.replace(/^\[|\]$/g, ""), port: Number(url.port) };
};
