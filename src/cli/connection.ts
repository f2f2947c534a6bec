import { resolve } from "node:path";
import { createServiceClient } from "../client/client.ts";
import { messageOf } from "../error.ts";
import { flagOf, withFlags } from "./flag.ts";
import { Exit, exit } from "./terminal/exit.ts";
import { clean } from "./terminal/format.ts";

/** Connects to a running service, and turns refusals into messages with exit codes. */

export type Target = {
  url: string;
  directory: string;
  repository?: string | undefined;
  /** The node whose directory is meant, if several nodes have it. */
  node?: string | undefined;
  username: string;
  password: string | undefined;
  /** The URL was given with --url, so commands that are suggested to the user need it too. */
  named?: boolean;
};

/** A sortie command that reaches the same service, as code for a sentence. */
export const commandFor = (
  { url, named = false, node }: Pick<Target, "url" | "named" | "node">,
  words: string,
): string => `\`sortie ${words}${named ? ` --url ${url}` : ""}${node === undefined ? "" : ` --node ${node}`}\``;

export type Service = ReturnType<typeof createServiceClient>;

export const connect = ({ url, directory, repository, node, username, password }: Target): Service => {
  if (!/^https?:$/.test(URL.parse(url)?.protocol ?? ""))
    throw new Exit(
      exit.usage,
      `Expected --url (or SERVICE_URL) to be an http address such as http://127.0.0.1:7878, got "${url}".`,
    );
  return createServiceClient({
    baseUrl: url,
    ...(repository === undefined ? { directory: resolve(directory) } : { repository }),
    ...(node === undefined ? {} : { node }),
    username,
    ...(password === undefined ? {} : { password }),
  });
};

/** The message with the paths of manuals turned into URLs: manuals are screens of the service's page. */
export const withManuals = (text: string, url: string): string =>
  text.replaceAll(/(?<![\w./-])\/ui\/manual\//g, `${url.replace(/\/$/, "")}/ui/manual/`);

type Result = { data?: unknown; error?: unknown; response?: Response | undefined };

/** The answer's data. Throws an `Exit` that says why there is none, and what to do. */
export const dataOf = <R extends Result>(result: R, url: string): NonNullable<R["data"]> => {
  const { data, error } = result;
  if (error !== undefined || data === undefined || data === null) throw refusal(result, url);
  return data;
};

type Body = { message: string; code: string; issues: { path: string; message: string }[] };

const bodyOf = (error: unknown): Partial<Body> => (typeof error === "object" && error !== null ? error : {});

const refusal = ({ error, response }: Result, url: string): Exit => {
  if (response === undefined)
    return new Exit(
      exit.unreachable,
      `No service answers at ${url} (${clean(reasonOf(error))}). Start one with \`sortie serve\`, in a clone \`npm start\`, or give --url.`,
    );
  const { message = `status ${response.status}`, code, issues = [] } = bodyOf(error);
  // With several issues, the message only repeats the first one.
  const lines = issues.map((issue) => `${flagOf(issue.path)}: ${issue.message}`);
  const text = withManuals(clean(lines.length === 0 ? withFlags(message) : lines.join("\n")), url);
  if (response.status === 401)
    return new Exit(
      exit.credentials,
      `The service at ${url} refused the credentials. Set SERVICE_SERVER_PASSWORD (and SERVICE_SERVER_USERNAME) to match.`,
    );
  if (code === "model_not_configured" || code === "model_not_found") return new Exit(exit.needsModel, text);
  return new Exit(isValue(response.status, code) ? exit.usage : exit.failed, text);
};

/** Errors with status 422 that are not about a value of the request, but about a page or a package's files. */
const notValues = new Set<string | undefined>(["preview_failed", "preview_not_available", "squad_invalid"]);

/** Whether the refusal is about a value of the request. */
const isValue = (status: number, code: string | undefined): boolean =>
  (status >= 400 && status < 409) || status === 413 || status === 415 || (status === 422 && !notValues.has(code));

/** fetch hides the reason (such as ECONNREFUSED) in the cause of its error "fetch failed". */
const reasonOf = (error: unknown): string => {
  const cause = error instanceof Error ? error.cause : undefined;
  const code = typeof cause === "object" && cause !== null && "code" in cause ? cause.code : undefined;
  return typeof code === "string" ? code : messageOf(cause ?? error);
};
