import { z } from "zod";
import type { ForgeEvent, Issue } from "./event.ts";

/** The parts that events of GitHub and Gitea have in common: Gitea took the shape of its objects from GitHub. */

export const time = z
  .string()
  .max(100)
  .transform((text) => Date.parse(text) || 0);
export const user = z.object({ login: z.string() });
export const words = z
  .string()
  .nullish()
  .transform((text) => text ?? "");
export const repository = z.object({ clone_url: z.string() });

/** `user`: null if the account is gone. */
export const issue = z.object({
  number: z.number().int(),
  title: z.string(),
  body: words,
  user: user.nullable(),
  html_url: z.string(),
  updated_at: time,
  pull_request: z.unknown().optional(),
});

export const pull = z.object({
  number: z.number().int(),
  html_url: z.string(),
  updated_at: time,
  head: z.object({ ref: z.string(), repo: repository.nullish() }),
});

export const comment = z.object({ body: words, user, created_at: time });

/** A pull request was merged or closed. */
export const closed = z.object({ action: z.literal("closed"), pull_request: pull, repository });

export const issueOf = ({ number, title, body, user: by, html_url: url }: z.infer<typeof issue>): Issue => ({
  number,
  title,
  text: body,
  author: by?.login ?? null,
  url,
});

type Said = { review: boolean; at: number; by: string; text: string };

/**
 * A comment on a pull request; a text if the branch is not in the repository itself: a fork may have the same names.
 */
export const remarkOf = (
  { clone_url: own }: z.infer<typeof repository>,
  { number, html_url: url, head }: z.infer<typeof pull>,
  said: Said,
): ForgeEvent | string =>
  head.repo?.clone_url === own
    ? { kind: "remark", repository: own, number, branch: head.ref, url, ...said }
    : "a pull request of another repository";

export const endedOf = ({ pull_request: pull, repository: own }: z.infer<typeof closed>): ForgeEvent => ({
  kind: "ended",
  repository: own.clone_url,
  at: pull.updated_at,
  branch: pull.head.ref,
});
