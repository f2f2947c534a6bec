import { readFileSync } from "node:fs";
import type { Events, Issue, Sent } from "../event.ts";

/** GitHub's events: the examples that Octokit publishes, whole, with the values of a test in their places. */

type Body = { [key: string]: unknown };

const published = JSON.parse(
  readFileSync(new URL("../../../../fixtures/forge/github.json", import.meta.url), "utf8"),
) as { events: Record<string, Body> };

/** Puts values in place of those of the example; what the example does not have is a mistake of the test. */
const placed = (example: unknown, values: Body, path: string): Body => {
  const body = { ...(example as Body) };
  for (const [key, value] of Object.entries(values)) {
    if (!(key in body)) throw new Error(`Expected ${path}.${key} in the published example.`);
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    body[key] = isObject ? placed(body[key], value as Body, `${path}.${key}`) : value;
  }
  return body;
};

export const publishedEvent = (name: string): Body => structuredClone(published.events[name] ?? {});

const sent = (name: string, url: string, by: string, values: Body): Sent => {
  const repository = { clone_url: url, html_url: url.replace(/\.git$/, "") };
  const all = { ...values, repository, sender: { login: by } };
  return { name, body: placed(publishedEvent(name), all, name) };
};

const now = () => new Date().toISOString();

const issueOf = ({ number = 7, title = "The footer", text = "", author = "ada" }: Issue) => ({
  number,
  title,
  body: text,
  user: { login: author },
  html_url: `https://forge.example/issues/${number}`,
  updated_at: now(),
});

const headOf = (url: string, ref: string) => ({ ref, repo: { clone_url: url } });

export const github = {
  labelled: (url, { by = "ada", label = "sortie", ...issue }) =>
    sent("issues", url, by, { issue: issueOf(issue), label: { name: label } }),
  commented: (url, text, { by = "ada", ...issue }) =>
    sent("issue_comment", url, by, {
      issue: issueOf(issue),
      comment: { body: text, user: { login: by }, created_at: now() },
    }),
  reviewed: (url, { branch, text, by }) =>
    sent("pull_request_review_comment", url, by, {
      comment: { body: text, user: { login: by }, created_at: now(), path: "a.txt", line: 1 },
      pull_request: { number: 1, head: headOf(url, branch) },
    }),
  closed: (url, branch) =>
    sent("pull_request", url, "ada", { pull_request: { number: 1, updated_at: now(), head: headOf(url, branch) } }),
  checksFailed: (url: string, branch: string, commit: string): Sent =>
    sent("check_suite", url, "ci", {
      check_suite: { head_branch: branch, head_sha: commit, conclusion: "failure", updated_at: now() },
    }),
} satisfies Events & Record<string, unknown>;
