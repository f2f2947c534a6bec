import { z } from "zod";
import { isOwnVariable, secretNamed } from "../../protocol/task/environment.ts";

/**
 * MCP servers that a project requests in `.mcp.json`, in the format that other agents use. The file is parsed here, and
 * its servers are used only if the operator has granted exactly this file.
 */

export const projectFile = ".mcp.json";
const mostServers = 20;

/**
 * A server as the file describes it: values may name variables of the service, which only the headers of an address
 * get.
 */
export const requestedServer = z.union([
  z.object({
    command: z.string().min(1).max(4096),
    args: z.array(z.string().max(4096)).max(64).default([]),
    env: z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/), z.string().max(4096)).default({}),
  }),
  z.object({
    url: z.url({ protocol: /^https?$/ }),
    headers: z.record(z.string().regex(/^[!#$%&'*+.^`|~\w-]{1,100}$/), z.string().max(4096)).default({}),
  }),
]);

export type AskedServer = z.infer<typeof requestedServer>;

/** `problems`: why servers cannot be used, by name; problems of the file itself under "". */
export type Asked = { servers: Record<string, AskedServer>; problems: Record<string, string> };

export const parseRequestedServers = (text: string): Asked => {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { servers: {}, problems: { "": "it is no JSON" } };
  }
  const listed = z.object({ mcpServers: z.record(z.string(), z.unknown()) }).safeParse(value);
  if (!listed.success) return { servers: {}, problems: { "": "it has no mcpServers" } };
  const all = Object.entries(listed.data.mcpServers);
  const asked: Asked = { servers: {}, problems: {} };
  if (all.length > mostServers)
    asked.problems[""] = `it names ${all.length} servers; the first ${mostServers} are read`;
  for (const [given, settings] of all.slice(0, mostServers)) {
    const name = given
      .toLowerCase()
      .replaceAll(/[^a-z0-9-]+/g, "-")
      .replace(/^-+/, "")
      .slice(0, 32);
    if (name === "" || Object.hasOwn(asked.servers, name))
      asked.problems[given.slice(0, 64)] = "its name is no name, or taken";
    else {
      const read = requestedServer.safeParse(settings);
      const problem = read.success
        ? (foreignOf(settings) ?? problemOf(read.data))
        : "expected a command, or an http or https url";
      if (problem !== undefined || !read.success) asked.problems[name] = problem ?? "";
      else asked.servers[name] = read.data;
    }
  }
  return asked;
};

const foreign = z.object({
  type: z.unknown().optional(),
  disabled: z.unknown().optional(),
  cwd: z.unknown().optional(),
  network: z.unknown().optional(),
  auth: z.unknown().optional(),
});

/**
 * A setting that other agents support and this service does not, worded as a problem: ignoring it would make it a
 * different server.
 */
const foreignOf = (settings: unknown): string | undefined => {
  const { type, disabled, cwd, network, auth } = foreign.parse(settings);
  if (disabled === true) return "the file disables it";
  if (type === "sse") return "sse is not supported; expected streamable HTTP";
  if (cwd !== undefined) return "cwd is not supported; a project's program runs in the project's root";
  if (network !== undefined && network !== "none")
    return "a project cannot ask for a network; put the server into config.jsonc";
  return auth === undefined ? undefined : "a project cannot ask for auth; put the server into config.jsonc";
};

/**
 * A program that a project chooses gets no value of the service: it may be a file of the project, which agents can
 * change without changing what was granted. An address gets variables in its headers. A reference to a variable in an
 * unsupported form is refused, because the server would be sent the reference itself.
 */
const problemOf = (server: AskedServer): string | undefined => {
  const values = Object.entries("url" in server ? server.headers : server.env);
  const secret = values.find(([, value]) => secretNamed(value) !== undefined);
  if (secret !== undefined)
    return `${secret[0]} names a secret, which a project's server does not get; put the server into config.jsonc`;
  if ("url" in server) {
    if (server.url.includes("${")) return "its url has a variable; only headers can have one";
    const odd = values.find(([, value]) => value.replaceAll(reference, "").includes("${"));
    return odd && `${odd[0]} has a variable in a form that is not supported; expected env:NAME or \${NAME}`;
  }
  if (server.command.includes("${")) return "its command has a variable, which a project's program does not get";
  if (server.args.some((text) => text.includes("${")))
    return "its args have a variable, which a project's program does not get";
  const own = Object.keys(server.env).find(isOwnVariable);
  if (own !== undefined) return `${own} changes how programs outside of the sandbox start`;
  const named = values.find(([, value]) => variablesIn(value).length > 0 || value.includes("${"));
  return (
    named &&
    `${named[0]} names a variable of the service, which a project's program does not get; put the server into config.jsonc`
  );
};

const reference = /^env:([A-Za-z_][A-Za-z0-9_]*)$|\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g;

/** The variables of the service that a value names: `env:NAME`, or `${NAME}` in a text. */
export const variablesIn = (value: string): string[] =>
  [...value.matchAll(reference)].map(([, whole, part]) => whole ?? part ?? "");

/** undefined: a variable is not set. */
export const expandVariables = (value: string, of: (name: string) => string | undefined): string | undefined =>
  variablesIn(value).some((name) => (of(name) ?? "") === "")
    ? undefined
    : value.replaceAll(reference, (_, whole?: string, part?: string) => of(whole ?? part ?? "") ?? "");

/** What the server would do, worded for the person who grants it. */
export const describeServer = (server: AskedServer): string => {
  if ("command" in server) {
    const env = Object.keys(server.env);
    return `runs ${JSON.stringify([server.command, ...server.args].join(" "))} in the sandbox, without a network${env.length === 0 ? "" : `, with ${env.join(", ")}`}`;
  }
  const sent = Object.entries(server.headers).map(([name, value]) => {
    const variables = variablesIn(value);
    return variables.length === 0 ? name : `${name} with the service's ${variables.join(", ")}`;
  });
  return `calls ${server.url}${sent.length === 0 ? "" : ` and sends ${sent.join(", ")}`}`;
};
