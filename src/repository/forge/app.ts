import { createPrivateKey, sign } from "node:crypto";
import { z } from "zod";
import { createCall } from "./call.ts";
import type { ForgePlace } from "./forge.ts";
import { ForgeRefused } from "../repository.ts";

/**
 * Gets tokens of a GitHub App: one per repository, which gives access to nothing else, requested with the app's
 * signature and kept until shortly before it expires. In memory only.
 */

export type App = { id: string; key: () => string };

type Wanted = Omit<ForgePlace, "token"> & { app: App; vouched: boolean };

type Kept = { token: string; until: number };

/**
 * Milliseconds before a token expires at which another is requested: longer than a fetch or push should take to begin.
 */
const marginMs = 5 * 60_000;

const installed = z.object({ id: z.number().int() });
const given = z.object({ token: z.string().min(1).regex(/^\S+$/), expires_at: z.string() });

export const createAppTokens = ({
  resolve,
}: {
  resolve: ((host: string) => Promise<readonly string[]>) | undefined;
}) => {
  const kept = new Map<string, Kept>();
  const asked = new Map<string, Promise<string>>();

  const ask = async (key: string, { api, path, app, vouched }: Wanted): Promise<string> => {
    const [owner = "", repo = ""] = path.split("/");
    const call = createCall(api, { vouched, resolve });
    const unending = new AbortController().signal;
    // Loaded on use: most services have no app.
    const { createRequest, unwrapError } = await import("./octokit.ts");
    const request = createRequest(api, signedBy(app), call)(unending);
    const found = await unwrapError(request("GET /repos/{owner}/{repo}/installation", { owner, repo })).catch(
      explained,
    );
    const { id: installation_id } = installed.parse(found.data);
    const only = { installation_id, repositories: [repo] };
    const answer = await unwrapError(request("POST /app/installations/{installation_id}/access_tokens", only)).catch(
      explained,
    );
    const { token, expires_at: end } = given.parse(answer.data);
    // By the forge's clock, which may differ from this machine's.
    const lasts = Date.parse(end) - Date.parse(answer.headers.date ?? new Date().toISOString());
    for (const [name, { until }] of kept) if (until + marginMs < performance.now()) kept.delete(name);
    kept.set(key, { token, until: performance.now() + lasts - marginMs });
    return token;
  };

  return {
    /** The token of a repository, identified by `key`. Callers that ask at the same time share one request. */
    async of(key: string, wanted: Wanted, signal: AbortSignal): Promise<string> {
      const known = kept.get(key);
      if (known !== undefined && known.until > performance.now()) return known.token;
      const asking = asked.get(key) ?? ask(key, wanted).finally(() => asked.delete(key));
      asked.set(key, asking);
      const token = await asking;
      signal.throwIfAborted();
      return token;
    },
    /** Forgets the token if it is the one that is kept. Always true: `of` then gives another one. */
    drop(key: string, token: string): boolean {
      if (kept.get(key)?.token === token) kept.delete(key);
      return true;
    },
    all: (): string[] => [...kept.values()].map(({ token }) => token),
  };
};

const explained = (error: unknown): never => {
  if (!(error instanceof ForgeRefused)) throw error;
  const what =
    error.status === 404
      ? "the app of repositories.credentials is not installed there"
      : error.status === 401
        ? "the app of repositories.credentials is not known by this id and key, or this machine's clock is wrong"
        : "the app of repositories.credentials gets no token";
  throw new ForgeRefused(error.status, `${what} (${error.message})`);
};

/** The app's own signed token, valid for some minutes. The forge's clock may be somewhat behind. */
const signedBy = ({ id, key }: App): string => {
  const now = Math.floor(Date.now() / 1000);
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const said = `${part({ alg: "RS256", typ: "JWT" })}.${part({ iat: now - 60, exp: now + 540, iss: id })}`;
  return `${said}.${sign("RSA-SHA256", Buffer.from(said), createPrivateKey(key())).toString("base64url")}`;
};
