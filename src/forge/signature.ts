import { createHmac, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { ForgeKind } from "../repository/repository.ts";

/** Shorter secrets are refused: an emptied file would otherwise let everybody in. */
export const shortestSecret = 16;

/**
 * Verifies that the sender of a body knows the secret. undefined: the headers already show that it does not. The body
 * is taken in parts, as they arrive, so that hashing a long one for many secrets does not block. GitHub, Gitea and
 * Forgejo sign it with HMAC-SHA256; GitLab sends the secret itself.
 */
export const signatureOf = (
  kind: ForgeKind,
  headers: IncomingHttpHeaders,
  secret: string,
): { take(part: Uint8Array): void; isRight(): boolean } | undefined => {
  if (secret.length < shortestSecret) return undefined;
  if (kind === "gitlab") {
    const isRight = isEqual(headers["x-gitlab-token"], secret);
    return isRight ? { take() {}, isRight: () => true } : undefined;
  }
  const prefix = kind === "github" ? "sha256=" : "";
  const given =
    kind === "github"
      ? headers["x-hub-signature-256"]
      : (headers["x-gitea-signature"] ?? headers["x-forgejo-signature"]);
  if (typeof given !== "string" || given.length !== prefix.length + 64) return undefined;
  const signature = createHmac("sha256", secret);
  return {
    take: (part) => void signature.update(part),
    isRight: () => isEqual(given, `${prefix}${signature.digest("hex")}`),
  };
};

/** Compares in a time that does not depend on where the texts differ. */
const isEqual = (given: string | string[] | undefined, wanted: string): boolean => {
  if (typeof given !== "string" || wanted === "") return false;
  const key = "sortie";
  const of = (text: string) => createHmac("sha256", key).update(text).digest();
  return timingSafeEqual(of(given), of(wanted));
};

/** The name of an event, from the header that each forge uses for it. */
export const nameOf = (kind: ForgeKind, headers: IncomingHttpHeaders): string =>
  String(
    {
      github: headers["x-github-event"],
      gitea: headers["x-gitea-event"] ?? headers["x-forgejo-event"],
      gitlab: headers["x-gitlab-event"],
    }[kind] ?? "",
  );
