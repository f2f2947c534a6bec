import { repositoryIdentity } from "../domain/state/project.ts";
import { ServiceError } from "../error.ts";

/** Addresses of repositories: their normal form, and which of them the operator allows. */

export type Address = {
  scheme: "https" | "http" | "ssh" | "git";
  user: string;
  host: string;
  /** "": the scheme's default port. */
  port: string;
  /** Begins with a slash. */
  path: string;
};

const refuse = (message: string) => new ServiceError("repository_not_allowed", message);

/** `user@host:path`, the form that ssh users write. */
const scpForm = /^(?:([\w.-]+)@)?([\w.-]+|\[[0-9a-f:]+\]):(?![/:])(.+)$/i;

const defaultPorts: Record<Address["scheme"], string> = { https: "443", http: "80", ssh: "22", git: "9418" };

const isScheme = (text: string): text is Address["scheme"] => text in defaultPorts;

/**
 * Parses an address. Throws `repository_not_allowed` for text that is not the address of a repository, and for an
 * address with a password.
 */
export const parseAddress = (text: string): Address => {
  const scp = text.includes("://") ? null : scpForm.exec(text);
  const url = URL.parse(
    scp === null ? text : `ssh://${scp[1] ?? ""}${scp[1] === undefined ? "" : "@"}${scp[2]}/${scp[3]}`,
  );
  const scheme = url?.protocol.slice(0, -1) ?? "";
  if (url === null || !isScheme(scheme) || url.hostname === "")
    throw refuse(
      `Expected the address of a repository (https://host/path.git, ssh://user@host/path), got ${shown(text)}.`,
    );
  if (url.password !== "" || (url.username !== "" && scheme !== "ssh"))
    throw refuse(
      "Expected an address without credentials: the operator sets them in `repositories.credentials` of config.jsonc.",
    );
  if (url.search !== "" || url.hash !== "") throw refuse("Expected an address without a query or fragment.");
  const path = url.pathname.replace(/\/{2,}/g, "/").replace(/\/$/, "");
  if (path === "" || /%(?:2[0ef]|[01]|7f)|[\p{Cc}\s]/iu.test(path) || path.startsWith("/-"))
    throw refuse(`Expected the path of a repository, got ${shown(url.pathname)}.`);
  const user = url.username;
  if (!/^[\w.-]*$/.test(user) || user.startsWith("-") || url.hostname.startsWith("-"))
    throw refuse(`Expected a plain user and host, got ${shown(`${user}@${url.hostname}`)}.`);
  const port = url.port === defaultPorts[scheme] ? "" : url.port;
  return { scheme, user, host: url.hostname.toLowerCase(), port, path };
};

const shown = (text: string): string => JSON.stringify(text.replace(/:\/\/[^@/]*@/, "://…@").slice(0, 200));

const authorityOf = ({ user, host, port }: Address): string =>
  `${user === "" ? "" : `${user}@`}${host}${port === "" ? "" : `:${port}`}`;

/** The URL that git gets. */
export const urlOf = (address: Address): string => `${address.scheme}://${authorityOf(address)}${address.path}`;

/** Equal for all spellings of one repository. */
export const identityOf = (address: Address): string => repositoryIdentity(urlOf(address));

/** An entry of `repositories.allow` or a `match` of credentials. */
export type Pattern = {
  matches(address: Address): boolean;
  /** Whether the entry names the host; if so, the host may have internal addresses, too. */
  namesHost: boolean;
};

const partsOf = /^([a-z]+):\/\/([^/]*)(\/.*)?$/i;

/** Whether a name matches the pattern, in which `*` stands for any text. Takes time proportional to both lengths. */
const fits = (pattern: string, name: string): boolean => {
  const [first = "", ...rest] = pattern.toLowerCase().split("*");
  const text = name.toLowerCase();
  const last = rest.pop();
  if (last === undefined) return text === first;
  if (!text.startsWith(first) || !text.endsWith(last) || text.length < first.length + last.length) return false;
  let at = first.length;
  for (const part of rest) {
    const found = text.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return at <= text.length - last.length;
};

/**
 * Parses `scheme://[user@]host[:port]/path`, where `*` stands for any part of a name, and at the end of the path for
 * everything below. undefined: the text is not such a pattern.
 */
export const parsePattern = (text: string): Pattern | undefined => {
  const [, scheme = "", authority = "", path = "/*"] = partsOf.exec(text.trim()) ?? [];
  if (!isScheme(scheme.toLowerCase()) || authority === "" || authority.includes(":*")) return undefined;
  const plain = scheme.toLowerCase() as Address["scheme"];
  const port = `:${defaultPorts[plain]}`;
  const host = authority.endsWith(port) ? authority.slice(0, -port.length) : authority;
  const below = path.endsWith("/*");
  const names = (below ? path.slice(0, -2) : path).replace(/\.git$/, "").split("/");
  const matchesPath = (given: string): boolean => {
    const parts = given.replace(/\.git$/, "").split("/");
    if (below ? parts.length <= names.length : parts.length !== names.length) return false;
    return names.every((name, at) => fits(name, parts[at] ?? ""));
  };
  return {
    matches: (address) => address.scheme === plain && fitsHost(host, authorityOf(address)) && matchesPath(address.path),
    namesHost: !authority.includes("*"),
  };
};

/** Matches user, name and port separately, so that a `*` in one never reaches into another. */
const fitsHost = (pattern: string, authority: string): boolean => {
  const [wanted, given] = [partsOfHost(pattern), partsOfHost(authority)];
  return wanted.every((part, at) => fits(part, given[at] ?? ""));
};

const partsOfHost = (authority: string): [string, string, string] => {
  const at = authority.lastIndexOf("@");
  const host = authority.slice(at + 1);
  const colon = host.lastIndexOf(":");
  const hasPort = colon > host.lastIndexOf("]");
  return [
    authority.slice(0, Math.max(at, 0)),
    hasPort ? host.slice(0, colon) : host,
    hasPort ? host.slice(colon + 1) : "",
  ];
};

const badRef = /^[-./]|\.\.|\/\/|@\{|[\p{Cc}\s~^:?*[\\]|\.lock(\/|$)|[./]$|^@$/u;

/** The name of a branch, tag or commit, without `refs/heads/` or `refs/tags/`. Throws `invalid_request`. */
export const parseRef = (text: string): string => {
  const ref = text.replace(/^refs\/(heads|tags)\//, "");
  if (ref === "" || badRef.test(ref))
    throw new ServiceError("invalid_request", `Expected the name of a branch, a tag or a commit, got ${shown(text)}.`, {
      issues: [
        { path: "body.repository.ref", message: "Expected the name of a branch, a tag or a commit", code: "custom" },
      ],
    });
  return ref;
};
