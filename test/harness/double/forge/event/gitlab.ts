import type {
  WebhookIssueEventSchema,
  WebhookIssueNoteEventSchema,
  WebhookLabelSchema,
  WebhookMergeRequestEventSchema,
  WebhookMergeRequestNoteEventSchema,
  WebhookPipelineEventSchema,
  WebhookProjectSchema,
} from "@gitbeaker/core";
import type { Events, Issue, Sent } from "../event.ts";

/**
 * GitLab's events: every field that the types of the kept client name, and of comments on a line those that GitLab's
 * own builder of them adds (`lib/gitlab/hook_data/note_builder.rb`, 18).
 */

/** Numbers of people, by which GitLab knows authors. */
const idOf = (name: string): number => Buffer.from(name).reduce((sum, byte) => (sum * 31 + byte) % 1e9, 7);

const now = () => new Date().toISOString();
/** As it writes the times of comments and pipelines. */
const plainNow = () =>
  now()
    .replace("T", " ")
    .replace(/\.\d+Z$/, " UTC");

const userOf = (username: string) =>
  ({ id: idOf(username), name: username, username, avatar_url: "", email: "[REDACTED]", state: "active" }) as never;

const projectOf = (url: string): WebhookProjectSchema => {
  const web = url.replace(/\.git$/, "");
  const path = new URL(web).pathname.slice(1);
  return {
    id: 3,
    name: "App",
    description: "",
    web_url: web,
    avatar_url: null,
    git_ssh_url: `git@forge.example:${path}.git`,
    git_http_url: url,
    namespace: "Acme",
    visibility_level: 0,
    path_with_namespace: path,
    default_branch: "main",
    homepage: web,
    url: `git@forge.example:${path}.git`,
    ssh_url: `git@forge.example:${path}.git`,
    http_url: url,
  };
};

const repositoryOf = (url: string) => ({ name: "App", url, description: "", homepage: url.replace(/\.git$/, "") });

const labelOf = (title: string): WebhookLabelSchema =>
  ({
    id: idOf(title),
    title,
    color: "#ffffff",
    project_id: 3,
    created_at: now(),
    updated_at: now(),
    template: false,
    description: null,
    type: "ProjectLabel",
    group_id: null,
  }) as never;

const base = (url: string, by: string) => ({
  user: userOf(by),
  project: projectOf(url),
  repository: repositoryOf(url),
});

const issueOf = ({ number = 7, title = "The footer", text = "", author = "ada" }: Issue) => ({
  id: 700 + number,
  iid: number,
  title,
  description: text,
  author_id: idOf(author),
  assignee_ids: [],
  assignee_id: null,
  project_id: 3,
  milestone_id: null,
  state: "opened",
});

const labelled: Events["labelled"] = (url, { by = "ada", label = "sortie", ...issue }): Sent => {
  const labels = [labelOf("bug"), labelOf(label)];
  const body: Omit<WebhookIssueEventSchema, "event_name"> = {
    ...base(url, by),
    object_kind: "issue",
    event_type: "issue",
    object_attributes: {
      ...issueOf(issue),
      assignee_id: null as never,
      created_at: now(),
      updated_at: now(),
      updated_by_id: idOf(by),
      last_edited_at: null,
      last_edited_by_id: null,
      relative_position: 1026,
      state_id: 1,
      confidential: false,
      discussion_locked: null as never,
      due_date: null,
      moved_to_id: null,
      duplicated_to_id: null,
      time_estimate: 0,
      total_time_spent: 0,
      time_change: 0,
      human_total_time_spent: null,
      human_time_estimate: null,
      human_time_change: null,
      weight: null,
      health_status: null as never,
      url: `https://forge.example/issues/${issue.number ?? 7}`,
      action: "update",
      severity: "unknown",
      escalation_status: null as never,
      escalation_policy: null as never,
      labels,
    },
    assignees: [],
    assignee: null,
    labels,
    changes: {
      updated_by_id: { previous: null, current: String(idOf(by)) },
      updated_at: { previous: plainNow(), current: plainNow() },
      labels: { previous: [labelOf("bug")], current: labels },
    },
  };
  return { name: "Issue Hook", body };
};

const noteOf = (by: string, note: string, on: "Issue" | "MergeRequest") => ({
  id: 1241,
  note,
  noteable_type: on,
  discussion_id: "c7cd8d31d9a7f7ee0a2b2d3d9b7f1d2e3c4b5a69",
  author_id: idOf(by),
  created_at: plainNow(),
  updated_at: plainNow(),
  project_id: 3,
  attachment: null,
  line_code: null as never,
  commit_id: null as never,
  noteable_id: 707 as never,
  system: false,
  st_diff: null,
  action: "create",
  url: "https://forge.example/n#note_1241",
});

const noteEvent = { object_kind: "note", event_type: "note", event_name: "note", project_id: 3 } as const;

const commented: Events["commented"] = (url, text, { by = "ada", ...issue }): Sent => {
  const body: WebhookIssueNoteEventSchema = {
    ...noteEvent,
    ...base(url, by),
    object_attributes: noteOf(by, text, "Issue"),
    issue: {
      ...issueOf(issue),
      created_at: plainNow(),
      updated_at: plainNow(),
      position: 0,
      branch_name: null,
      labels: [],
    },
  };
  return { name: "Note Hook", body };
};

const lastCommit = (url: string, id: string) => ({
  id,
  message: "Write two\n",
  title: "Write two",
  timestamp: now(),
  url: `${url}/commit/${id}`,
  author: { name: "Sortie", email: "sortie@forge.example" },
});

const mergeOf = (url: string, branch: string) => ({
  id: 99,
  iid: 1,
  target_branch: "main",
  source_branch: branch,
  source_project_id: 3,
  target_project_id: 3,
  author_id: idOf("sortie"),
  title: "Write two",
  description: "",
  state: "opened",
  work_in_progress: false,
  draft: false,
  source: projectOf(url),
  target: projectOf(url),
  last_commit: lastCommit(url, "1".repeat(40)),
});

const reviewed: Events["reviewed"] = (url, { branch, text, by }): Sent => {
  const at = {
    base_sha: "2".repeat(40),
    start_sha: "2".repeat(40),
    head_sha: "1".repeat(40),
    old_path: "a.txt",
    new_path: "a.txt",
    position_type: "text",
    old_line: null,
    new_line: 1,
    line_range: null,
  };
  const line = { type: "DiffNote", position: at, original_position: at, change_position: null, resolved_at: null };
  const body: WebhookMergeRequestNoteEventSchema = {
    ...noteEvent,
    ...base(url, by),
    object_attributes: { ...noteOf(by, text, "MergeRequest"), ...line },
    merge_request: {
      ...mergeOf(url, branch),
      assignee_id: null as never,
      created_at: plainNow(),
      updated_at: plainNow(),
      milestone_id: null as never,
      merge_status: "can_be_merged",
      position: 0,
      labels: [],
      assignee: null,
      detailed_merge_status: "mergeable",
    },
  };
  return { name: "Note Hook", body };
};

const closed: Events["closed"] = (url, branch): Sent => {
  const body: Pick<WebhookMergeRequestEventSchema, "object_kind" | "event_type" | "user" | "project"> & {
    object_attributes: Partial<WebhookMergeRequestEventSchema["object_attributes"]>;
  } = {
    ...base(url, "ada"),
    object_kind: "merge_request",
    event_type: "merge_request",
    object_attributes: { ...mergeOf(url, branch), state: "merged", action: "merge", updated_at: now() },
  };
  return { name: "Merge Request Hook", body };
};

const checksFailed = (url: string, branch: string, commit: string): Sent => {
  const body: Omit<WebhookPipelineEventSchema, "source_pipeline"> = {
    object_kind: "pipeline",
    user: userOf("ci"),
    project: projectOf(url),
    object_attributes: {
      id: 5,
      iid: 3,
      name: "CI",
      ref: branch,
      tag: false,
      sha: commit,
      before_sha: "0".repeat(40),
      source: "push",
      status: "failed",
      detailed_status: "failed",
      stages: ["test"],
      created_at: plainNow(),
      finished_at: plainNow(),
      duration: 63,
      variables: [],
      url: `${url.replace(/\.git$/, "")}/-/pipelines/5`,
    },
    merge_request: null,
    commit: lastCommit(url, commit),
    builds: [],
  };
  return { name: "Pipeline Hook", body };
};

export const gitlab = { labelled, commented, reviewed, closed, checksFailed };
