import { inert } from "../domain/task/pull-request.ts";
import type { WebhookMessage } from "../protocol/webhook.ts";
import { ForgeRefused, RepositoryAway, type Repositories } from "../repository/repository.ts";

/**
 * Answers with comments on the issue where a Task was requested. They go through the queue of webhooks, in the commit
 * of the event that they report. They are retried across restarts, and each is posted only once, because the thread is
 * first searched for its mark.
 */

export type ReplyPlace = { repository: string; number: number; on: "issue" };

const scheme = "forge:";

/** The address that takes the place of a callback's URL. */
export const replyAddress = ({ repository, number, on }: ReplyPlace): string =>
  `${scheme}${on}/${number}?${new URLSearchParams({ repository }).toString()}`;

export const replyPlace = (address: string): ReplyPlace | undefined => {
  const [, number, query = ""] = /^forge:issue\/(\d+)\?(.*)$/.exec(address) ?? [];
  const repository = new URLSearchParams(query).get("repository");
  return number === undefined || repository === null ? undefined : { repository, number: Number(number), on: "issue" };
};

export type Said = { status: number | null; reason: string | null; delivered: boolean; retryAfter: string | undefined };

/** `url`: made by `replyAddress`. `isHeld`: whether this process still holds the delivery and may post it. */
export type Reply = { url: string; message: string; body: string; isHeld: () => boolean };

/** `page`: returns the address of the page for events of a repository, for links. */
export const createReplies =
  (deps: { repositories: Pick<Repositories, "place" | "comment">; page: (url: string) => string | undefined }) =>
  async ({ url, message, body, isHeld }: Reply, signal: AbortSignal): Promise<Said> => {
    const to = replyPlace(url);
    const told = JSON.parse(body) as WebhookMessage;
    const text = to && wordsOf(told, deps.page(to.repository));
    if (to === undefined || text === undefined)
      return { status: 204, reason: null, delivered: true, retryAfter: undefined };
    const mark = `<!-- sortie ${message} -->`;
    try {
      const place = deps.repositories.place(to.repository, undefined);
      const since = new Date(Date.parse(told.timestamp) - 3_600_000);
      const comment = { number: to.number, mark, since, text: `${text}\n\n${mark}` };
      await deps.repositories.comment(place, comment, isHeld, signal);
      return { status: 201, reason: null, delivered: true, retryAfter: undefined };
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof ForgeRefused)
        // The forge would answer the same again, unless the token is corrected.
        return { status: error.status || null, reason: error.message, delivered: false, retryAfter: undefined };
      if (!(error instanceof RepositoryAway)) throw error;
      const after = error.retryAfterMs === undefined ? undefined : String(Math.ceil(error.retryAfterMs / 1000));
      return { status: null, reason: error.message, delivered: false, retryAfter: after };
    }
  };

/**
 * The comment's text; undefined: this message needs none. Agents' words are quoted, short, and notify nobody: the page
 * has the full text.
 */
const wordsOf = ({ type, data }: WebhookMessage, page: string | undefined): string | undefined => {
  if (!("taskID" in data)) return undefined;
  const { taskID, summary = "", error } = data;
  const link = page === undefined ? taskID : `[${taskID}](${page.replace(/\/$/, "")}/ui/task/${taskID})`;
  switch (type) {
    case "task.asked":
      return `${link} waits for an answer.`;
    case "task.completed":
      return `Done: ${link}.${said(summary)}`;
    case "task.failed":
      return `Failed: ${link}.${said(error ?? summary)}`;
    case "task.cancelled":
      return `Cancelled: ${link}.`;
    default:
      return undefined;
  }
};

const said = (text: string): string => (text.trim() === "" ? "" : `\n\n${inert(text.trim()).replaceAll(/^/gm, "> ")}`);
