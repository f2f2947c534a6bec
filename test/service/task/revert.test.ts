import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { canServe, startGitHost, token } from "../../harness/double/git-host.ts";
import {
  createTask,
  expectWhole,
  type Lab,
  makeLab,
  post,
  send,
  settledTask,
  shell,
  statusOf,
} from "../../harness/double/hostile-text.ts";
import { git, makeProject, readText, writeFiles } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** What a Task landed is taken back by a Task of its own, as `git revert` would. */

let lab: Lab;
let service: TestService;
beforeAll(async () => {
  lab = await makeLab();
  service = await startService(join(lab.root, "data"), { SERVICE_CONFIG: lab.config });
});
afterAll(async () => {
  await service.close();
  await lab[Symbol.asyncDispose]();
});

const files = { "a.txt": "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "check.sh": "grep -q 1 a.txt\n" };
const done = { text: "It is done.\n\nCommit: Change a" };
const edit = [shell("sed -i s/5/five/ a.txt; echo new > b.txt"), done];

const landed = async (more: object = {}, turns = edit) => {
  const directory = makeProject(lab.folder(), files);
  const taskID = await createTask(service.url, directory, { ...lab.request(turns), ...more });
  const settled = await settledTask(service.url, taskID);
  expect(settled, settled.error).toMatchObject({ lifecycleStatus: "completed" });
  return { directory, taskID, settled };
};
const revert = (directory: string, taskID: string, body?: object, key?: string) =>
  post(service.url, `/task/${taskID}/revert`, directory, body, key === undefined ? {} : { key });
const commitOf = (directory: string, text: Record<string, string>) => {
  writeFiles(directory, text);
  git(directory, "add", "-A");
  git(directory, "commit", "-qm", "later");
};

test("a revert runs the checks and lands as a Task of its own; no model is asked", async () => {
  const { directory, taskID, settled } = await landed();
  expect(settled).toMatchObject({ revertOf: null, availableActions: expect.arrayContaining(["revert"]) });
  const commit = git(directory, "rev-parse", "HEAD");
  const text = readFileSync(join(directory, "a.txt"), "utf8");
  commitOf(directory, { "a.txt": text.replace("9", "nine") });
  // Work in progress of the user's stays what it is.
  writeFiles(directory, { "mine.txt": "mine\n" });

  const asked = lab.provider.requests.length;
  const answer = await revert(directory, taskID, { source: "test", checks: ["sh check.sh"] }, "once");
  expect(answer).toMatchObject({ status: 202, body: { revertOf: taskID, directory, landing: "commit" } });
  expect((await revert(directory, taskID, { source: "test", checks: ["sh check.sh"] }, "once")).body).toEqual(
    answer.body,
  );
  const revertID = String(answer.body["taskID"]);
  const end = await settledTask(service.url, revertID);
  expect(end, end.error).toMatchObject({
    lifecycleStatus: "completed",
    revertOf: taskID,
    verified: true,
    title: `Revert "${settled.title}"`,
    checks: [{ name: "sh check.sh", state: "passed" }],
    usage: { modelCalls: 0 },
  });
  expect(end.availableActions).toContain("revert");
  expect(lab.provider.requests.length).toBe(asked);
  expect(git(directory, "show", "--format=", "--name-only", "HEAD")).toBe("a.txt\nb.txt");
  expect(readText(directory, "a.txt")).toBe(files["a.txt"].replace("9", "nine"));
  expect(git(directory, "log", "-1", "--format=%B")).toBe(
    `Revert "${settled.title}"\n\nThis reverts commit ${commit}.\n\nTask: ${revertID}\nSquad: ${end.squad.id}@${end.squad.version}`,
  );
  expectWhole(directory, "?? mine.txt");

  // The revert of the revert brings it back.
  const again = String((await revert(directory, revertID)).body["taskID"]);
  expect(await settledTask(service.url, again)).toMatchObject({ lifecycleStatus: "completed", revertOf: revertID });
  expect(readText(directory, "b.txt")).toBe("new\n");
});

test("where it does not apply, it is refused with the paths; control: beside them it applies", async () => {
  const { directory, taskID } = await landed();
  const text = readText(directory, "a.txt");
  commitOf(directory, { "a.txt": text.replace("five", "FIVE") });
  const refused = await revert(directory, taskID);
  expect(refused).toMatchObject({
    status: 409,
    body: { code: "not_revertible", details: { taskID, paths: ["a.txt"], reason: expect.any(String) } },
  });
  git(directory, "revert", "--no-edit", "HEAD");
  expect((await revert(directory, taskID)).status).toBe(202);
});

test("what is on no branch of the project is refused with the reason", async () => {
  const inPlace = await landed({ isolation: "directory" });
  const onBranch = await landed({ landing: "branch" });
  const unchanged = await landed({}, [done]);
  const elsewhere = await landed();
  git(elsewhere.directory, "checkout", "-q", "-b", "old", "HEAD^");
  const detached = await landed();
  git(detached.directory, "checkout", "-q", "--detach");
  for (const [{ directory, taskID }, why, isNamed] of [
    [inPlace, "it worked in place", false],
    [onBranch, "only on its own branch", false],
    [unchanged, "it landed nothing", false],
    // Only git can tell.
    [elsewhere, "the branch does not (or no longer) contain it", true],
    [detached, "no branch checked out", true],
  ] as const) {
    const refused = await revert(directory, taskID);
    expect(refused, why).toMatchObject({ status: 409, body: { code: "not_revertible", details: { paths: [] } } });
    expect(JSON.stringify(refused.body)).toContain(why);
    expect((await statusOf(service.url, taskID)).availableActions.includes("revert"), why).toBe(isNamed);
  }
  git(elsewhere.directory, "checkout", "-q", "main");
  expect((await revert(elsewhere.directory, elsewhere.taskID)).status).toBe(202);
});

test("what a Task landed in several attempts is taken back as one commit", async () => {
  const { directory, taskID } = await landed({}, [...edit, shell("sed -i s/five/5five/ a.txt"), done]);
  await post(service.url, `/task/${taskID}/message`, directory, { source: "test", text: "More." });
  await settledTask(service.url, taskID);
  expect(readText(directory, "a.txt")).toContain("5five");
  const revertID = String((await revert(directory, taskID)).body["taskID"]);
  expect(await settledTask(service.url, revertID)).toMatchObject({ lifecycleStatus: "completed" });
  expect(git(directory, "rev-parse", "HEAD^{tree}")).toBe(git(directory, "rev-parse", "HEAD~3^{tree}"));
  expect(git(directory, "log", "-1", "--format=%B").match(/This reverts commit/g)).toHaveLength(2);
});

test("checks decide: red ones keep it from landing, and a message lets agents go on", async () => {
  const command = "if [ -f later.txt ]; then echo kept > b.txt; else sed -i s/5/five/ a.txt; echo new > b.txt; fi";
  const request = lab.request([shell(command), done]);
  // The revert's request has the title, and with it the marker that the double answers to.
  const { directory, taskID } = await landed({ ...request, title: `Change a ${/\[\w+\]/.exec(request.request)?.[0]}` });
  commitOf(directory, { "later.txt": "later\n" });
  const head = git(directory, "rev-parse", "HEAD");
  const asked = lab.provider.requests.length;
  const revertID = String((await revert(directory, taskID, { checks: ["test -f b.txt"] })).body["taskID"]);
  const failed = await settledTask(service.url, revertID);
  expect(failed).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "checks_failed" } });
  expect(git(directory, "rev-parse", "HEAD")).toBe(head);

  // Retried, it is the service's again.
  expect((await post(service.url, `/task/${revertID}/retry`, directory, undefined)).status).toBe(202);
  expect(await settledTask(service.url, revertID)).toMatchObject({ lifecycleStatus: "failed", attempt: 2 });
  expect(lab.provider.requests.length).toBe(asked);

  await post(service.url, `/task/${revertID}/message`, directory, { source: "test", text: "Keep b.txt." });
  const end = await settledTask(service.url, revertID);
  expect(end, end.error).toMatchObject({ lifecycleStatus: "completed" });
  expect(lab.provider.requests.length).toBeGreaterThan(asked);
  expect(readText(directory, "a.txt")).toBe(files["a.txt"]);
  expect(readText(directory, "b.txt")).toBe("kept\n");
});

test("one that applied when it was asked for, and no more when it runs, fails and says where", async () => {
  const { directory, taskID } = await landed();
  const other = makeProject(lab.folder(), files);
  const env = { SERVICE_CONFIG: lab.config, SERVICE_MAX_RUNNING: "1" };
  await service.close();
  service = await startService(join(lab.root, "data"), env);
  const blocker = await createTask(service.url, other, lab.request([shell("sleep 3"), done]));
  const answer = await revert(directory, taskID);
  expect(answer.status).toBe(202);
  commitOf(directory, { "a.txt": readText(directory, "a.txt").replace("five", "FIVE") });
  const head = git(directory, "rev-parse", "HEAD");
  const end = await settledTask(service.url, String(answer.body["taskID"]));
  expect(end).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "not_revertible" } });
  expect(end.error).toContain("a.txt");
  expect(git(directory, "rev-parse", "HEAD")).toBe(head);
  expectWhole(directory);
  await settledTask(service.url, blocker);
});

describe.runIf(canServe)("a repository by address", { timeout: 60_000 }, () => {
  test("is reverted on the remote's branch as it is now", async () => {
    await using host = await startGitHost(lab.root);
    const config = JSON.parse(readFileSync(lab.config, "utf8")) as object;
    const repositories = {
      allow: [`http://127.0.0.1:${host.port}/*`],
      credentials: [{ match: `http://127.0.0.1:${host.port}/*`, token: "env:HOST_TOKEN" }],
    };
    const file = join(lab.root, "remote.jsonc");
    writeFileSync(file, JSON.stringify({ ...config, repositories }));
    const remote = await startService(join(lab.root, "remote"), { SERVICE_CONFIG: file, HOST_TOKEN: token });
    try {
      host.make("shared", { "a.txt": "one\n" });
      const make = async (landing: string) => {
        const body = {
          ...lab.request([shell(`echo two > ${landing}.txt`), done]),
          productPillar: "code",
          repository: { url: host.url("shared"), ref: "main" },
          landing,
        };
        const made = await send(remote.url, "/task", { method: "POST", body });
        expect(made.status, JSON.stringify(made.body)).toBe(202);
        const taskID = String(made.body["taskID"]);
        expect(await settledTask(remote.url, taskID)).toMatchObject({ lifecycleStatus: "completed" });
        return taskID;
      };
      const taskID = await make("commit");
      const onBranch = await make("branch");
      host.commit("shared", "main", { "theirs.txt": "theirs\n" });
      const answer = await send(remote.url, `/task/${taskID}/revert`, { method: "POST" });
      expect(answer.status, JSON.stringify(answer.body)).toBe(202);
      const end = await settledTask(remote.url, String(answer.body["taskID"]));
      expect(end, JSON.stringify(end.errorInfo)).toMatchObject({ lifecycleStatus: "completed", landingBranch: "main" });
      expect(host.git("shared", "ls-tree", "--name-only", "main")).toBe("a.txt\ntheirs.txt");
      expect(await send(remote.url, `/task/${onBranch}/revert`, { method: "POST" })).toMatchObject({
        status: 409,
        body: { code: "not_revertible" },
      });
    } finally {
      await remote.close();
    }
  });
});
