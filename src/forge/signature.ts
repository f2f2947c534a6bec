import { createHmac, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { ForgeKind } from "../repository/repository.ts";

/** Shorter ones are no secrets: a file that was emptied would let everybody in. */
export const shortestSecret = 16;

/**
 * Whether a body is from who knows the secret; it is given in parts, as they come, so that hashing a long one for many
 * secrets holds nobody up. GitHub, Gitea and Forgejo sign it with HMAC-SHA256; GitLab sends the secret itself.
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

/** In a time that does not tell where they differ. */
const isEqual = (given: string | string[] | undefined, wanted: string): boolean => {
  if (typeof given !== "string" || wanted === "") return false;
  const key = "sortie";
  const of = (text: string) => createHmac("sha256", key).update(text).digest();
  return timingSafeEqual(of(given), of(wanted));
};

/** What happened, by the header that each has for it. */
export const nameOf = (kind: ForgeKind, headers: IncomingHttpHeaders): string =>
  String(
    {
      github: headers["x-github-event"],
      gitea: headers["x-gitea-event"] ?? headers["x-forgejo-event"],
      gitlab: headers["x-gitlab-event"],
    }[kind] ?? "",
  );
