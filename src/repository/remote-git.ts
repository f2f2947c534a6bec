import { lookup } from "node:dns/promises";
import { isIP } from "node:net";
import { join } from "node:path";
import { messageOf } from "../error.ts";
import { isPublic } from "../outbound/address.ts";
import type { Tracker } from "../process/process.ts";
import { shellQuote } from "../shell-quote.ts";
import { type Author, environmentOf, settings } from "../workspace/git/hardened.ts";
import { GitError, type GitResult, runGit } from "../workspace/git/run.ts";
import type { Address } from "./address.ts";
import { type Credential, credentialFile, usesToken, type Remote, type ShownRemote } from "./credential.ts";
import { ForgeRefused, RepositoryAway } from "./repository.ts";
import type { Tokens } from "./token.ts";
import { plainText } from "./words.ts";

/**
 * The second profile of git: fetch, ls-remote and push, on the bare mirror alone. It has the credentials, and may use
 * the network, but only to one judged address and without redirects. It never sees a work tree; the first profile has
 * no network.
 */

export type RemoteGit = {
  /** Rejects with `RepositoryAway` if the remote could not be reached, or does not answer as git does. */
  run(
    mirror: string,
    remote: Remote,
    args: readonly string[],
    options: { signal: AbortSignal; timeoutMs: number; ok?: readonly number[] },
  ): Promise<GitResult>;
};

export const createRemoteGit = (options: {
  /** The folder for the files of credentials. */
  folder: string;
  path: string;
  author: Author;
  tracker: Tracker;
  tokens: Tokens;
  resolve?: (host: string) => Promise<readonly string[]>;
}): RemoteGit => {
  const { folder, path, author, tracker, tokens, resolve = lookUp } = options;

  const once = async (
    mirror: string,
    { address, credential, vouched }: Remote,
    token: string | undefined,
    args: readonly string[],
    { signal, timeoutMs, ok }: Parameters<RemoteGit["run"]>[3],
  ): Promise<GitResult> => {
    const addresses = await judged(address, vouched, resolve);
    const username = credential?.kind === "token" ? credential.username : "x-access-token";
    using file = token === undefined ? undefined : credentialFile(join(folder, "given"), { username, token });
    const flags = [
      "--no-pager",
      `--git-dir=${mirror}`,
      ...settings,
      "-c",
      `protocol.${address.scheme}.allow=always`,
      ...(address.scheme === "http" || address.scheme === "https" ? httpSettings(address, addresses, timeoutMs) : []),
      ...(address.scheme === "git" ? daemonSettings(address, addresses) : []),
      ...(file === undefined
        ? []
        : ["-c", `credential.helper=!f() { test "$1" = get && cat ${shellQuote(file.path)}; }; f`]),
      // Fetched objects are checked before they are kept. The ignored errors are old mistakes of honest programs.
      "-c",
      "transfer.fsckObjects=true",
      ...["badTimezone", "missingSpaceBeforeDate", "zeroPaddedFilemode", "missingSpaceBeforeEmail", "badDate"].flatMap(
        (known) => ["-c", `fetch.fsck.${known}=ignore`],
      ),
    ];
    const env = {
      ...environmentOf(path, author),
      GIT_ALLOW_PROTOCOL: address.scheme,
      GIT_SSH_COMMAND: address.scheme === "ssh" ? sshCommand(address, addresses, credential) : "/bin/false",
      GIT_SSH_VARIANT: "ssh",
    };
    try {
      return await runGit(
        mirror,
        [...flags, ...args],
        { env, signal, timeoutMs, idleMs: timeoutMs, dataBytes: mostData, ...(ok === undefined ? {} : { ok }) },
        tracker,
      );
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof GitError)) throw error;
      throw awayFor(error);
    }
  };

  return {
    async run(mirror, remote, args, options) {
      if (!usesToken(remote)) return once(mirror, remote, undefined, args, options);
      const token = await tokenOf(tokens, remote, options.signal);
      try {
        return await once(mirror, remote, token, args, options);
      } catch (error) {
        // A token that was revoked before it expired is requested again, once.
        if (!isRefused(error) || !tokens.drop(remote, token)) throw error;
        const next = await tokenOf(tokens, remote, options.signal);
        if (next === token) throw error;
        return once(mirror, remote, next, args, options);
      }
    },
  };
};

/** Bytes that git may allocate for a fetch: a remote may send kilobytes of differences that stand for gigabytes. */
const mostData = 4 * 1024 ** 3;

/** The token of a remote. A forge that refuses to give one counts as a remote that refuses. */
const tokenOf = async (tokens: Tokens, remote: ShownRemote, signal: AbortSignal): Promise<string> => {
  try {
    return await tokens.of(remote, signal);
  } catch (error) {
    throw error instanceof ForgeRefused ? new RepositoryAway(error.message, { cause: error, lasting: true }) : error;
  }
};

const lookUp = async (host: string): Promise<readonly string[]> =>
  (await lookup(host, { all: true })).map(({ address }) => address);

/** The addresses of the host, all of which may be dialled. Throws `RepositoryAway`. */
const judged = async (
  { host }: Address,
  vouched: boolean,
  resolve: (host: string) => Promise<readonly string[]>,
): Promise<readonly string[]> => {
  const bare = bareHost(host);
  let found: readonly string[];
  try {
    found = isIP(bare) > 0 ? [bare] : await resolve(bare);
  } catch (error) {
    throw new RepositoryAway(`the name ${bare} could not be resolved (${messageOf(error)})`);
  }
  const open = vouched ? found : found.filter(isPublic);
  if (open.length === 0 || open.length < found.length)
    throw new RepositoryAway(
      `${bare} is an internal address, which requires an entry of repositories.allow that names the host`,
      { lasting: true },
    );
  return open.slice(0, 4);
};

const bareHost = (host: string): string => host.replace(/^\[|\]$/g, "");

const inAddress = (ip: string): string => (ip.includes(":") ? `[${ip}]` : ip);

const httpSettings = ({ scheme, host, port }: Address, addresses: readonly string[], timeoutMs: number): string[] => {
  const bare = bareHost(host);
  const pinned = addresses.map(inAddress).join(",");
  const at = `${bare}:${port === "" ? (scheme === "https" ? 443 : 80) : port}:${pinned}`;
  return [
    // The judged address and no other: no second lookup, no redirect, no proxy.
    ...(isIP(bare) > 0 ? [] : [`http.curloptResolve=${at}`]),
    "http.followRedirects=false",
    "http.proxy=",
    "http.emptyAuth=false",
    "http.lowSpeedLimit=1",
    `http.lowSpeedTime=${Math.max(1, Math.round(timeoutMs / 1000))}`,
  ].flatMap((setting) => ["-c", setting]);
};

/** git resolves names of this scheme itself, so it gets the judged address instead. */
const daemonSettings = ({ host, port }: Address, [address = ""]: readonly string[]): string[] => {
  if (isIP(bareHost(host)) > 0) return [];
  const at = port === "" ? "" : `:${port}`;
  return ["-c", `url.git://${inAddress(address)}${at}/.insteadOf=git://${host}${at}/`];
};

const sshCommand = (
  { host, port }: Address,
  [address = ""]: readonly string[],
  credential: Credential | undefined,
): string => {
  const key = credential?.kind === "ssh" ? credential : undefined;
  // In the form of known_hosts, so that the port stays part of the known name.
  const known = port === "" ? bareHost(host) : `[${bareHost(host)}]:${port}`;
  return [
    "ssh -F /dev/null -o BatchMode=yes -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes -o IdentityAgent=none",
    "-o ProxyCommand=none -o PermitLocalCommand=no -o ForwardAgent=no -o ConnectTimeout=20 -o UpdateHostKeys=no",
    `-o HostName=${address} -o HostKeyAlias=${known} -o GlobalKnownHostsFile=/dev/null`,
    `-o UserKnownHostsFile=${key?.knownHosts ?? "/dev/null"} -o IdentityFile=${key?.key ?? "none"}`,
  ].join(" ");
};

const refused =
  /could not read (Username|Password)|Authentication failed|HTTP Basic: Access denied|returned error: 40[13]/i;

const isRefused = (error: unknown): boolean =>
  error instanceof RepositoryAway && error.cause instanceof GitError && refused.test(error.cause.stderr);

/**
 * Answers of a remote that is reachable and would answer the same in a minute. Where `words` is missing, the remote's
 * own line explains the error best.
 */
const lasting: readonly { pattern: RegExp; words?: string }[] = [
  {
    pattern: refused,
    words: "it refused the credentials in repositories.credentials",
  },
  {
    pattern: /unable to update url base from redirection|returned error: 30\d/i,
    words: "it answers with a redirect, which is not followed: use the final address",
  },
  { pattern: /Permission denied \(|Host key verification failed/i },
  { pattern: /fsck error in packed object/i, words: "it sends objects that Git considers invalid" },
  {
    pattern: /not found|does not appear to be a git repository|repository not exported|returned error: 404/i,
    words: "there is no such repository, or the credentials do not give access to it",
  },
];

/** The error as a `RepositoryAway`, in one line, without details that only git's developers need. */
const awayFor = (error: GitError): RepositoryAway => {
  const known = lasting.find(({ pattern }) => pattern.test(error.stderr));
  const own = known && error.stderr.split("\n").find((line) => known.pattern.test(line));
  const words = (known?.words ?? own?.trim().slice(0, 400) ?? lastLine(error.stderr)) || error.message;
  return new RepositoryAway(plainText(words, 400), { cause: error, lasting: known !== undefined });
};

const lastLine = (stderr: string): string => {
  const lines = stderr
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => /^(fatal|error|ssh|remote):/i.test(line) || line.includes("denied"));
  return (lines.find((line) => line.startsWith("fatal:")) ?? lines[0] ?? "").replace(/^fatal: /, "").slice(0, 400);
};
