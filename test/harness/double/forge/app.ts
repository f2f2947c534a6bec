import { createPublicKey, generateKeyPairSync, verify } from "node:crypto";
import type { GitHost } from "../git-host.ts";

/**
 * A GitHub App as GitHub keeps it: who signs as the app gets a token for the repositories that it asks for, and is
 * installed in; git's host and the interface take those tokens alone, until they end or are revoked.
 */

export type AppDouble = {
  id: string;
  /** Its private key, in PEM. */
  key: string;
  /** Owners that have installed it. */
  installed: Set<string>;
  /** All that were given. */
  tokens: { token: string; repositories: string[]; until: number; revoked: boolean }[];
  lifetimeMs: number;
  /** What is wrong with the signature of who asks as the app; undefined: nothing. */
  problemOf(authorization: string | undefined): string | undefined;
  give(owner: string, repositories: string[]): { token: string; expires_at: string };
  admits(token: string | undefined, repository: string): boolean;
};

export const createApp = (host: GitHost, id = "4711"): AppDouble => {
  const { privateKey, publicKey } = generateKeyPairSync("rsa", {
    modulusLength: 2048,
    // As GitHub gives it to be downloaded.
    privateKeyEncoding: { type: "pkcs1", format: "pem" },
    publicKeyEncoding: { type: "spki", format: "pem" },
  });
  const app: AppDouble = {
    id,
    key: privateKey,
    installed: new Set(["acme"]),
    tokens: [],
    lifetimeMs: 3_600_000,
    problemOf(authorization) {
      const [, said = "", head = "", claims = "", signature = ""] =
        /^Bearer (([\w-]+)\.([\w-]+))\.([\w-]+)$/.exec(authorization ?? "") ?? [];
      if (said === "") return "A JSON web token could not be decoded";
      const read = (part: string) => JSON.parse(Buffer.from(part, "base64url").toString()) as Record<string, unknown>;
      if (read(head)["alg"] !== "RS256") return "A JSON web token could not be decoded";
      const isOurs = verify(
        "RSA-SHA256",
        Buffer.from(said),
        createPublicKey(publicKey),
        Buffer.from(signature, "base64url"),
      );
      const { iat, exp, iss } = read(claims) as { iat: number; exp: number; iss: string };
      const now = Date.now() / 1000;
      if (!isOurs || iss !== id) return "Integration must generate a public key";
      if (iat > now) return "'Issued at' claim ('iat') must be an Integer representing the time of the assertion";
      if (exp <= now || exp > now + 600) return "'Expiration time' claim ('exp') is too far in the future";
      return undefined;
    },
    give(owner, repositories) {
      const token = `ghs_${Buffer.from(`${owner}-${app.tokens.length}-0123456789abcdef`).toString("hex")}`;
      const until = Date.now() + app.lifetimeMs;
      app.tokens.push({ token, repositories: repositories.map((name) => `${owner}/${name}`), until, revoked: false });
      return { token, expires_at: new Date(until).toISOString() };
    },
    admits: (token, repository) =>
      app.tokens.some(
        (given) =>
          given.token === token &&
          !given.revoked &&
          given.until > Date.now() &&
          given.repositories.includes(repository),
      ),
  };
  host.admits = (password, repository) => app.admits(password, repository);
  return app;
};
