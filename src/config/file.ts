import { existsSync, readFileSync } from "node:fs";
import { isAbsolute } from "node:path";
import { findNodeAtLocation, type ParseError, parse as parseJsonc, parseTree, printParseErrorCode } from "jsonc-parser";
import { z } from "zod";
import { StartError } from "../error.ts";
import { didYouMean } from "../nearest.ts";
import { effort } from "../protocol/field.ts";
import { defaultLimits, type Limits } from "../protocol/limit.ts";
import { imageName, networkHost } from "../protocol/task/environment.ts";
import { environmentsSettings, secretStoreSettings } from "./environment.ts";

/** The schema and the reader of `config.jsonc`. */

const modelConfig = z.strictObject({
  id: z.string().min(1),
  contextWindow: z.number().int().min(1_000).optional(),
  images: z.boolean().optional(),
  pdf: z.boolean().optional(),
  tools: z.boolean().optional(),
  effort: z.union([effort, z.literal(false)]).optional(),
});

const providerConfig = z.strictObject({
  kind: z.enum(["anthropic", "openai", "google", "openrouter", "openai-compatible"]),
  name: z.string().min(1).optional(),
  baseURL: z.url({ protocol: /^https?$/ }).optional(),
  apiKey: z.string().min(1).optional().describe("env:NAME or the key itself"),
  headers: z.record(z.string(), z.string()).optional(),
  /** The Responses API instead of chat completions; only for `openai`, where it is the default. */
  api: z.enum(["responses", "chat"]).optional(),
  models: z.array(z.union([z.string().min(1), modelConfig])).optional(),
});

const limitsConfig = z.strictObject(
  Object.fromEntries(Object.keys(defaultLimits).map((name) => [name, z.number().int().min(0).optional()])) as Record<
    keyof Limits,
    z.ZodOptional<z.ZodNumber>
  >,
);

const hosts = z.array(networkHost).min(1).max(100);

const agentConfig = z.strictObject({
  command: z.string().min(1).max(4096),
  env: z.array(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/)).optional(),
  home: z.string().refine(isAbsolute, "Expected an absolute path").optional(),
  network: z.union([z.boolean(), hosts]).optional(),
  mode: z.string().min(1).max(64).optional(),
});

const mcpValue = z.string().max(4096).describe("env:NAME, secret:NAME of secretStore, or the value itself");

const mcpServer = z.union([
  z.strictObject({
    type: z.literal("stdio").optional(),
    command: z.string().min(1).max(4096),
    args: z.array(z.string().max(4096)).max(64).optional(),
    env: z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/), mcpValue).optional(),
    network: z.union([z.enum(["none", "all"]), hosts]).optional(),
  }),
  z.strictObject({
    type: z.enum(["http", "streamable-http"]).optional(),
    url: z.url({ protocol: /^https?$/ }),
    headers: z.record(z.string().regex(/^[!#$%&'*+.^`|~\w-]{1,100}$/), mcpValue).optional(),
    auth: z
      .strictObject({
        issuer: z.url({ protocol: /^https?$/ }),
        clientID: z.string().min(1).max(500),
        clientSecret: mcpValue,
        scope: z.string().min(1).max(500).optional(),
      })
      .optional()
      .describe("OAuth client credentials"),
  }),
]);

const landingMode = z.enum(["commit", "branch"]);
const remoteLandingMode = z.enum(["pull-request", "branch", "commit"]);

/** A name and address in Git's form. */
const author = z
  .string()
  .regex(
    /^[^<>\p{Cc}]{1,100} <[^<>\s\p{Cc}]{1,200}>$/u,
    "expected a name and address in Git's form, such as Ada <ada@example.org>",
  )
  .transform((text) => {
    const at = text.lastIndexOf(" <");
    return { name: text.slice(0, at).trim(), email: text.slice(at + 2, -1) };
  });

/** An entry of `repositories.credentials`; its values are validated in repository/credential.ts. */
const repositoryCredential = z.union([
  z.strictObject({
    match: z.string().min(1).max(500),
    username: z
      .string()
      .regex(/^[^\p{Cc}\s]{1,200}$/u, "expected a user's name")
      .optional(),
    token: z.string().min(1).max(4096).describe("env:NAME or file:/PATH"),
    forge: z.enum(["github", "gitlab", "gitea"]).optional().describe("The host's software; for Forgejo, gitea"),
    api: z.string().min(1).max(500).optional().describe("URL of its API, if it is not the default one"),
  }),
  z.strictObject({
    match: z.string().min(1).max(500),
    app: z
      .strictObject({
        id: z.union([z.string().regex(/^[\w.-]{1,100}$/, "expected the id of an app"), z.number().int().positive()]),
        key: z.string().min(1).max(4096).describe("Its private key, env:NAME or file:/PATH"),
      })
      .describe("A GitHub App that is installed there"),
    api: z.string().min(1).max(500).optional().describe("URL of its API, if it is not the default one"),
  }),
  z.strictObject({ match: z.string().min(1).max(500), sshKey: z.string().min(1), knownHosts: z.string().min(1) }),
]);

/** An entry of `repositories.events`; its values are validated in forge/settings.ts. */
const repositoryEvents = z.strictObject({
  match: z.string().min(1).max(500),
  forge: z.enum(["github", "gitlab", "gitea"]),
  secret: z.string().min(1).max(4096).describe("env:NAME or file:/PATH"),
  authors: z.array(z.string().min(1).max(255)).max(1000),
  label: z.string().min(1).max(100).optional(),
  mention: z
    .string()
    .regex(/^@[\w-]{1,50}$/, "expected @name")
    .optional(),
  tasksPerHour: z.number().int().min(1).max(100).optional(),
  checkRounds: z.number().int().min(0).max(20).optional(),
  page: z.url({ protocol: /^https?$/ }).optional(),
  network: z.boolean().optional(),
  secrets: z.boolean().optional(),
});

export const configFile = z.strictObject({
  $schema: z.string().optional(),
  model: z.string().min(3).or(z.literal("none")).optional(),
  squad: z.string().min(1).optional(),
  effort: effort.optional(),
  failover: z
    .array(z.string().regex(/^[^/\s]+\/\S+$/, "expected provider/model"))
    .max(16)
    .optional(),
  landing: z.union([landingMode, z.strictObject({ as: landingMode.optional(), author: author.optional() })]).optional(),
  providers: z.record(z.string().regex(/^[a-z0-9][a-z0-9-]{0,31}$/), providerConfig).optional(),
  /** What the commands of particular projects get, by the project's path or address. */
  environments: environmentsSettings.optional(),
  /** Sources of the secrets that environments and MCP servers may name, by name. */
  secretStore: secretStoreSettings.optional(),
  /** false: the projects' own checkers never look at edits, whatever an environment says. */
  diagnostics: z.boolean().optional(),
  /** Names of environment variables whose values are redacted. */
  secrets: z.array(z.string().min(1)).optional(),
  /** External agents by name; each becomes the squad `acp-<name>`. */
  agents: z.record(z.string().regex(/^[a-z0-9][a-z0-9-]{0,31}$/), agentConfig).optional(),
  /** Servers of the Model Context Protocol by name; their tools are `mcp__<name>__<tool>`. */
  mcpServers: z.record(z.string().regex(/^[a-z0-9][a-z0-9-]{0,31}$/), mcpServer).optional(),
  sandbox: z
    .strictObject({
      network: z.boolean().optional(),
      tier: z.literal([1, 2, 3]).optional(),
      /** Whether commands may run in container images. */
      containers: z.literal("experimental").optional(),
      /** The image whose container is the sandbox on a machine without bubblewrap. */
      image: imageName.optional(),
      paths: z.array(z.string().refine(isAbsolute, "Expected an absolute path")).max(64).optional(),
      env: z
        .array(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/))
        .max(64)
        .optional(),
    })
    .optional(),
  permissions: z
    .strictObject({
      deny: z.array(z.string()).optional(),
      ask: z.array(z.string()).optional(),
      allow: z.array(z.string()).optional(),
    })
    .optional(),
  workspace: z
    .strictObject({
      retentionHours: z.number().min(0).max(87_600).optional(),
      dependencies: z
        .array(z.string().regex(/^(?!\.{1,2}$|\.git$)[^/]{1,255}$/, "expected the name of a folder, not a path"))
        .max(32)
        .optional(),
      setup: z.string().min(1).max(4096).optional(),
      setupNetwork: z.boolean().optional(),
    })
    .optional(),
  /** Projects that callers name by address; without entries in `allow`, callers can name none. */
  repositories: z
    .strictObject({
      allow: z.array(z.string().min(1).max(500)).max(1000).optional(),
      landing: z.array(remoteLandingMode).min(1).optional(),
      branch: z
        .string()
        .regex(/^(?![-/.])[\w./{}-]{1,100}$/, "expected the name of a branch with {task} in it")
        .optional(),
      credentials: z.array(repositoryCredential).max(100).optional(),
      pullRequest: z
        .strictObject({
          labels: z
            .array(z.string().regex(/^[^,\p{Cc}]{1,50}$/u))
            .max(20)
            .optional(),
          draft: z.boolean().optional(),
          /** Address of the service's page, for a link to the evidence. */
          page: z.url({ protocol: /^https?$/ }).optional(),
        })
        .optional(),
      events: z.array(repositoryEvents).max(100).optional(),
      fetchSeconds: z.number().int().min(1).max(86_400).optional(),
      mirrorBytes: z.number().int().min(1).optional(),
      mirrorDays: z.number().int().min(0).max(36_500).optional(),
      lfs: z.union([z.boolean(), z.literal("same-host")]).optional(),
      submodules: z.union([z.boolean(), z.literal("same-host")]).optional(),
    })
    .optional(),
  /** Path of Chromium, for visual checks and captures; default: the first one on PATH. */
  browser: z.string().refine(isAbsolute, "Expected an absolute path").optional(),
  web: z.strictObject({ fetch: z.boolean().optional(), http: z.boolean().optional() }).optional(),
  /** Targets besides public https: `host`, `host:port`, an address, or a network such as 10.0.0.0/8. */
  webhooks: z.strictObject({ allow: z.array(z.string().min(1).max(300)).max(100).optional() }).optional(),
  /** Commands that `run codemod NAME` may run. */
  rules: z
    .strictObject({
      codemods: z.record(z.string().regex(/^[A-Za-z0-9][\w.-]{0,63}$/), z.string().min(1).max(4096)).optional(),
    })
    .optional(),
  limits: limitsConfig.optional(),
});

export type ProviderConfig = z.infer<typeof providerConfig>;
export type RepositoryCredential = z.infer<typeof repositoryCredential>;
export type RepositoryEvents = z.infer<typeof repositoryEvents>;
export type McpSettings = z.infer<typeof mcpServer>;
export type AgentSettings = z.infer<typeof agentConfig>;

export const readFile = (path: string): z.infer<typeof configFile> => {
  if (!existsSync(path)) return {};
  const text = readFileSync(path, "utf8");
  const errors: ParseError[] = [];
  const value: unknown = parseJsonc(text, errors, { allowTrailingComma: true });
  const first = errors[0];
  if (first !== undefined) {
    const words = syntax[printParseErrorCode(first.error)] ?? printParseErrorCode(first.error);
    throw new StartError(78, `${path}:${placeIn(text, first.offset)}: ${words}.`);
  }
  const parsed = configFile.safeParse(value, { reportInput: true });
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new StartError(78, `${path}${issue === undefined ? "" : wordsOf(text, issue)}`);
};

/** Messages for the most common syntax errors of the file. */
const syntax: Record<string, string> = {
  InvalidSymbol: "Expected a value, such as a text in double quotes",
  PropertyNameExpected: "Expected a name in double quotes",
  ValueExpected: "Expected a value",
  ColonExpected: "Expected a colon",
  CommaExpected: "Expected a comma",
  CloseBraceExpected: "Expected a closing brace",
  CloseBracketExpected: "Expected a closing bracket",
  EndOfFileExpected: "Expected the end of the file",
  UnexpectedEndOfString: "Expected the end of the text, a double quote",
};

/** Line and column, both counted from 1. */
const placeIn = (text: string, offset: number): string => {
  const lines = text.slice(0, offset).split("\n");
  return `${lines.length}:${(lines.at(-1)?.length ?? 0) + 1}`;
};

/** One issue with its place in the file, and the setting that was probably meant. */
const wordsOf = (text: string, issue: z.core.$ZodIssue): string => {
  const tree = parseTree(text, [], { allowTrailingComma: true });
  const nodeAt = (path: readonly PropertyKey[]) =>
    tree &&
    findNodeAtLocation(
      tree,
      path.map((part) => (typeof part === "number" ? part : String(part))),
    );
  const where = issue.path.length === 0 ? "" : ` ${issue.path.join(".")}:`;
  if (issue.code === "unrecognized_keys") {
    const [key = ""] = issue.keys;
    const offset = nodeAt([...issue.path, key])?.parent?.offset ?? 0;
    const known = Object.keys(shapeAt(configFile, issue.path));
    return `:${placeIn(text, offset)}:${where} Unknown setting "${key}".${didYouMean(key, known)}`;
  }
  const offset = nodeAt(issue.path)?.offset ?? 0;
  const known = issue.code === "invalid_value" ? issue.values.map(String) : [];
  const given = typeof issue.input === "string" ? issue.input : "";
  return `:${placeIn(text, offset)}:${where} ${issue.message}.${didYouMean(given, known)}`;
};

/** The settings that are allowed at a place in the file. */
const shapeAt = (schema: unknown, path: readonly PropertyKey[]): object => {
  let at: unknown = schema;
  const inside = (type: unknown): unknown => {
    if (type instanceof z.ZodOptional) return inside(type.unwrap());
    return type instanceof z.ZodUnion
      ? inside(type.options.find((option) => inside(option) instanceof z.ZodObject))
      : type;
  };
  for (const part of path) {
    const here = inside(at);
    if (here instanceof z.ZodObject) at = (here.shape as Record<string, unknown>)[String(part)];
    else if (here instanceof z.ZodRecord) at = here.valueType;
    else if (here instanceof z.ZodArray) at = here.element;
    else return {};
  }
  const found = inside(at);
  return found instanceof z.ZodObject ? found.shape : {};
};
