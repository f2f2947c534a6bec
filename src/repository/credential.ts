import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { randomUUID } from "node:crypto";
import { isAbsolute, join } from "node:path";
import { type Address, type Pattern, parsePattern } from "./address.ts";
import type { ForgeKind } from "./repository.ts";

/**
 * The operator's credentials for repositories. They reach git by a file of one call's own, which only this user can read
 * and which is removed with the call: never by an argument, a variable, an address or a sandbox.
 */

/**
 * An entry of `repositories.credentials`. `token`: `env:NAME` or `file:PATH`. `forge`, `api`: what the host runs for pull
 * requests, where its name does not say so.
 */
export type CredentialSettings = { match: string } & (
  | { username?: string | undefined; token: string; forge?: ForgeKind | undefined; api?: string | undefined }
  | { sshKey: string; knownHosts: string }
);

export type Credential =
  | { kind: "token"; username: string; read: () => string; forge: ForgeKind | undefined; api: string | undefined }
  | { kind: "ssh"; key: string; knownHosts: string };

type Entry = { pattern: Pattern; credential: Credential };

/** A text is the problem with an entry, in words for the operator. */
export const parseCredentials = (
  settings: readonly CredentialSettings[],
  env: Readonly<Record<string, string | undefined>>,
): Entry[] | string => {
  const entries: Entry[] = [];
  for (const [at, entry] of settings.entries()) {
    const pattern = parsePattern(entry.match);
    if (pattern === undefined) return `credentials.${at}.match: expected scheme://host/path, got "${entry.match}"`;
    if ("sshKey" in entry) {
      if (!isAbsolute(entry.sshKey) || !isAbsolute(entry.knownHosts))
        return `credentials.${at}: expected absolute paths as sshKey and knownHosts`;
      if (/[\s"'\\]/.test(entry.sshKey + entry.knownHosts))
        return `credentials.${at}: expected paths without white space and quotes`;
      entries.push({ pattern, credential: { kind: "ssh", key: entry.sshKey, knownHosts: entry.knownHosts } });
      continue;
    }
    const read = secretAt(entry.token, env);
    if (read === undefined) return `credentials.${at}.token: expected env:NAME or file:/PATH, got another text`;
    if (entry.token.startsWith("env:") && read() === "")
      return `credentials.${at}.token: the variable ${entry.token.slice("env:".length)} is not set`;
    const { username = "x-access-token", forge, api } = entry;
    const address = api === undefined ? undefined : URL.parse(api);
    if (address !== undefined && !isInterface(address))
      return `credentials.${at}.api: expected https://host/path without a user and a query, got "${api}"`;
    entries.push({ pattern, credential: { kind: "token", username, read, forge, api: address?.href } });
  }
  return entries;
};

/** Reads a secret where the operator says that it is, `env:NAME` or `file:/PATH`; undefined: it is neither. */
export const secretAt = (
  where: string,
  env: Readonly<Record<string, string | undefined>>,
): (() => string) | undefined => {
  const [, kind, name = ""] = /^(env|file):(.+)$/.exec(where) ?? [];
  if (kind === "env") return () => (env[name] ?? "").trim();
  return kind === "file" && isAbsolute(name) ? () => readFileSync(name, "utf8").trim() : undefined;
};

const isInterface = (url: URL | null): boolean =>
  url !== null && /^https?:$/.test(url.protocol) && `${url.username}${url.password}${url.search}${url.hash}` === "";

/** The first entry that fits. */
export const credentialFor = (entries: readonly Entry[], address: Address): Credential | undefined =>
  entries.find(
    ({ pattern, credential }) => pattern.matches(address) && (credential.kind === "ssh") === (address.scheme === "ssh"),
  )?.credential;

/** A file that git's credential helper prints; dispose it when the call has ended. */
export const credentialFile = (
  folder: string,
  { username, read }: Credential & { kind: "token" },
  learn: (token: string) => void,
) => {
  const token = read();
  learn(token);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const path = join(folder, randomUUID());
  writeFileSync(path, `username=${username}\npassword=${token}\n`, { flag: "wx", mode: 0o600 });
  return { path, [Symbol.dispose]: () => rmSync(path, { force: true }) };
};
