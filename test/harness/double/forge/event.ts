import { createHmac, randomUUID } from "node:crypto";
import type { Kind } from "./double.ts";
import { gitea } from "./event/gitea.ts";
import { github } from "./event/github.ts";
import { gitlab } from "./event/gitlab.ts";

/** Events as forges send them, whole; `event/` says for each after what. */

export const secret = "events-secret-A1b2C3d4E5f6";

export type Sent = { name: string; body: object };

export type Issue = { number?: number; title?: string; text?: string; author?: string };
export type Labelled = Issue & { by?: string; label?: string };
export type Commented = Issue & { by?: string };
export type Reviewed = { branch: string; text: string; by: string };

/** `url`: of the repository, for fetching. */
export type Events = {
  labelled(url: string, of: Labelled): Sent;
  commented(url: string, text: string, of: Commented): Sent;
  reviewed(url: string, of: Reviewed): Sent;
  closed(url: string, branch: string): Sent;
};

const of: Record<Kind, Events> = { github, gitlab, gitea };

export const labelled = (kind: Kind, url: string, more: Labelled = {}): Sent => of[kind].labelled(url, more);

export const commented = (kind: Kind, url: string, text: string, more: Commented = {}): Sent =>
  of[kind].commented(url, text, more);

export const reviewed = (kind: Kind, url: string, branch: string, text: string, by = "ada"): Sent =>
  of[kind].reviewed(url, { branch, text, by });

export const closed = (kind: Kind, url: string, branch: string): Sent => of[kind].closed(url, branch);

export const checksFailed = (kind: Kind, url: string, branch: string, commit: string): Sent =>
  ({ github, gitlab, gitea })[kind].checksFailed(url, branch, commit);

const headersOf = (kind: Kind, name: string, body: string, key: string): Record<string, string> => {
  const signature = createHmac("sha256", key).update(body).digest("hex");
  switch (kind) {
    case "github":
      return {
        "x-github-event": name,
        "x-github-delivery": randomUUID(),
        "x-hub-signature-256": `sha256=${signature}`,
      };
    case "gitea":
      return { "x-gitea-event": name, "x-gitea-delivery": randomUUID(), "x-gitea-signature": signature };
    case "gitlab":
      return { "x-gitlab-event": name, "x-gitlab-token": key };
  }
};

/** Sends an event to the listener, signed with `key`. */
export const deliver = async (port: number, kind: Kind, { name, body }: Sent, key = secret) => {
  const text = JSON.stringify(body);
  const headers = { "content-type": "application/json", ...headersOf(kind, name, text, key) };
  const answer = await fetch(`http://127.0.0.1:${port}/${kind}`, { method: "POST", headers, body: text });
  return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
};
