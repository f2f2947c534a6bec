import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import type { Kind } from "../../harness/double/forge/double.ts";
import { canServe, token } from "../../harness/double/git-host.ts";
import { logOf, post, refsOf, send, settledTask, shell } from "../../harness/double/hostile-text.ts";
import { type ForgeLab, openForgeLab } from "../../harness/forge-lab.ts";
import { git, makeProject, writeFiles } from "../../harness/project.ts";

/** Tasks of a directory, a clone with a remote, whose result is a pull request there. */

describe.runIf(canServe)("a clone's result as a pull request", { timeout: 60_000 }, () => {
  let scope = new AsyncDisposableStack();
  afterEach(async () => {
    await scope.disposeAsync();
    scope = new AsyncDisposableStack();
  });

  /** Somebody's clone of `acme/app`, with a remote as its person wrote it. */
  const openClone = async (kind: Kind = "gitea", more: object = {}, named = true) => {
    const place = await openForgeLab(scope, kind, more, named);
    const clone = place.lab.folder("clone");
    git(place.lab.root, "clone", "-q", join(place.lab.root, "host/acme/app.git"), clone);
    git(clone, "remote", "set-url", "origin", place.url);
    return { ...place, clone };
  };
  type Place = ForgeLab & { clone: string };
  const once = [shell("echo two > b.txt"), { text: "Done.\n\nCommit: Add a file" }];
  const ask = ({ service, clone, lab }: Place, turns: Parameters<typeof lab.request>[0] = once, more: object = {}) =>
    post(service.url, "/task", clone, {
      productPillar: "code",
      landing: "pull-request",
      ...lab.request(turns),
      ...more,
    });
  const run = async (place: Place, turns = once) => {
    const made = await ask(place, turns);
    expect(made, JSON.stringify(made.body)).toMatchObject({ status: 202, body: { landing: "pull-request" } });
    const taskID = String(made.body["taskID"]);
    return { taskID, settled: await settledTask(place.service.url, taskID) };
  };
  const say = async (place: Place, taskID: string, text = "again") => {
    const body = { source: "t", text };
    const answer = await post(place.service.url, `/task/${taskID}/message`, place.clone, body);
    expect(answer.status, JSON.stringify(answer.body)).toBe(202);
    return settledTask(place.service.url, taskID);
  };
  /** What its person has: files, index, branches and settings. */
  const own = (clone: string) => ({
    refs: refsOf(clone),
    status: git(clone, "status", "--porcelain=v2", "--branch"),
    config: readFileSync(join(clone, ".git/config"), "utf8"),
    file: readFileSync(join(clone, "a.txt"), "utf8"),
  });

  test("made from what the remote has; a follow-up updates it; after the merge one of its own", async () => {
    const place = await openClone("github");
    const { clone, host, forge } = place;
    // The clone is behind, and its person has something open.
    const theirs = host.commit("acme/app", "main", { "theirs.txt": "theirs\n" });
    writeFiles(clone, { "a.txt": "mine\n", "open.txt": "mine\n" });
    const before = own(clone);
    const { taskID, settled } = await run(place, [
      shell("cat a.txt theirs.txt > seen.txt; ls > b.txt"),
      { text: "Done.\n\nCommit: Add what is there" },
      shell("echo three > c.txt"),
      { text: "Now c.txt, too.\n\nCommit: Add more" },
      shell("cat seen.txt c.txt > d.txt"),
      { text: "And d.txt.\n\nCommit: Add the rest" },
    ]);
    const branch = `sortie/${taskID}`;
    expect(settled, JSON.stringify(settled.errorInfo)).toMatchObject({
      lifecycleStatus: "completed",
      landing: "pull-request",
      directory: clone,
      repository: null,
      pullRequest: { number: 1, state: "open" },
    });
    expect(forge.pulls).toMatchObject([{ branch, base: "main", title: "Add what is there" }]);
    expect(host.git("acme/app", "rev-parse", `${branch}^`)).toBe(theirs);
    expect(host.git("acme/app", "show", `${branch}:seen.txt`)).toBe("one\ntheirs");
    expect(host.git("acme/app", "ls-tree", "--name-only", branch)).not.toContain("open.txt");
    expect(own(clone)).toEqual(before);

    expect(await say(place, taskID)).toMatchObject({ pullRequest: { number: 1, state: "open" } });
    expect(host.git("acme/app", "rev-parse", `${branch}^`)).toBe(theirs);
    expect(host.git("acme/app", "show", `${branch}:c.txt`)).toBe("three");

    forge.merge(1);
    const merged = host.git("acme/app", "rev-parse", "main");
    const after = await say(place, taskID);
    expect(after, JSON.stringify(after.errorInfo)).toMatchObject({ pullRequest: { number: 2, state: "open" } });
    expect(host.git("acme/app", "rev-parse", `${branch}^`)).toBe(merged);
    expect(host.git("acme/app", "diff", "--name-only", `main..${branch}`)).toBe("d.txt");
    expect(own(clone)).toEqual(before);
    expect(forge.violations).toEqual([]);
  });

  test("nothing that the clone names runs or leads elsewhere, and the token is nowhere in it", async () => {
    const place = await openClone();
    const { clone, lab, forge } = place;
    const ran = join(lab.root, "ran");
    const program = join(lab.root, "program.sh");
    writeFiles(lab.root, { "program.sh": `#!/bin/sh\ncat >> ${ran}; echo "$0 $*" >> ${ran}\n` });
    chmodSync(program, 0o755);
    for (const hook of ["pre-push", "reference-transaction", "post-checkout"]) {
      writeFiles(clone, { [`.git/hooks/${hook}`]: `#!/bin/sh\necho ${hook} >> ${ran}\n` });
      chmodSync(join(clone, ".git/hooks", hook), 0o755);
    }
    for (const [key, value] of [
      ["url.http://127.0.0.1:9/.insteadOf", place.url.replace(/acme.*/, "")],
      ["remote.origin.pushurl", "http://127.0.0.1:9/x.git"],
      ["remote.origin.uploadpack", program],
      ["remote.origin.receivepack", program],
      ["credential.helper", program],
      ["http.proxy", "http://127.0.0.1:9"],
      ["core.sshCommand", program],
      ["uploadpack.packObjectsHook", program],
    ] as const)
      git(clone, "config", key, value);
    const { settled } = await run(place);
    expect(settled, JSON.stringify(settled.errorInfo)).toMatchObject({ pullRequest: { number: 1 } });
    expect(forge.pulls).toHaveLength(1);
    expect(existsSync(ran)).toBe(false);
    expect(spawnSync("grep", ["-rl", token, clone], { encoding: "utf8" }).stdout).toBe("");
    // Control: a person's own git runs them.
    git(clone, "commit", "-q", "--allow-empty", "-m", "Mine");
    expect(readFileSync(ran, "utf8")).toContain("reference-transaction");
  });

  const refusals: [string, (place: Place) => unknown, RegExp, object?, boolean?][] = [
    ["an address that is not allowed", () => undefined, /operator allows/, { allow: ["https://forge.example/*"] }],
    ["no repositories at all", () => undefined, /accepts only directories on its own machine/, { allow: [] }],
    ["no pull requests allowed", () => undefined, /allows no pull requests/, { landing: ["branch", "commit"] }],
    ["no forge that is known", () => undefined, /which forge 127\.0\.0\.1 is/, {}, false],
    ["no remote", ({ clone }) => git(clone, "remote", "remove", "origin"), /git remote add origin/],
    [
      "a folder as its remote",
      ({ clone, lab }) => git(clone, "remote", "set-url", "origin", join(lab.root, "host/acme/app.git")),
      /Expected the address of a repository/,
    ],
    [
      "a command as its remote",
      ({ clone }) => git(clone, "config", "remote.origin.url", "ext::sh -c touch%20x"),
      /Expected the address of a repository/,
    ],
    [
      "a password in its address",
      ({ clone, url }) => git(clone, "config", "remote.origin.url", url.replace("//", "//ada:sesame@")),
      /without credentials/,
    ],
    ["a commit checked out", ({ clone }) => git(clone, "checkout", "-q", "--detach"), /a branch to be checked out/],
    [
      "a shallow clone",
      ({ clone, host }) => writeFiles(clone, { ".git/shallow": `${host.git("acme/app", "rev-parse", "main")}\n` }),
      /--unshallow/,
    ],
  ];
  test.each(refusals)("%s is refused before anything is asked or written", async (_, prepare, words, more, named) => {
    const place = await openClone("gitea", more, named);
    prepare(place);
    const asked = await ask(place);
    expect(asked.status, JSON.stringify(asked.body)).toBe(422);
    expect(asked.body["message"]).toMatch(words);
    expect(asked.body["message"]).toMatch(/pull request/);
    expect(JSON.stringify(asked.body)).not.toContain("sesame");
    const offered = await send(place.service.url, `/project?directory=${encodeURIComponent(place.clone)}`);
    expect(offered.body["landings"]).toEqual(["commit", "branch"]);
    expect((await send(place.service.url, `/tasks?directory=${encodeURIComponent(place.clone)}`)).body).toEqual([]);
    expect(place.host.requests).toEqual([]);
  });

  test("work in the directory itself has nothing to propose", async () => {
    const place = await openClone();
    const landings = async (directory: string) =>
      (await send(place.service.url, `/project?directory=${encodeURIComponent(directory)}`)).body["landings"];
    const folder = place.lab.folder("no-git");
    mkdirSync(folder);
    // Control: where one can be opened, it is offered.
    expect([await landings(place.clone), await landings(folder)]).toEqual([["commit", "branch", "pull-request"], []]);
    expect(await ask(place, once, { isolation: "directory" })).toMatchObject({ status: 400 });
    const plain = makeProject(place.lab.folder(), { "a.txt": "one\n" });
    expect(await ask({ ...place, clone: plain })).toMatchObject({ status: 422 });
  });

  test("commits that were not pushed are not shown to others: the Task says so; pushed, a message goes on", async () => {
    const place = await openClone();
    const { clone, lab, host, forge } = place;
    writeFiles(clone, { "mine.txt": "mine\n" });
    git(clone, "add", "-A");
    git(clone, "commit", "-q", "-m", "Mine");
    const asked = lab.provider.requests.length;
    const { taskID, settled } = await run(place);
    expect(settled).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "repository_unsupported" } });
    expect(settled.error).toMatch(/Push them/);
    expect(lab.provider.requests.length).toBe(asked);
    expect(forge.calls).toEqual([]);
    git(clone, "push", "-q", join(lab.root, "host/acme/app.git"), "main");
    expect(await say(place, taskID)).toMatchObject({ lifecycleStatus: "completed", pullRequest: { number: 1 } });
    expect(host.git("acme/app", "show", `sortie/${taskID}:mine.txt`)).toBe("mine");
  });

  test("a branch that follows one of another name is proposed for that one", async () => {
    const place = await openClone();
    const { clone, host, forge } = place;
    const theirs = host.commit("acme/app", "main", { "theirs.txt": "x\n" });
    host.git("acme/app", "branch", "release/1", theirs);
    git(clone, "config", "branch.main.merge", "refs/heads/release/1");
    const { taskID } = await run(place);
    expect(forge.pulls).toMatchObject([{ base: "release/1" }]);
    // One that the remote has not is proposed for its default branch.
    git(clone, "checkout", "-q", "-b", "idea");
    await run(place);
    expect(forge.pulls).toMatchObject([{ branch: `sortie/${taskID}` }, { base: "main" }]);
    const created = (await logOf(place.service.url, taskID)).find(({ type }) => type === "task.created");
    expect(created?.data).toMatchObject({ remote: { url: place.url, ref: "release/1" } });
  });

  test("its merge is seen without a follow-up, and the branch goes", async () => {
    const place = await openClone();
    const { host, forge, service } = place;
    const { taskID } = await run(place);
    forge.merge(1);
    await service.tasks?.refreshPullRequest(taskID, AbortSignal.timeout(10_000));
    expect(host.git("acme/app", "for-each-ref", "--format=%(refname:short)", "refs/heads")).toBe("main");
  });
});
