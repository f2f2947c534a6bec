import { z } from "zod";
import { nothing, type Read } from "./event.ts";

/** Events of GitHub, by the name in `X-GitHub-Event`. */

const time = z.string().transform((text) => Date.parse(text) || 0);
const user = z.object({ login: z.string() });
const words = z
  .string()
  .nullish()
  .transform((text) => text ?? "");
const repository = z.object({ clone_url: z.string() });
const issue = z.object({
  number: z.number().int(),
  title: z.string(),
  body: words,
  user: user.nullable(),
  html_url: z.string(),
  updated_at: time,
  pull_request: z.unknown().optional(),
});
const pull = z.object({ number: z.number().int(), head: z.object({ ref: z.string(), repo: repository.nullable() }) });
const remark = z.object({ body: words, user, html_url: z.string() });

const shapes = {
  issues: z.object({
    action: z.literal("labeled"),
    issue,
    label: z.object({ name: z.string() }),
    sender: user,
    repository,
  }),
  issue_comment: z.object({
    action: z.literal("created"),
    issue,
    comment: remark.extend({ created_at: time }),
    repository,
  }),
  pull_request_review: z.object({
    action: z.literal("submitted"),
    review: remark.extend({ submitted_at: time }),
    pull_request: pull,
    repository,
  }),
  pull_request_review_comment: z.object({
    action: z.literal("created"),
    comment: remark.extend({ created_at: time, path: z.string(), line: z.number().int().nullish() }),
    pull_request: pull,
    repository,
  }),
  pull_request: z.object({
    action: z.literal("closed"),
    pull_request: pull.extend({ updated_at: time }),
    repository,
  }),
  check_suite: z.object({
    action: z.literal("completed"),
    check_suite: z.object({
      head_branch: z.string().nullable(),
      head_sha: z.string(),
      conclusion: z.string().nullable(),
      updated_at: time,
      app: z.object({ name: z.string() }).nullish(),
    }),
    repository: repository.extend({ html_url: z.string() }),
  }),
};

export const readGitHub: Read = (name, body) => {
  switch (name) {
    case "issues": {
      const { data } = shapes.issues.safeParse(body);
      if (data === undefined) break;
      return {
        kind: "labelled",
        repository: data.repository.clone_url,
        at: data.issue.updated_at,
        by: data.sender.login,
        label: data.label.name,
        issue: issueOf(data.issue),
      };
    }
    case "issue_comment": {
      const { data } = shapes.issue_comment.safeParse(body);
      if (data === undefined) break;
      const { comment } = data;
      const said = { by: comment.user.login, text: comment.body };
      const of = { repository: data.repository.clone_url, at: comment.created_at };
      if (data.issue.pull_request === undefined) return { kind: "comment", ...of, ...said, issue: issueOf(data.issue) };
      // Of a pull request this event does not name the branch.
      return "a comment below a pull request: write it as a review";
    }
    case "pull_request_review": {
      const { data } = shapes.pull_request_review.safeParse(body);
      if (data === undefined || data.review.body.trim() === "") break;
      return remarkOf(data.repository, data.pull_request, data.review, data.review.submitted_at, data.review.body);
    }
    case "pull_request_review_comment": {
      const { data } = shapes.pull_request_review_comment.safeParse(body);
      if (data === undefined) break;
      const { path, line, created_at: at } = data.comment;
      const place = line == null ? path : `${path}, line ${line}`;
      return remarkOf(data.repository, data.pull_request, data.comment, at, `On ${place}:\n${data.comment.body}`);
    }
    case "pull_request": {
      const { data } = shapes.pull_request.safeParse(body);
      if (data === undefined) break;
      const { head, updated_at: at } = data.pull_request;
      return { kind: "ended", repository: data.repository.clone_url, at, branch: head.ref };
    }
    case "check_suite": {
      const { data } = shapes.check_suite.safeParse(body);
      if (data?.check_suite.conclusion !== "failure" || data.check_suite.head_branch === null) break;
      const { head_branch: branch, head_sha: commit, app, updated_at: at } = data.check_suite;
      const url = `${data.repository.html_url}/commit/${commit}/checks`;
      return {
        kind: "failed",
        repository: data.repository.clone_url,
        at,
        name: app?.name ?? "checks",
        branch,
        commit,
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
  author: by?.login ?? null,
  url,
});

const remarkOf = (
  own: z.infer<typeof repository>,
  { number, head }: z.infer<typeof pull>,
  { user: by, html_url: url }: z.infer<typeof remark>,
  at: number,
  text: string,
): ReturnType<Read> =>
  head.repo?.clone_url === own.clone_url
    ? {
        kind: "remark",
        review: true,
        repository: own.clone_url,
        at,
        by: by.login,
        text,
        number,
        branch: head.ref,
        url,
      }
    : "a pull request of another repository";
