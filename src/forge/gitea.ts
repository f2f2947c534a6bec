import { z } from "zod";
import { nothing, type Read } from "./event.ts";

/** Events of Gitea and Forgejo, by the name in `X-Gitea-Event`. */

const time = z.string().transform((text) => Date.parse(text) || 0);
const user = z.object({ login: z.string() });
const repository = z.object({ clone_url: z.string() });
const issue = z.object({
  number: z.number().int(),
  title: z.string(),
  body: z.string(),
  user,
  html_url: z.string(),
  updated_at: time,
  pull_request: z.unknown().optional(),
});
const pull = z.object({
  number: z.number().int(),
  html_url: z.string(),
  updated_at: time,
  head: z.object({ ref: z.string(), repo: repository.nullish() }),
});

const labelled = z.object({
  action: z.literal("label_updated"),
  issue,
  sender: user,
  repository,
  changes: z.object({ added_labels: z.array(z.object({ name: z.string() })).nullish() }).nullish(),
});
const commented = z.object({
  action: z.literal("created"),
  issue,
  comment: z.object({ body: z.string(), user, html_url: z.string(), created_at: time }),
  repository,
});
const reviewed = z.object({
  action: z.literal("reviewed"),
  review: z.object({ content: z.string() }),
  pull_request: pull,
  sender: user,
  repository,
});

const closed = z.object({ action: z.literal("closed"), pull_request: pull, repository });

export const readGitea: Read = (name, body) => {
  switch (name) {
    // Under both names, by version.
    case "issues":
    case "issue_label": {
      const { data } = labelled.safeParse(body);
      if (data === undefined) break;
      // Versions that do not say which label came are not heard: somebody else may have set it before.
      const label = data.changes?.added_labels?.map((each) => each.name).join("\n");
      if (label === undefined) return "it does not say which label was set: this version knows comments alone";
      return {
        kind: "labelled",
        repository: data.repository.clone_url,
        at: data.issue.updated_at,
        by: data.sender.login,
        label,
        issue: issueOf(data.issue),
      };
    }
    case "issue_comment": {
      const { data } = commented.safeParse(body);
      if (data === undefined) break;
      if (data.issue.pull_request != null) return "a comment below a pull request: write it as a review";
      const { comment } = data;
      return {
        kind: "comment",
        repository: data.repository.clone_url,
        at: comment.created_at,
        by: comment.user.login,
        text: comment.body,
        issue: issueOf(data.issue),
      };
    }
    case "pull_request": {
      const { data } = closed.safeParse(body);
      if (data === undefined) break;
      const { head, updated_at: at } = data.pull_request;
      return { kind: "ended", repository: data.repository.clone_url, at, branch: head.ref };
    }
    case "pull_request_review_approved":
    case "pull_request_review_rejected":
    case "pull_request_review_comment":
    case "pull_request_approved":
    case "pull_request_rejected":
    case "pull_request_comment": {
      const { data } = reviewed.safeParse(body);
      if (data === undefined || data.review.content.trim() === "") break;
      const { number, html_url: url, updated_at: at, head } = data.pull_request;
      if (head.repo?.clone_url !== data.repository.clone_url) return "a pull request of another repository";
      return {
        kind: "remark",
        review: true,
        repository: data.repository.clone_url,
        at,
        by: data.sender.login,
        text: data.review.content,
        number,
        branch: head.ref,
        url,
      };
    }
  }
  return nothing(name);
};

const issueOf = ({ number, title, body, user: by, html_url: url }: z.infer<typeof issue>) => ({
  number,
  title,
  text: body,
  author: by.login,
  url,
});
