import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createPrivateKey, randomUUID } from "node:crypto";
import { isAbsolute, join } from "node:path";
import { type Address, type Pattern, parsePattern } from "./address.ts";
import type { ForgeKind } from "./repository.ts";

/**
 * The operator's credentials for repositories. They reach git by a file for one call, which only this user can read and
 * which is removed with the call: never by an argument, a variable, an address or a sandbox.
 */

/**
 * An entry of `repositories.credentials`. `token`: `env:NAME` or `file:PATH`. `forge`, `api`: the forge that the host
 * runs for pull requests, and its address, where the host's name does not tell. `app`: a GitHub App; `key` is its
 * private key, `env:NAME` or `file:PATH`.
 */
export type CredentialSettings = { match: string } & (
  | { username?: string | undefined; token: string; forge?: ForgeKind | undefined; api?: string | undefined }
  | { app: { id: string | number; key: string }; api?: string | undefined }
  | { sshKey: string; knownHosts: string }
);

export type Credential =
  | { kind: "token"; username: string; read: () => string; forge: ForgeKind | undefined; api: string | undefined }
  | { kind: "app"; id: string; key: () => string; api: string | undefined }
  | { kind: "ssh"; key: string; knownHosts: string };

/**
 * How the remote and the forge of a repository are addressed: where, with which credential, and whether internal
 * addresses are allowed.
 */
export type Remote = {
  address: Address;
  credential: Credential | undefined;
  /** The operator named the host, so it may have internal addresses. */
  vouched: boolean;
};

/** A remote that gets a token. */
export type ShownRemote = Remote & { credential: Exclude<Credential, { kind: "ssh" }> };

export const usesToken = (remote: Remote): remote is ShownRemote =>
  remote.credential !== undefined && remote.credential.kind !== "ssh";

type Entry = { pattern: Pattern; credential: Credential };

/** The entries; a string is the problem with one of them, in words for the operator. */
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
        return `credentials.${at}: expected paths without white space or quotes`;
      entries.push({ pattern, credential: { kind: "ssh", key: entry.sshKey, knownHosts: entry.knownHosts } });
      continue;
    }
    const address = entry.api === undefined ? undefined : URL.parse(entry.api);
    if (address !== undefined && !isInterface(address))
      return `credentials.${at}.api: expected https://host/path without a user or query, got "${entry.api}"`;
    if ("app" in entry) {
      const key = secretReader(entry.app.key, env);
      const problem = key === undefined ? "expected env:NAME or file:/PATH, got something else" : problemOfKey(key);
      if (key === undefined || problem !== undefined) return `credentials.${at}.app.key: ${problem}`;
      entries.push({ pattern, credential: { kind: "app", id: String(entry.app.id), key, api: address?.href } });
      continue;
    }
    const read = secretReader(entry.token, env);
    if (read === undefined) return `credentials.${at}.token: expected env:NAME or file:/PATH, got something else`;
    if (entry.token.startsWith("env:") && read() === "")
      return `credentials.${at}.token: the variable ${entry.token.slice("env:".length)} is not set`;
    const { username = "x-access-token", forge } = entry;
    entries.push({ pattern, credential: { kind: "token", username, read, forge, api: address?.href } });
  }
  return entries;
};

/** What is wrong with a private key, in words that reveal nothing of it; undefined: nothing. */
const problemOfKey = (key: () => string): string | undefined => {
  try {
    const { asymmetricKeyType: type } = createPrivateKey(key());
    return type === "rsa" ? undefined : `expected an RSA private key, got one of the kind ${type}`;
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "it cannot be read";
    return `expected the private key of a GitHub App in PEM, got none (${code})`;
  }
};

/**
 * A function that reads a secret from where the operator keeps it, `env:NAME` or `file:/PATH`; undefined: `where` is
 * neither.
 */
export const secretReader = (
  where: string,
  env: Readonly<Record<string, string | undefined>>,
): (() => string) | undefined => {
  const [, kind, name = ""] = /^(env|file):(.+)$/.exec(where) ?? [];
  if (kind === "env") return () => (env[name] ?? "").trim();
  return kind === "file" && isAbsolute(name) ? () => readFileSync(name, "utf8").trim() : undefined;
};

const isInterface = (url: URL | null): boolean =>
  url !== null && /^https?:$/.test(url.protocol) && `${url.username}${url.password}${url.search}${url.hash}` === "";

/** The credential of the first entry that fits the address. */
export const credentialFor = (entries: readonly Entry[], address: Address): Credential | undefined =>
  entries.find(
    ({ pattern, credential }) => pattern.matches(address) && (credential.kind === "ssh") === (address.scheme === "ssh"),
  )?.credential;

/** A file that git's credential helper prints; dispose it when the call has ended. */
export const credentialFile = (folder: string, { username, token }: { username: string; token: string }) => {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const path = join(folder, randomUUID());
  writeFileSync(path, `username=${username}\npassword=${token}\n`, { flag: "wx", mode: 0o600 });
  return { path, [Symbol.dispose]: () => rmSync(path, { force: true }) };
};
