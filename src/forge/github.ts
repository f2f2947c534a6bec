import { z } from "zod";
import { noEffect, type Read } from "./event.ts";
import {
  closed,
  comment,
  endedOf,
  issue,
  issueOf,
  pull,
  remarkOf,
  repository,
  time,
  user,
  words,
} from "./github-shape.ts";

/** Reads events of GitHub, by the name in `X-GitHub-Event`. */

const labelled = z.object({
  action: z.literal("labeled"),
  issue,
  label: z.object({ name: z.string() }),
  sender: user,
  repository,
});
const commented = z.object({ action: z.literal("created"), issue, comment, repository });
const reviewed = z.object({
  action: z.literal("submitted"),
  review: z.object({ body: words, user, submitted_at: time }),
  pull_request: pull,
  repository,
});
const remarked = z.object({
  action: z.literal("created"),
  comment: comment.extend({ path: z.string(), line: z.number().int().nullish() }),
  pull_request: pull,
  repository,
});
const checked = z.object({
  action: z.literal("completed"),
  check_suite: z.object({
    head_branch: z.string().nullable(),
    head_sha: z.string(),
    conclusion: z.string().nullable(),
    updated_at: time,
    app: z.object({ name: z.string() }).nullish(),
  }),
  repository: repository.extend({ html_url: z.string() }),
});

export const readGitHub: Read = (name, body) => {
  switch (name) {
    case "issues": {
      const { data } = labelled.safeParse(body);
      if (data === undefined) break;
      return {
        kind: "labelled",
        repository: data.repository.clone_url,
        at: data.issue.updated_at,
        by: data.sender.login,
        labels: [data.label.name],
        issue: issueOf(data.issue),
      };
    }
    case "issue_comment": {
      const { data } = commented.safeParse(body);
      if (data === undefined) break;
      // For a pull request, this event does not name the branch.
      if (data.issue.pull_request != null) return "a comment below a pull request: write it as a review";
      const { user: by, body: text, created_at: at } = data.comment;
      return {
        kind: "comment",
        repository: data.repository.clone_url,
        at,
        by: by.login,
        text,
        issue: issueOf(data.issue),
      };
    }
    case "pull_request_review": {
      const { data } = reviewed.safeParse(body);
      if (data === undefined || data.review.body.trim() === "") break;
      const { user: by, body: text, submitted_at: at } = data.review;
      return remarkOf(data.repository, data.pull_request, { review: true, at, by: by.login, text });
    }
    case "pull_request_review_comment": {
      const { data } = remarked.safeParse(body);
      if (data === undefined) break;
      const { user: by, body: said, path, line, created_at: at } = data.comment;
      const text = `On ${line == null ? path : `${path}, line ${line}`}:\n${said}`;
      return remarkOf(data.repository, data.pull_request, { review: true, at, by: by.login, text });
    }
    case "pull_request": {
      const { data } = closed.safeParse(body);
      if (data === undefined) break;
      return endedOf(data);
    }
    case "check_suite": {
      const { data } = checked.safeParse(body);
      if (data?.check_suite.conclusion !== "failure" || data.check_suite.head_branch === null) break;
      const { head_branch: branch, head_sha: commit, app, updated_at: at } = data.check_suite;
      const { clone_url: own, html_url: web } = data.repository;
      const url = `${web}/commit/${commit}/checks`;
      return { kind: "failed", repository: own, at, name: app?.name ?? "checks", branch, commit, url };
    }
  }
  return noEffect(name);
};
