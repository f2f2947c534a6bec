import { createHmac, randomUUID } from "node:crypto";
import type { Kind } from "./double.ts";

/** Events as forges send them, with the fields of theirs that matter. */

export const secret = "events-secret-A1b2C3d4E5f6";

export type Sent = { name: string; body: object };

/** `url`: of the repository, for fetching. */
const of: Record<Kind, (url: string) => object> = {
  github: (url) => ({ repository: { clone_url: url, html_url: url.replace(/\.git$/, "") } }),
  gitea: (url) => ({ repository: { clone_url: url } }),
  gitlab: (url) => ({ project: { git_http_url: url, web_url: url.replace(/\.git$/, "") } }),
};

const now = () => new Date().toISOString();

type Issue = { number?: number; title?: string; text?: string; author?: string };

/** Numbers of people, by which GitLab knows authors. */
const idOf = (name: string): number => Buffer.from(name).reduce((sum, byte) => (sum * 31 + byte) % 1e9, 7);

const issueOf = ({ number = 7, title = "The footer", text = "", author = "ada" }: Issue) => ({
  number,
  title,
  body: text,
  user: { login: author },
  html_url: `https://forge.example/issues/${number}`,
  updated_at: now(),
});

export const labelled = (
  kind: Kind,
  url: string,
  { by = "ada", label = "sortie", ...issue }: Issue & { by?: string; label?: string } = {},
): Sent => {
  const { number = 7, title = "The footer", text = "", author = "ada" } = issue;
  switch (kind) {
    case "github":
      return {
        name: "issues",
        body: {
          action: "labeled",
          issue: issueOf(issue),
          label: { name: label },
          sender: { login: by },
          ...of.github(url),
        },
      };
    case "gitea":
      return {
        name: "issues",
        body: {
          action: "label_updated",
          issue: issueOf(issue),
          sender: { login: by },
          changes: { added_labels: [{ name: label }] },
          ...of.gitea(url),
        },
      };
    case "gitlab":
      return {
        name: "Issue Hook",
        body: {
          object_kind: "issue",
          user: { id: idOf(by), username: by },
          object_attributes: {
            iid: number,
            title,
            description: text,
            url: `https://forge.example/issues/${number}`,
            author_id: idOf(author),
            updated_at: now(),
            action: "update",
          },
          changes: { labels: { previous: [{ title: "bug" }], current: [{ title: "bug" }, { title: label }] } },
          ...of.gitlab(url),
        },
      };
  }
};

export const commented = (
  kind: Kind,
  url: string,
  said: string,
  { by = "ada", ...issue }: Issue & { by?: string } = {},
): Sent => {
  const { number = 7, title = "The footer", text = "", author = "ada" } = issue;
  if (kind === "gitlab")
    return {
      name: "Note Hook",
      body: {
        object_kind: "note",
        user: { id: idOf(by), username: by },
        object_attributes: { note: said, noteable_type: "Issue", url: "https://forge.example/n", created_at: now() },
        issue: { iid: number, title, description: text, author_id: idOf(author) },
        ...of.gitlab(url),
      },
    };
  const comment = { body: said, user: { login: by }, html_url: "https://forge.example/c", created_at: now() };
  return { name: "issue_comment", body: { action: "created", issue: issueOf(issue), comment, ...of[kind](url) } };
};

export const reviewed = (kind: Kind, url: string, branch: string, said: string, by = "ada"): Sent => {
  const pull = {
    number: 1,
    html_url: "https://forge.example/pulls/1",
    updated_at: now(),
    head: { ref: branch, repo: { clone_url: url } },
  };
  switch (kind) {
    case "github":
      return {
        name: "pull_request_review_comment",
        body: {
          action: "created",
          comment: {
            body: said,
            user: { login: by },
            html_url: "https://forge.example/r",
            created_at: now(),
            path: "a.txt",
            line: 1,
          },
          pull_request: pull,
          ...of.github(url),
        },
      };
    case "gitea":
      return {
        name: "pull_request_review_comment",
        body: {
          action: "reviewed",
          review: { content: said },
          pull_request: pull,
          sender: { login: by },
          ...of.gitea(url),
        },
      };
    case "gitlab":
      return {
        name: "Note Hook",
        body: {
          object_kind: "note",
          user: { id: idOf(by), username: by },
          object_attributes: {
            note: said,
            noteable_type: "MergeRequest",
            type: "DiffNote",
            url: "https://forge.example/n",
            created_at: now(),
            position: { new_path: "a.txt", new_line: 1 },
          },
          merge_request: { iid: 1, source_branch: branch, source_project_id: 3, target_project_id: 3 },
          ...of.gitlab(url),
        },
      };
  }
};

export const closed = (kind: Kind, url: string, branch: string): Sent => {
  const pull = {
    number: 1,
    html_url: "https://forge.example/pulls/1",
    updated_at: now(),
    head: { ref: branch, repo: { clone_url: url } },
  };
  return kind === "gitlab"
    ? {
        name: "Merge Request Hook",
        body: { object_attributes: { source_branch: branch, action: "merge", updated_at: now() }, ...of.gitlab(url) },
      }
    : { name: "pull_request", body: { action: "closed", pull_request: pull, ...of[kind](url) } };
};

export const checksFailed = (kind: "github" | "gitlab", url: string, branch: string, commit: string): Sent =>
  kind === "github"
    ? {
        name: "check_suite",
        body: {
          action: "completed",
          check_suite: {
            head_branch: branch,
            head_sha: commit,
            conclusion: "failure",
            updated_at: now(),
            app: { name: "CI" },
          },
          ...of.github(url),
        },
      }
    : {
        name: "Pipeline Hook",
        body: {
          object_kind: "pipeline",
          object_attributes: { id: 5, ref: branch, sha: commit, status: "failed", finished_at: now() },
          ...of.gitlab(url),
        },
      };

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
