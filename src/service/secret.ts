import type { Config } from "../config/config.ts";
import type { Secret } from "../redact.ts";
import type { ProviderEntry } from "../model/registry.ts";
import { knownKinds } from "../model/provider-kind.ts";

/** Which values of the configuration and environment are secrets. */

export type Settings = {
  providers: Readonly<Record<string, ProviderEntry>>;
  env: Readonly<Record<string, string | undefined>>;
  password: string | undefined;
  databaseURL: string | undefined;
  databaseDirectURL: string | undefined;
  /** Environment variables that the operator named as secrets. */
  secrets: readonly string[];
};

/** Headers whose values are never secret. */
const openHeaders = new Set(["accept", "content-type", "http-referer", "referer", "user-agent", "x-title"]);

const secretName = /(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$/i;

export const secretsOf = ({
  providers,
  env,
  password,
  databaseURL,
  databaseDirectURL,
  secrets,
}: Settings): Secret[] => {
  const found: Secret[] = [];
  const add = (kind: string, value: string | undefined) => {
    if (value !== undefined && value.trim() !== "") found.push({ kind, value: value.trim() });
  };
  add("password", password);
  for (const url of [databaseURL, databaseDirectURL]) add("database-password", passwordIn(url));
  // Added by name, because they may contain slashes, and the test below would take them for paths.
  for (const name of ["AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"]) add(name, env[name]);
  for (const { keys } of Object.values(knownKinds)) for (const name of keys) add(name, env[name]);
  for (const [id, { apiKey, headers = {} }] of Object.entries(providers)) {
    if (apiKey?.startsWith("env:") === true) add(apiKey.slice("env:".length), env[apiKey.slice("env:".length)]);
    else add(`${id}-key`, apiKey);
    for (const [name, value] of Object.entries(headers))
      if (!openHeaders.has(name.toLowerCase())) add(`${id}-header`, value.replace(/^(?:Bearer|Basic) +/i, ""));
  }
  for (const name of secrets) add(name, env[name]);
  // Any other variable whose name suggests a secret and whose value looks like one; paths and plain words do not.
  for (const [name, value = ""] of Object.entries(env))
    if (secretName.test(name) && value.length >= 16 && !/[\s/]/.test(value) && /\d/.test(value) && /[a-z]/i.test(value))
      add(name, value);
  return found;
};

/**
 * The values in an MCP server's settings that are secret: those taken from the environment, and the headers sent to it.
 */
export const secretsOfServer = (server: Config["mcpServers"][string]): string[] => {
  if (server.kind === "stdio") {
    const named = Object.entries(server.env).flatMap(([name, value]) => (secretName.test(name) ? [value] : []));
    return [...server.secrets, ...named];
  }
  const { headers, auth } = server;
  const sent = Object.values(headers).map((value) => value.replace(/^(?:Bearer|Basic) +/i, ""));
  return [...sent, ...(auth === undefined ? [] : [auth.clientSecret])];
};

const passwordIn = (url: string | undefined): string | undefined => {
  if (url === undefined || !URL.canParse(url)) return undefined;
  const { password, searchParams } = new URL(url);
  return decoded(password) || (searchParams.get("password") ?? undefined);
};

const decoded = (text: string): string => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
};
