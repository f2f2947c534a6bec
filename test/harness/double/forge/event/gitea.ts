import type { Events, Issue, Sent } from "../event.ts";

/**
 * Gitea's and Forgejo's events (`modules/structs/hook.go`, `services/webhook/notifier.go`, 1.24): the objects in them
 * are those of the published interface, which `gitea.json` has and a test holds them against.
 */

const now = () => new Date().toISOString();

const userOf = (login: string) => ({
  id: login.length,
  login,
  login_name: "",
  source_id: 0,
  full_name: "",
  email: `${login}@noreply.forge.example`,
  avatar_url: "https://forge.example/avatars/1",
  html_url: `https://forge.example/${login}`,
  language: "",
  is_admin: false,
  last_login: "0001-01-01T00:00:00Z",
  created: "2026-01-01T00:00:00Z",
  restricted: false,
  active: false,
  prohibit_login: false,
  location: "",
  website: "",
  description: "",
  visibility: "public",
  followers_count: 0,
  following_count: 0,
  starred_repos_count: 0,
});

const repositoryOf = (url: string) => {
  const web = url.replace(/\.git$/, "");
  const [owner = "", name = ""] = new URL(web).pathname.slice(1).split("/");
  return {
    id: 3,
    owner: userOf(owner),
    name,
    full_name: `${owner}/${name}`,
    description: "",
    empty: false,
    private: true,
    fork: false,
    template: false,
    mirror: false,
    size: 24,
    language: "",
    languages_url: `https://forge.example/api/v1/repos/${owner}/${name}/languages`,
    html_url: web,
    url: `https://forge.example/api/v1/repos/${owner}/${name}`,
    link: "",
    ssh_url: `git@forge.example:${owner}/${name}.git`,
    clone_url: url,
    original_url: "",
    default_branch: "main",
    archived: false,
    has_issues: true,
    has_pull_requests: true,
  };
};

const labelOf = (name: string) => ({
  id: name.length,
  name,
  exclusive: false,
  is_archived: false,
  color: "ee0701",
  description: "",
  url: "https://forge.example/api/v1/repos/acme/app/labels/1",
});

const issueOf = ({ number = 7, title = "The footer", text = "", author = "ada" }: Issue) => ({
  id: 700 + number,
  url: `https://forge.example/api/v1/issues/${number}`,
  html_url: `https://forge.example/issues/${number}`,
  number,
  user: userOf(author),
  original_author: "",
  original_author_id: 0,
  title,
  body: text,
  ref: "",
  assets: [],
  labels: [],
  milestone: null,
  assignee: null,
  assignees: null,
  state: "open",
  is_locked: false,
  comments: 0,
  created_at: "2026-01-01T00:00:00Z",
  updated_at: now(),
  closed_at: null,
  due_date: null,
  pull_request: null,
  repository: { id: 3, name: "app", owner: "acme", full_name: "acme/app" },
  pin_order: 0,
});

const pullOf = (url: string, branch: string) => {
  const side = (ref: string) => ({ label: ref, ref, sha: "1".repeat(40), repo_id: 3, repo: repositoryOf(url) });
  return {
    id: 99,
    url: "https://forge.example/pulls/1",
    number: 1,
    user: userOf("sortie"),
    title: "Write two",
    body: "",
    labels: [],
    milestone: null,
    assignee: null,
    assignees: null,
    requested_reviewers: null,
    state: "open",
    draft: false,
    is_locked: false,
    comments: 0,
    html_url: "https://forge.example/pulls/1",
    diff_url: "https://forge.example/pulls/1.diff",
    patch_url: "https://forge.example/pulls/1.patch",
    mergeable: true,
    merged: false,
    merged_at: null,
    merge_commit_sha: null,
    merged_by: null,
    allow_maintainer_edit: false,
    base: side("main"),
    head: side(branch),
    merge_base: "2".repeat(40),
    due_date: null,
    created_at: "2026-01-01T00:00:00Z",
    updated_at: now(),
    closed_at: null,
    pin_order: 0,
  };
};

const commentOf = (text: string, by: string, on: "issue" | "pull") => ({
  id: 1241,
  html_url: "https://forge.example/issues/7#issuecomment-1241",
  pull_request_url: on === "pull" ? "https://forge.example/pulls/1" : "",
  issue_url: on === "issue" ? "https://forge.example/issues/7" : "",
  user: userOf(by),
  original_author: "",
  original_author_id: 0,
  body: text,
  assets: [],
  created_at: now(),
  updated_at: now(),
});

/** A comment in the talk below a pull request: `pull_request` came with 1.23. */
export const talked = (url: string, branch: string, text: string, by = "ada"): Sent => {
  const pull = { draft: false, merged: false, merged_at: null, html_url: "https://forge.example/pulls/1" };
  const body = {
    action: "created",
    issue: { ...issueOf({ number: 1 }), pull_request: pull },
    pull_request: pullOf(url, branch),
    comment: commentOf(text, by, "pull"),
    repository: repositoryOf(url),
    sender: userOf(by),
    is_pull: true,
  };
  return { name: "issue_comment", body };
};

export const gitea = {
  labelled: (url, { by = "ada", label = "sortie", ...issue }) => ({
    name: "issues",
    body: {
      action: "label_updated",
      number: issue.number ?? 7,
      changes: { added_labels: [labelOf(label)], removed_labels: [] },
      issue: { ...issueOf(issue), labels: [labelOf("bug"), labelOf(label)] },
      repository: repositoryOf(url),
      sender: userOf(by),
      commit_id: "",
    },
  }),
  commented: (url, text, { by = "ada", ...issue }) => ({
    name: "issue_comment",
    body: {
      action: "created",
      issue: issueOf(issue),
      comment: commentOf(text, by, "issue"),
      repository: repositoryOf(url),
      sender: userOf(by),
      is_pull: false,
    },
  }),
  reviewed: (url, { branch, text, by }) => ({
    name: "pull_request_comment",
    body: {
      action: "reviewed",
      number: 1,
      pull_request: pullOf(url, branch),
      requested_reviewer: userOf(by),
      repository: repositoryOf(url),
      sender: userOf(by),
      commit_id: "",
      review: { type: "pull_request_review_comment", content: text },
    },
  }),
  closed: (url, branch) => ({
    name: "pull_request",
    body: {
      action: "closed",
      number: 1,
      pull_request: { ...pullOf(url, branch), state: "closed" },
      requested_reviewer: null,
      repository: repositoryOf(url),
      sender: userOf("ada"),
      commit_id: "",
      review: null,
    },
  }),
  /** Gitea 1.25; `modules/structs/hook.go`, `WorkflowRunPayload`. */
  checksFailed: (url: string, branch: string, commit: string): Sent => ({
    name: "workflow_run",
    body: {
      action: "completed",
      workflow: { id: "ci.yml", name: "CI", path: ".gitea/workflows/ci.yml", state: "active" },
      workflow_run: {
        id: 12,
        url: "https://forge.example/api/v1/repos/acme/app/actions/runs/12",
        html_url: "https://forge.example/acme/app/actions/runs/4",
        display_title: "Write two",
        path: `ci.yml@refs/heads/${branch}`,
        event: "push",
        run_attempt: 1,
        run_number: 4,
        repository_id: 3,
        head_sha: commit,
        head_branch: branch,
        status: "completed",
        conclusion: "failure",
        started_at: now(),
        completed_at: now(),
      },
      repository: repositoryOf(url),
      sender: userOf("ada"),
    },
  }),
} satisfies Events & Record<string, unknown>;

/** Forgejo 12; `modules/structs/action.go`, `ActionRun` within `ActionPayload`. */
export const forgejoFailed = (url: string, branch: string, commit: string): Sent => ({
  name: "action_run_failure",
  body: {
    action: "failure",
    prior_status: "running",
    run: {
      id: 12,
      title: "Write two",
      repository: repositoryOf(url),
      workflow_id: "ci.yml",
      index_in_repo: 4,
      trigger_user: userOf("ada"),
      prettyref: branch,
      is_ref_deleted: false,
      commit_sha: commit,
      event: "push",
      trigger_event: "push",
      status: "failure",
      started: now(),
      stopped: now(),
      html_url: "https://forge.example/acme/app/actions/runs/4",
    },
  },
});
