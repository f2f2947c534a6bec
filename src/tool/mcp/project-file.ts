import { z } from "zod";
import { isOwnVariable } from "../../protocol/task/environment.ts";

/**
 * MCP servers that a project asks for in `.mcp.json`, in the form that other agents have. What the file names is read here,
 * and used only where the operator has granted exactly this file.
 */

export const projectFile = ".mcp.json";
const mostServers = 20;

/** A server as the file has it: values may name variables of the service, which only an address gets. */
export const askedServer = z.union([
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

export type AskedServer = z.infer<typeof askedServer>;

/** `problems`: of servers that cannot be had, by name; under "" of the file. */
export type Asked = { servers: Record<string, AskedServer>; problems: Record<string, string> };

export const readAsked = (text: string): Asked => {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { servers: {}, problems: { "": "it is no JSON" } };
  }
  const listed = z.object({ mcpServers: z.record(z.string(), z.unknown()) }).safeParse(value);
  if (!listed.success) return { servers: {}, problems: { "": "it has no mcpServers" } };
  const asked: Asked = { servers: {}, problems: {} };
  for (const [given, settings] of Object.entries(listed.data.mcpServers).slice(0, mostServers)) {
    const name = given
      .toLowerCase()
      .replaceAll(/[^a-z0-9-]+/g, "-")
      .replace(/^-+/, "")
      .slice(0, 32);
    if (name === "" || Object.hasOwn(asked.servers, name))
      asked.problems[given.slice(0, 64)] = "its name is no name, or taken";
    else {
      const read = askedServer.safeParse(settings);
      const problem = read.success ? problemOf(read.data) : "expected a command, or an http or https url";
      if (problem !== undefined || !read.success) asked.problems[name] = problem ?? "";
      else asked.servers[name] = read.data;
    }
  }
  return asked;
};

/**
 * A program of a project's choice gets no value of the service: it may be a file of the project, which agents change without
 * changing what was granted.
 */
const problemOf = (server: AskedServer): string | undefined => {
  if ("url" in server) return undefined;
  const own = Object.keys(server.env).find(isOwnVariable);
  if (own !== undefined) return `${own} changes how programs outside of the sandbox start`;
  const named = Object.entries(server.env).find(([, value]) => variablesIn(value).length > 0);
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
export const filledIn = (value: string, of: (name: string) => string | undefined): string | undefined =>
  variablesIn(value).some((name) => (of(name) ?? "") === "")
    ? undefined
    : value.replaceAll(reference, (_, whole?: string, part?: string) => of(whole ?? part ?? "") ?? "");

/** What a server would do, in words for who grants it. */
export const askedWords = (server: AskedServer): string => {
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
