import { createHmac, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { ForgeKind } from "../repository/repository.ts";

/**
 * Whether a body is from who knows the secret. GitHub, Gitea and Forgejo sign it with HMAC-SHA256; GitLab sends the secret
 * itself.
 */
export const isSigned = (kind: ForgeKind, headers: IncomingHttpHeaders, body: Uint8Array, secret: string): boolean => {
  const signature = () => createHmac("sha256", secret).update(body).digest("hex");
  switch (kind) {
    case "github":
      return isEqual(headers["x-hub-signature-256"], `sha256=${signature()}`);
    case "gitea":
      return isEqual(headers["x-gitea-signature"] ?? headers["x-forgejo-signature"], signature());
    case "gitlab":
      return isEqual(headers["x-gitlab-token"], secret);
  }
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
