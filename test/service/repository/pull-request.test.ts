import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import type { Kind } from "../../harness/double/forge/double.ts";
import { canServe, startGitHost } from "../../harness/double/git-host.ts";
import { logOf, send, settledTask, shell } from "../../harness/double/hostile-text.ts";
import { type ForgeLab, openForgeLab } from "../../harness/forge-lab.ts";

/** Pull requests of what Tasks push: a real service, git's own server, and forges that keep state on the same port. */

describe.runIf(canServe)("a result as a pull request", { timeout: 60_000 }, () => {
  let scope = new AsyncDisposableStack();
  afterEach(async () => {
    await scope.disposeAsync();
    scope = new AsyncDisposableStack();
  });

  const open = (kind: Kind, more: object = {}, named = true): Promise<ForgeLab> =>
    openForgeLab(scope, kind, more, named);
  const post = async ({ service }: ForgeLab, body: object) =>
    send(service.url, "/task", { method: "POST", body: { productPillar: "code", ...body } });
  const create = async (place: ForgeLab, body: object): Promise<string> => {
    const answer = await post(place, { ...body, repository: { url: place.url } });
    expect(answer.status, JSON.stringify(answer.body)).toBe(202);
    return String(answer.body["taskID"]);
  };
  const say = async ({ service }: ForgeLab, taskID: string, text: string) => {
    const answer = await send(service.url, `/task/${taskID}/message`, { method: "POST", body: { source: "t", text } });
    expect(answer.status, JSON.stringify(answer.body)).toBe(202);
    return settledTask(service.url, taskID);
  };
  const twice = [
    shell("echo two > b.txt"),
    { text: "I wrote b.txt. Ask @ada.\n/merge\n\nCommit: Add the second file\n\nIt was missing." },
    shell("echo three > c.txt"),
    { text: "Now c.txt, too.\n\nCommit: Add two files" },
  ];

  test.each(["github", "gitea", "gitlab"] as const)(
    "%s: opened, then brought up to date by a follow-up",
    async (kind) => {
      const place = await open(kind);
      const { lab, host, forge, service, url } = place;
      const taskID = await create(place, { ...lab.request(twice), checks: ["test -f b.txt"] });
      const settled = await settledTask(service.url, taskID);
      const branch = `sortie/${taskID}`;
      expect(forge.violations).toEqual([]);
      expect(settled, JSON.stringify(settled.errorInfo)).toMatchObject({
        lifecycleStatus: "completed",
        landing: "pull-request",
        landingBranch: branch,
        pullRequest: { number: 1, state: "open", url: `http://127.0.0.1:${host.port}/acme/app/pulls/1` },
      });
      expect(forge.pulls).toMatchObject([
        { number: 1, repo: "acme/app", branch, base: "main", state: "open", title: "Add the second file" },
      ]);
      const { body } = forge.pulls[0] ?? { body: "" };
      expect(body).toContain("I wrote b.txt.");
      expect(body).toContain("| `test -f b.txt` | passed");
      expect(body).toContain(`Task: ${taskID}`);
      // Nobody is called, and nothing ordered, by what an agent writes.
      expect(body).not.toMatch(/@ada|^\/merge/m);
      const types = (await logOf(service.url, taskID)).map(({ type }) => type);
      expect(types.filter((type) => type === "landing.proposed")).toHaveLength(1);
      expect(types.indexOf("landing.proposed")).toBeGreaterThan(types.indexOf("landing.finished"));
      const detail = await send(service.url, `/task/${taskID}`);
      expect(detail.body).toMatchObject({ pullRequest: { number: 1 } });
      const list = await send(service.url, `/tasks?repository=${encodeURIComponent(url)}`);
      expect(list.body).toMatchObject([{ taskID, pullRequest: { number: 1, state: "open" } }]);

      expect(await say(place, taskID, "and c.txt")).toMatchObject({
        lifecycleStatus: "completed",
        pullRequest: { number: 1, state: "open" },
      });
      expect(forge.pulls).toMatchObject([{ number: 1, title: "Add two files" }]);
      expect(forge.pulls[0]?.body).toContain("Now c.txt, too.");
      expect(host.git("acme/app", "show", `${branch}:c.txt`)).toBe("three");
      expect(forge.calls.filter((name) => name === "open")).toHaveLength(1);
      expect(forge.violations).toEqual([]);
    },
  );

  test.each([
    ["github", "Add the second file", "Add two files"],
    ["gitea", "WIP: Add the second file", "Add two files"],
    ["gitlab", "Draft: Add the second file", "Add two files"],
  ] as const)("%s: a draft with labels; a follow-up keeps what people made of both", async (kind, title, later) => {
    const place = await open(kind, {
      pullRequest: { labels: ["bot", "from sortie"], draft: true, page: "https://sortie.example/" },
    });
    const { forge } = place;
    const taskID = await create(place, place.lab.request(twice));
    await settledTask(place.service.url, taskID);
    const draft = kind === "github";
    expect(forge.pulls).toMatchObject([{ title, draft, labels: ["bot", "from sortie"], state: "open" }]);
    const own = `https://sortie.example/ui/task/${taskID}`;
    expect(forge.pulls[0]?.body).toContain(`Task: [${taskID}](${own}), [checks and evidence](${own}?tab=checks)`);
    const [pull] = forge.pulls;
    if (pull === undefined) throw new Error("Expected a pull request.");
    Object.assign(pull, { title: "Add the second file", draft: false, labels: ["bot"] });
    expect(await say(place, taskID, "and c.txt")).toMatchObject({ pullRequest: { number: 1, state: "open" } });
    expect(forge.pulls).toMatchObject([{ title: later, draft: false, labels: ["bot"] }]);
    expect(forge.violations).toEqual([]);
  });

  test("labels that the forge refuses: the pull request is there without them", async () => {
    const place = await open("gitea", { pullRequest: { labels: ["none"] } });
    place.forge.troubles.push({ on: "label", status: 422, body: { message: "no such label" } });
    const taskID = await create(place, place.lab.request(twice));
    expect(await settledTask(place.service.url, taskID)).toMatchObject({
      lifecycleStatus: "completed",
      pullRequest: { number: 1 },
    });
    expect(place.forge.pulls).toMatchObject([{ labels: [] }]);
  });

  const once = [shell("echo two > b.txt"), { text: "Done.\n\nCommit: Add a file" }];
  const run = async (place: ForgeLab, turns = once) => {
    const taskID = await create(place, place.lab.request(turns));
    return { taskID, settled: await settledTask(place.service.url, taskID) };
  };

  test.each([
    ["github", { on: "open", status: 503 }],
    ["gitea", { on: "find", status: 502 }],
    ["gitea", { on: "branch", status: 502 }],
    ["gitlab", { on: "open", status: 429, headers: { "retry-after": "2" } }],
    ["github", { on: "open", status: 403, headers: { "retry-after": "2" } }],
    // It was opened, and nobody heard of it.
    ["github", { on: "open", after: true }],
    ["gitea", { on: "open", after: true, status: 500 }],
    ["gitlab", { on: "open", after: true }],
  ] as const)("%s: is waited for after %j, and opens one", async (kind, trouble) => {
    const place = await open(kind);
    place.forge.troubles.push({ ...trouble });
    const started = Date.now();
    const { taskID, settled } = await run(place);
    expect(settled, JSON.stringify(settled.errorInfo)).toMatchObject({
      lifecycleStatus: "completed",
      pullRequest: { number: 1 },
    });
    expect(place.forge.pulls).toHaveLength(1);
    const used = place.forge.troubles.length === 0;
    // Only a branch that has a closed one makes it look through the open ones.
    expect(used).toBe(trouble.on !== "find" || kind !== "gitea");
    if (used) expect((await logOf(place.service.url, taskID)).map(({ type }) => type)).toContain("run.paused");
    if ("headers" in trouble) expect(Date.now() - started).toBeGreaterThan(2000);
  });

  test.each(["github", "gitea", "gitlab"] as const)(
    "%s: one that somebody opened for the branch a moment before is taken",
    async (kind) => {
      const place = await open(kind);
      const { forge } = place;
      const none = kind === "gitea" ? { on: "branch", status: 404 } : { on: "find", status: 200, body: [] };
      forge.troubles.push({
        ...none,
        run: () => {
          const branch = place.host.git("acme/app", "for-each-ref", "--format=%(refname:short)", "refs/heads/sortie");
          const named = { number: 1, repo: "acme/app", branch, base: "main", title: "x", body: "y" };
          forge.pulls.push({ ...named, state: "open", draft: false, labels: [] });
        },
      });
      const { settled } = await run(place);
      expect(settled, JSON.stringify(settled.errorInfo)).toMatchObject({ pullRequest: { number: 1, state: "open" } });
      expect(forge.pulls).toMatchObject([{ title: "Add a file" }]);
      expect(forge.calls).toContain("open");
    },
  );

  test.each([
    ["github", { on: "open", status: 401, body: { message: "Bad credentials" } }, /refused the token.*Bad credentials/],
    [
      "github",
      { on: "open", status: 422, body: { message: "Validation Failed", errors: [{ message: "No commits between" }] } },
      /No commits between/,
    ],
    ["gitlab", { on: "open", status: 403, body: { message: "403 Forbidden" } }, /403 Forbidden/],
    ["gitea", { on: "open", status: 200, body: { number: 1, html_url: "javascript:alert(1)" } }, /not a pull request/],
    ["github", { on: "open", status: 200, body: { x: "x".repeat(5_000_000) } }, /longer than/],
  ] as const)("%s refuses: the Task fails with its words, and a message opens it", async (kind, trouble, words) => {
    const place = await open(kind);
    place.forge.troubles.push({ ...trouble });
    const { taskID, settled } = await run(place, twice);
    expect(settled).toMatchObject({
      lifecycleStatus: "failed",
      pullRequest: null,
      errorInfo: { code: "landing_refused", retryable: true },
    });
    expect(settled.error).toMatch(words);
    expect(place.host.git("acme/app", "show", `sortie/${taskID}:b.txt`)).toBe("two");
    const again = await say(place, taskID, "again");
    expect(again, JSON.stringify(again.errorInfo)).toMatchObject({
      lifecycleStatus: "completed",
      pullRequest: { number: 1 },
    });
    expect(place.forge.pulls).toMatchObject([{ branch: `sortie/${taskID}` }]);
  });

  test("a limit that lasts longer than a Task waits is said at once", async () => {
    const place = await open("github");
    place.forge.troubles.push({ on: "find", status: 403, headers: { "retry-after": "3600" } });
    const { settled } = await run(place);
    expect(settled).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "repository_unavailable" } });
    expect(settled.error).toContain("is limiting requests");
  });

  test("a redirect is not followed, and the token goes nowhere else", async () => {
    const place = await open("github");
    const other = scope.use(await startGitHost(join(place.lab.root, "other")));
    const location = `http://127.0.0.1:${other.port}/api/v3/repos/acme/app/pulls`;
    place.forge.troubles.push({ on: "find", status: 302, headers: { location } });
    const { settled } = await run(place);
    expect(settled.error).toContain("redirect");
    expect(other.requests).toEqual([]);
  });

  test("without a forge the branch is what is pushed, and asking for more is refused with words", async () => {
    const place = await open("gitea", {}, false);
    const { lab, url } = place;
    const asked = await post(place, { ...lab.request(once), repository: { url }, landing: "pull-request" });
    expect(asked).toMatchObject({ status: 400, body: { code: "invalid_request" } });
    expect(JSON.stringify(asked.body)).toContain("which forge 127.0.0.1 is");
    const usual = await post(place, { ...lab.request(once), repository: { url } });
    expect(usual).toMatchObject({ status: 202, body: { landing: "branch" } });
    expect(place.forge.calls).toEqual([]);
  });

  test("what the operator leaves out is refused, though there is a forge", async () => {
    const place = await open("gitea", { landing: ["commit", "branch"] });
    const { lab, url } = place;
    const asked = await post(place, { ...lab.request(once), repository: { url }, landing: "pull-request" });
    expect(asked.status).toBe(400);
    expect(await post(place, { ...lab.request(once), repository: { url } })).toMatchObject({
      body: { landing: "branch" },
    });
  });

  test.each(["github", "gitea", "gitlab"] as const)(
    "%s: once it is merged, its branch goes and a follow-up is a pull request of its own, on what was merged",
    async (kind) => {
      const place = await open(kind);
      const { host, forge } = place;
      const { taskID } = await run(place, twice);
      forge.merge(1);
      const merged = host.git("acme/app", "rev-parse", "main");
      const again = await say(place, taskID, "and c.txt");
      expect(again, JSON.stringify(again.errorInfo)).toMatchObject({
        lifecycleStatus: "completed",
        pullRequest: { number: 2, state: "open" },
      });
      expect(forge.pulls).toMatchObject([
        { number: 1, state: "merged" },
        { number: 2, title: "Add two files" },
      ]);
      const branch = `sortie/${taskID}`;
      expect(host.git("acme/app", "rev-parse", `${branch}^`)).toBe(merged);
      expect(host.git("acme/app", "diff", "--name-only", `main..${branch}`)).toBe("c.txt");
      expect(forge.violations).toEqual([]);
      const seen = (await logOf(place.service.url, taskID)).flatMap((frame) =>
        frame.type === "landing.proposed" ? [[frame.data.number, frame.data.state]] : [],
      );
      expect(seen).toEqual([
        [1, "open"],
        [1, "merged"],
        [2, "open"],
      ]);
    },
  );

  test("a branch on which somebody went on is left alone when it is merged", async () => {
    const place = await open("github");
    const { host, forge } = place;
    const { taskID } = await run(place, twice);
    const theirs = host.commit("acme/app", `sortie/${taskID}`, { "theirs.txt": "x\n" });
    forge.merge(1);
    const again = await say(place, taskID, "and c.txt");
    expect(again, JSON.stringify(again.errorInfo)).toMatchObject({ landingBranch: `sortie/${taskID}-2` });
    expect(host.git("acme/app", "rev-parse", `sortie/${taskID}`)).toBe(theirs);
    expect(forge.pulls).toMatchObject([{ state: "merged" }, { branch: `sortie/${taskID}-2`, state: "open" }]);
  });

  test("one that was closed stays closed: the follow-up opens another of the same branch", async () => {
    const place = await open("gitea");
    const { taskID } = await run(place, twice);
    const [first] = place.forge.pulls;
    if (first !== undefined) first.state = "closed";
    expect(await say(place, taskID, "and c.txt")).toMatchObject({ pullRequest: { number: 2, state: "open" } });
    expect(place.forge.pulls).toMatchObject([{ state: "closed" }, { branch: `sortie/${taskID}`, state: "open" }]);
  });
});
