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

/** Reads events of Gitea and Forgejo, by the name in `X-Gitea-Event`. */

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
  comment,
  repository,
  /** Set for a comment below a pull request, if the forge's version sends it. */
  pull_request: pull.nullish(),
});
const reviewed = z.object({
  action: z.literal("reviewed"),
  review: z.object({ content: z.string() }),
  pull_request: pull,
  sender: user,
  repository,
});

/** A run of Gitea's Actions has ended. */
const ran = z.object({
  action: z.literal("completed"),
  workflow_run: z.object({
    head_branch: z.string().nullish(),
    head_sha: z.string(),
    conclusion: z.string().nullish(),
    completed_at: time.nullish(),
    html_url: z.string(),
    display_title: words,
    path: words,
  }),
  repository,
});
/** A run of Forgejo's Actions has failed. `prettyref`: a branch, or a pull request (`#7`). */
const failed = z.object({
  run: z.object({
    prettyref: z.string(),
    commit_sha: z.string(),
    workflow_id: words,
    html_url: z.string(),
    stopped: time.nullish(),
    repository,
  }),
});

export const readGitea: Read = (name, body) => {
  switch (name) {
    case "issues": {
      const { data } = labelled.safeParse(body);
      if (data === undefined) break;
      // Events of versions that do not name the new label are ignored: somebody else may have set it earlier.
      const labels = data.changes?.added_labels?.map((each) => each.name);
      if (labels === undefined)
        return "it does not say which label was set: with this version, only comments create Tasks";
      return {
        kind: "labelled",
        repository: data.repository.clone_url,
        at: data.issue.updated_at,
        by: data.sender.login,
        labels,
        issue: issueOf(data.issue),
      };
    }
    case "issue_comment": {
      const { data } = commented.safeParse(body);
      if (data === undefined) break;
      const { user: by, body: text, created_at: at } = data.comment;
      const said = { at, by: by.login, text };
      if (data.pull_request != null) return remarkOf(data.repository, data.pull_request, { review: false, ...said });
      if (data.issue.pull_request != null) return "a comment below a pull request: write it as a review";
      return { kind: "comment", repository: data.repository.clone_url, ...said, issue: issueOf(data.issue) };
    }
    case "pull_request": {
      const { data } = closed.safeParse(body);
      if (data === undefined) break;
      return endedOf(data);
    }
    case "pull_request_approved":
    case "pull_request_rejected":
    case "pull_request_comment": {
      const { data } = reviewed.safeParse(body);
      if (data === undefined || data.review.content.trim() === "") break;
      const { sender: by, review, pull_request: own } = data;
      const said = { review: true, at: own.updated_at, by: by.login, text: review.content };
      return remarkOf(data.repository, own, said);
    }
    case "workflow_run": {
      const { data } = ran.safeParse(body);
      if (data?.workflow_run.conclusion !== "failure" || data.workflow_run.head_branch == null) break;
      const { head_branch: branch, head_sha: commit, path, display_title: title, html_url: url } = data.workflow_run;
      const at = data.workflow_run.completed_at ?? 0;
      // For example `test.yml@refs/heads/main`.
      const workflow = path.split("@", 1)[0] || title;
      return { kind: "failed", repository: data.repository.clone_url, at, name: workflow, branch, commit, url };
    }
    case "action_run_failure": {
      const { data } = failed.safeParse(body);
      if (data === undefined) break;
      const { prettyref: branch, commit_sha: commit, workflow_id: workflow, html_url: url, stopped: at } = data.run;
      return {
        kind: "failed",
        repository: data.run.repository.clone_url,
        at: at ?? 0,
        name: workflow,
        branch,
        commit,
        url,
      };
    }
  }
  return noEffect(name);
};
