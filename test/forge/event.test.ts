import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { ForgeEvent, Read } from "../../src/forge/event.ts";
import { readGitea } from "../../src/forge/gitea.ts";
import { readGitHub } from "../../src/forge/github.ts";
import { readGitLab } from "../../src/forge/gitlab.ts";
import type { Kind } from "../harness/double/forge/double.ts";
import { checksFailed, closed, commented, labelled, reviewed } from "../harness/double/forge/event.ts";
import { forgejoFailed, talked } from "../harness/double/forge/event/gitea.ts";
import { publishedEvent } from "../harness/double/forge/event/github.ts";

/** What is read of forges' events: of those that are published, and of those that the other tests send. */

const readers: Record<Kind, Read> = { github: readGitHub, gitlab: readGitLab, gitea: readGitea };
const kinds: readonly Kind[] = ["github", "gitlab", "gitea"];

describe("GitHub's published examples", () => {
  const repository = "https://github.com/Codertocat/Hello-World.git";
  const issue = {
    number: 1,
    title: "Spelling error in the README file",
    text: expect.stringContaining("It looks like you accidently spelled"),
    author: "Codertocat",
    url: "https://github.com/Codertocat/Hello-World/issues/1",
  };
  const at = expect.any(Number);
  const branch = "changes";
  const wanted: Record<string, unknown> = {
    issues: { kind: "labelled", repository, at, by: "Codertocat", labels: ["bug"], issue },
    issue_comment: {
      kind: "comment",
      repository,
      at,
      by: "Codertocat",
      text: expect.any(String),
      issue: { ...issue, text: "" },
    },
    // A review without words of its own, and checks that passed.
    pull_request_review: 'nothing follows from "pull_request_review"',
    check_suite: 'nothing follows from "check_suite"',
    pull_request_review_comment: {
      kind: "remark",
      review: true,
      repository,
      at,
      by: "Codertocat",
      text: expect.stringMatching(/^On README\.md, line 265:\n/),
      number: 2,
      branch,
      url: "https://github.com/Codertocat/Hello-World/pull/2",
    },
    pull_request: { kind: "ended", repository, at, branch },
  };

  test.each(Object.keys(wanted))("%s", (name) => {
    expect(readGitHub(name, publishedEvent(name))).toEqual(wanted[name]);
  });

  test("of a review with words, and of checks that failed", () => {
    const review = publishedEvent("pull_request_review");
    Object.assign(review["review"] as object, { body: "No." });
    expect(readGitHub("pull_request_review", review)).toMatchObject({ kind: "remark", text: "No.", branch });
    const suite = publishedEvent("check_suite");
    Object.assign(suite["check_suite"] as object, { conclusion: "failure" });
    expect(readGitHub("check_suite", suite)).toMatchObject({ kind: "failed", repository, name: "octocoders-linter" });
  });
});

describe.each(kinds)("%s", (kind) => {
  const url = "https://forge.example/acme/app.git";
  const read = ({ name, body }: { name: string; body: object }): ForgeEvent | string =>
    readers[kind](name, JSON.parse(JSON.stringify(body)));
  const at = expect.closeTo(Date.now(), -5);

  test("what the doubles send is read whole", () => {
    const issue = {
      number: 7,
      title: "The footer",
      text: "Mend it.",
      author: "ada",
      url: expect.stringContaining("forge.example"),
    };
    expect(read(labelled(kind, url, { text: "Mend it." }))).toEqual({
      kind: "labelled",
      repository: url,
      at,
      by: "ada",
      labels: ["sortie"],
      issue,
    });
    expect(read(commented(kind, url, "@sortie do", { text: "Mend it." }))).toEqual({
      kind: "comment",
      repository: url,
      at,
      by: "ada",
      text: "@sortie do",
      issue,
    });
    expect(read(reviewed(kind, url, "sortie/x", "Shorter."))).toEqual({
      kind: "remark",
      review: true,
      repository: url,
      at,
      by: "ada",
      text: kind === "gitea" ? "Shorter." : "On a.txt, line 1:\nShorter.",
      number: 1,
      branch: "sortie/x",
      url: expect.stringContaining(""),
    });
    expect(read(closed(kind, url, "sortie/x"))).toEqual({ kind: "ended", repository: url, at, branch: "sortie/x" });
  });

  test("the author of an issue is another one than who labels or comments", () => {
    // GitLab gives others by number alone.
    const author = kind === "gitlab" ? null : "eve";
    expect(read(labelled(kind, url, { author: "eve" }))).toMatchObject({ by: "ada", issue: { author } });
    expect(read(commented(kind, url, "x", { author: "eve" }))).toMatchObject({ by: "ada", issue: { author } });
  });
});

test.each(kinds)("%s: failed checks", (kind) => {
  const commit = "3".repeat(40);
  const repository = "https://forge.example/acme/app.git";
  const { name, body } = checksFailed(kind, repository, "sortie/x", commit);
  expect(readers[kind](name, body)).toMatchObject({ kind: "failed", repository, branch: "sortie/x", commit });
});

describe("GitLab", () => {
  const { name, body } = labelled("gitlab", "https://forge.example/acme/app.git", {});
  const changed = (labels: object | undefined) =>
    readGitLab(name, { ...body, changes: labels === undefined ? {} : { labels } });

  test("the first label of an issue comes from none; a label that goes is none that comes", () => {
    const labels = [{ title: "sortie" }];
    expect(changed({ previous: null, current: labels })).toMatchObject({ labels: ["sortie"] });
    expect(changed({ previous: labels, current: null })).toBe("no label was set");
    expect(changed(undefined)).toBe("no label was set");
  });

  test("what is confidential is not read", () => {
    expect(readGitLab("Confidential Issue Hook", body)).toBe('nothing follows from "Confidential Issue Hook"');
  });
});

describe("Gitea", () => {
  const url = "https://forge.example/acme/app.git";

  test("the talk below a pull request is read where its version names the branch", () => {
    const { name, body } = talked(url, "sortie/x", "@sortie shorter");
    expect(readGitea(name, body)).toMatchObject({
      kind: "remark",
      review: false,
      by: "ada",
      text: "@sortie shorter",
      branch: "sortie/x",
    });
    const { pull_request: _, ...older } = body as { pull_request: unknown };
    expect(readGitea(name, older)).toBe("a comment below a pull request: write it as a review");
  });

  test("a run of Actions that failed is read, of Gitea and of Forgejo; one that passed, or has no branch, is not", () => {
    const commit = "3".repeat(40);
    const wanted = { kind: "failed", repository: url, at: expect.closeTo(Date.now(), -5), name: "ci.yml", commit };
    const ran = checksFailed("gitea", url, "sortie/x", commit);
    expect(readGitea(ran.name, ran.body)).toMatchObject({ ...wanted, branch: "sortie/x" });
    const own = forgejoFailed(url, "sortie/x", commit);
    expect(readGitea(own.name, own.body)).toMatchObject({ ...wanted, branch: "sortie/x" });
    const { workflow_run: run } = ran.body as { workflow_run: object };
    for (const more of [{ conclusion: "success" }, { conclusion: null }, { head_branch: null }])
      expect(readGitea(ran.name, { ...ran.body, workflow_run: { ...run, ...more } })).toMatch(/^nothing follows/);
    expect(readGitea(ran.name, { ...ran.body, action: "requested" })).toMatch(/^nothing follows/);
    expect(readGitea("action_run_success", own.body)).toMatch(/^nothing follows/);
  });

  test("a version that does not say which label came is not heard", () => {
    const { name, body } = labelled("gitea", url, {});
    const { changes: _, ...older } = body as { changes: unknown };
    expect(readGitea(name, older)).toContain("it does not say which label was set");
    expect(readGitea(name, { ...body, changes: { added_labels: null } })).toContain("it does not say which");
  });

  /** The objects of the published interface, by the field of an event that has one. */
  const schemas = (
    JSON.parse(readFileSync(new URL("../harness/double/forge/gitea.json", import.meta.url), "utf8")) as {
      schemas: Record<string, Record<string, string>>;
    }
  ).schemas;
  const roots: Record<string, string> = {
    issue: "Issue",
    comment: "Comment",
    pull_request: "PullRequest",
    repository: "Repository",
    sender: "User",
    requested_reviewer: "User",
  };
  const wrongIn = (type: string, value: unknown, path: string): string[] => {
    if (value === null) return [];
    if (type.endsWith("[]"))
      return (value as unknown[]).flatMap((each, index) => wrongIn(type.slice(0, -2), each, `${path}.${index}`));
    const schema = schemas[type];
    if (schema === undefined)
      return /^(string|number|boolean)$/.test(type) && typeof value !== type ? [`${path} is no ${type}`] : [];
    return Object.entries(value as object).flatMap(([key, each]) =>
      schema[key] === undefined ? [`${path}.${key}`] : wrongIn(schema[key], each, `${path}.${key}`),
    );
  };
  const wrong = (body: object): string[] =>
    Object.entries(body).flatMap(([key, value]) => (roots[key] ? wrongIn(roots[key], value, key) : []));

  test("the objects in the doubles' events are those of the published interface", () => {
    const all = [
      labelled("gitea", url, {}),
      commented("gitea", url, "x"),
      reviewed("gitea", url, "sortie/x", "x"),
      closed("gitea", url, "sortie/x"),
      talked(url, "sortie/x", "x"),
      checksFailed("gitea", url, "sortie/x", "3".repeat(40)),
    ];
    expect(all.flatMap(({ body }) => wrong(body))).toEqual([]);
    // Control.
    expect(wrong({ issue: { number: "1", author: "ada" }, sender: { login: 1 } })).toEqual([
      "issue.number is no number",
      "issue.author",
      "sender.login is no string",
    ]);
  });
});
