import { z } from "zod";
import { noEffect, type Read } from "./event.ts";

/** Reads events of GitLab, by the name in `X-Gitlab-Event`. */

/** "2026-01-02 03:04:05 UTC", or ISO 8601. */
const time = z
  .string()
  .max(100)
  .transform((text) => Date.parse(text.replace(/ UTC$/, "Z").replace(" ", "T")) || 0);
const project = z.object({ git_http_url: z.string() });
const user = z.object({ id: z.number().optional(), username: z.string() });
const labels = z
  .array(z.object({ title: z.string() }))
  .nullable()
  .transform((all) => all ?? []);
const words = z
  .string()
  .nullish()
  .transform((text) => text ?? "");

const issueChanged = z.object({
  user,
  project,
  object_attributes: z.object({
    iid: z.number().int(),
    title: z.string(),
    description: words,
    url: z.string(),
    author_id: z.number(),
    updated_at: time,
    action: z.string().optional(),
  }),
  labels: labels.optional(),
  changes: z.object({ labels: z.object({ previous: labels, current: labels }).optional() }).optional(),
});
const noted = z.object({
  user,
  project,
  object_attributes: z.object({
    note: z.string(),
    noteable_type: z.string(),
    url: z.string(),
    created_at: time,
    system: z.boolean().optional(),
    action: z.string().optional(),
    type: z.string().nullish(),
    position: z.object({ new_path: z.string().nullish(), new_line: z.number().nullish() }).nullish(),
  }),
  issue: z.object({ iid: z.number().int(), title: z.string(), description: words, author_id: z.number() }).optional(),
  merge_request: z
    .object({
      iid: z.number().int(),
      source_branch: z.string(),
      source_project_id: z.number(),
      target_project_id: z.number(),
    })
    .optional(),
});
const merge = z.object({
  project,
  object_attributes: z.object({ source_branch: z.string(), action: z.string().optional(), updated_at: time }),
});
const pipeline = z.object({
  project: project.extend({ web_url: z.string() }),
  object_attributes: z.object({
    id: z.number(),
    ref: z.string(),
    sha: z.string(),
    status: z.string(),
    finished_at: time.nullish(),
  }),
});

export const readGitLab: Read = (name, body) => {
  switch (name) {
    case "Issue Hook": {
      const { data } = issueChanged.safeParse(body);
      if (data === undefined) break;
      const {
        iid: number,
        title,
        description: text,
        url,
        author_id: by,
        updated_at: at,
        action,
      } = data.object_attributes;
      const before = new Set(data.changes?.labels?.previous.map((each) => each.title));
      const given = action === "open" ? data.labels : data.changes?.labels?.current;
      const came = (given ?? []).map((each) => each.title).filter((each) => !before.has(each));
      if (came.length === 0) return "no label was set";
      // GitLab gives only the numeric id of the author, whose name is known only if the author set the label.
      const author = by === data.user.id ? data.user.username : null;
      const issue = { number, title, text, author, url };
      const { git_http_url: repository } = data.project;
      return { kind: "labelled", repository, at, by: data.user.username, labels: came, issue };
    }
    case "Note Hook": {
      const { data } = noted.safeParse(body);
      if (data === undefined || data.object_attributes.system === true) break;
      const { note, url, created_at: at, action = "create", type, position } = data.object_attributes;
      if (action !== "create") return "an edited comment";
      const said = { repository: data.project.git_http_url, at, by: data.user.username };
      if (data.issue !== undefined) {
        const { iid: number, title, description: text, author_id: by } = data.issue;
        const author = by === data.user.id ? data.user.username : null;
        return { kind: "comment", ...said, text: note, issue: { number, title, text, author, url } };
      }
      if (data.merge_request === undefined) break;
      const { iid: number, source_branch: branch, source_project_id: from, target_project_id: to } = data.merge_request;
      if (from !== to) return "a merge request of another project";
      const place = position?.new_path == null ? "" : `On ${position.new_path}, line ${position.new_line ?? "?"}:\n`;
      return { kind: "remark", review: type === "DiffNote", ...said, text: `${place}${note}`, number, branch, url };
    }
    case "Merge Request Hook": {
      const { data } = merge.safeParse(body);
      if (data === undefined || !/^(merge|close)$/.test(data.object_attributes.action ?? "")) break;
      const { source_branch: branch, updated_at: at } = data.object_attributes;
      return { kind: "ended", repository: data.project.git_http_url, at, branch };
    }
    case "Pipeline Hook": {
      const { data } = pipeline.safeParse(body);
      if (data?.object_attributes.status !== "failed") break;
      const { id, ref: branch, sha: commit, finished_at: at } = data.object_attributes;
      const { git_http_url: repository, web_url: web } = data.project;
      const url = `${web}/-/pipelines/${id}`;
      return { kind: "failed", repository, at: at ?? 0, name: "pipeline", branch, commit, url };
    }
  }
  return noEffect(name);
};
