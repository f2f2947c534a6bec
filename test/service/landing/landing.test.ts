import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Frame } from "../../../src/protocol/event/frame.ts";
import type { TaskStatus } from "../../../src/protocol/task/status.ts";
import { entriesOf } from "../../harness/entries.ts";
import { git, makeProject, readText, until, writeFiles } from "../../harness/project.ts";
import {
  createTask,
  expectLandedChecked,
  expectWhole,
  logOf,
  makeLab,
  post,
  refsOf,
  settledTask as settledWithin,
  shell,
  statusOf,
} from "../../harness/double/hostile-text.ts";
import type { MockTurn } from "../../harness/double/mock-provider.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** What the user has not committed, and what changes while a Task works: on the whole road over HTTP. */

const settledTask = (url: string, taskID: string, ms = 50_000) => settledWithin(url, taskID, ms);

let lab: Awaited<ReturnType<typeof makeLab>>;
let service: TestService;
beforeAll(async () => {
  lab = await makeLab({ landingMoves: 3 });
  service = await startService(join(lab.root, "data"), { SERVICE_CONFIG: lab.config });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await lab[Symbol.asyncDispose]();
});

const twenty = Array.from({ length: 20 }, (_, at) => `line ${at + 1}\n`).join("");
const project = () => makeProject(lab.folder(), { "a.txt": twenty, "b.txt": "b\n", ".gitignore": "ignored\n" });
const begin = (directory: string, turns: MockTurn[], body: Record<string, unknown> = {}) =>
  createTask(service.url, directory, { ...lab.request(turns), ...body });
const run = async (directory: string, turns: MockTurn[], body: Record<string, unknown> = {}): Promise<TaskStatus> =>
  settledTask(service.url, await begin(directory, turns, body));
const prepared = (taskID: string) =>
  until(
    () => statusOf(service.url, taskID),
    ({ git: { baseCommit } }) => baseCommit !== null,
  );
const eventsOf = async <T extends Frame["type"]>(taskID: string, type: T) =>
  (await logOf(service.url, taskID)).filter((frame): frame is Frame & { type: T } => frame.type === type);

/** What reviewers of a Task were given, oldest first. */
const briefsOf = async (taskID: string): Promise<string[]> =>
  (await eventsOf(taskID, "session.started")).flatMap(({ data: { purpose, brief } }) =>
    purpose === "review" && typeof brief === "string" ? [brief] : [],
  );

/** R6: each required check passed on exactly the tree that landed, and that tree is the branch's. */
const expectChecked = (status: TaskStatus, directory: string): void => {
  expect(status.git.landedTree).toBe(git(directory, "rev-parse", `${status.git.landedCommit}^{tree}`));
  expect(status.git.checkedTree).toBe(status.git.landedTree);
  expect(status.checks.map(({ state, stale, tree }) => ({ state, stale, tree }))).toEqual(
    status.checks.map(() => ({ state: "passed", stale: false, tree: status.git.landedTree })),
  );
};

describe.concurrent("uncommitted work", { timeout: 60_000 }, () => {
  test("the agent sees it, the commit does not have it, and it stays as it was", async () => {
    const directory = project();
    writeFiles(directory, { "a.txt": twenty.replace("line 1\n", "mine 1\n"), "new/u.txt": "u\n", ignored: "i\n" });
    git(directory, "mv", "b.txt", "c.txt");
    const before = git(directory, "status", "--porcelain", "-uall");
    const refs = refsOf(directory);
    const status = await run(
      directory,
      [shell("cat new/u.txt c.txt; ls; head -1 a.txt; sed -i 's/line 20/task 20/' a.txt; echo n > n.txt")],
      // On the change alone: the user's work is not there.
      {
        checks: ["grep -q 'task 20' a.txt", { kind: "command", run: "test ! -e new; test -e b.txt", required: false }],
      },
    );
    expect(status, status.error).toMatchObject({
      lifecycleStatus: "completed",
      git: { branch: `sortie/${status.taskID}` },
    });
    const [saw] = await eventsOf(status.taskID, "tool.finished");
    expect(saw?.data.output).toMatch(/u\nb\na\.txt\nc\.txt\nnew\nmine 1(?:\n|$)/);
    expect(git(directory, "show", "--format=%s", "--name-status", "HEAD")).toMatch(
      /^do it .*\n\nM\ta\.txt\nA\tn\.txt$/,
    );
    expect(git(directory, "status", "--porcelain", "-uall")).toBe(before);
    expect(readText(directory, "a.txt")).toBe(twenty.replace("line 1\n", "mine 1\n").replace("line 20", "task 20"));
    expect(git(directory, "diff", "-U0", "HEAD", "--", "a.txt")).toMatch(/-line 1\n\+mine 1$/);
    expect(refsOf(directory)).toBe(refs.replace(/\S+$/, String(status.git.landedCommit)));
    expectChecked(status, directory);
    expectWhole(directory, before.replace("new/u.txt", "new/"));
    const [landed] = await eventsOf(status.taskID, "landing.finished");
    expect(landed?.data).toMatchObject({ kept: [], merged: ["a.txt"] });
    expect(await eventsOf(status.taskID, "workspace.rebased")).toHaveLength(1);
  });

  test("on a branch of its own, the result is one commit on the project's, without it", async () => {
    const directory = project();
    writeFiles(directory, { "b.txt": "mine\n", "u.txt": "u\n" });
    const head = git(directory, "rev-parse", "HEAD");
    const status = await run(directory, [shell("echo n > n.txt")], { landing: "branch", checks: ["test -e n.txt"] });
    expect(status, status.error).toMatchObject({ lifecycleStatus: "completed" });
    expect(git(directory, "log", "-1", "--format=%P", status.git.branch ?? "")).toBe(head);
    expect(git(directory, "diff", "--name-status", `main..${status.git.branch}`)).toBe("A\tn.txt");
    expectWhole(directory, " M b.txt\n?? u.txt");
  });

  test("checks that pass only with it send the change back, with the reason said", async () => {
    const directory = project();
    writeFiles(directory, { "helper.txt": "h\n" });
    const status = await run(
      directory,
      [shell("echo needs > n.txt"), { text: "Done." }, shell("echo h > helper2.txt"), { text: "Done again." }],
      { checks: ["test -e helper.txt || test -e helper2.txt"] },
    );
    expect(status, status.error).toMatchObject({ lifecycleStatus: "completed" });
    const messages = await eventsOf(status.taskID, "message.received");
    expect(messages.map(({ data }) => data.source)).toEqual(["checks"]);
    expect(messages[0]?.data.text).toContain("what its user has not committed was not there");
    expectChecked(status, directory);
    expectWhole(directory, "?? helper.txt");
  });

  test("lines that only it has: entangled, no rounds, and the commands that are said work", async () => {
    const directory = project();
    writeFiles(directory, { "a.txt": twenty.replace("line 5\n", "mine 5\n") });
    const { taskID, ...status } = await run(directory, [
      shell("sed -i 's/mine 5/mine and task 5/' a.txt; echo n > n.txt"),
    ]);
    expect(status).toMatchObject({
      lifecycleStatus: "failed",
      errorInfo: { code: "landing_entangled", retryable: false },
    });
    expect(await eventsOf(taskID, "landing.conflicted")).toEqual([]);
    expectWhole(directory, " M a.txt");
    const command = /: (git diff .* git apply)/.exec(status.error ?? "")?.[1];
    expect(command).toBe(`git diff --binary sortie/${taskID}^ sortie/${taskID} | git apply`);
  });
});

describe.concurrent("a project that changes meanwhile", { timeout: 60_000 }, () => {
  test("a conflict goes back with both sides; solved, it lands", async () => {
    const directory = project();
    const taskID = await begin(
      directory,
      [
        shell("sleep 1; sed -i 's/line 5/task 5/' a.txt; echo n > n.txt"),
        { text: "Done." },
        shell("cat a.txt; sed -i '/^|||||||/,/^=======/d; /^<<<<<<</d; /^>>>>>>>/d' a.txt"),
        { text: "Merged." },
      ],
      { checks: ["grep -q 'task 5' a.txt"] },
    );
    await prepared(taskID);
    writeFiles(directory, { "a.txt": twenty.replace("line 5\n", "mine 5\n") });
    git(directory, "commit", "-q", "-am", "mine");
    writeFiles(directory, { "b.txt": "wip\n" });
    const status = await settledTask(service.url, taskID);
    expect(status, status.error).toMatchObject({ lifecycleStatus: "completed" });
    const [message] = await eventsOf(taskID, "message.received");
    expect(message?.data).toMatchObject({ source: "landing", disposition: "steered" });
    expect(message?.data.text).toMatch(/same places in a\.txt \(round 1 of 3\)[^]*\n-line 5\n\+mine 5\n/);
    expect(message?.data.text).toContain("Your last message then is the report of the whole work as it is now");
    const seen = await eventsOf(taskID, "tool.finished");
    // The review of the first try lies between.
    expect(seen[2]?.data.output).toContain(
      "line 4\n<<<<<<< the project now\nmine 5\n||||||| where you began\nline 5\n=======\ntask 5\n>>>>>>> your change\nline 6\n",
    );
    expect(readText(directory, "a.txt")).toContain("line 4\nmine 5\ntask 5\nline 6\n");
    expect(git(directory, "log", "--format=%s")).toMatch(/^do it .*\nmine\nfirst$/);
    expectChecked(status, directory);
    expectWhole(directory, " M b.txt");
    // Whoever reviews what was made of it sees both sides; before it there was nothing to see.
    const [first = "", second = "", ...more] = await briefsOf(taskID);
    expect(more).toEqual([]);
    expect(first).not.toContain("Where this change and the project's met");
    expect(second).toContain("# Where this change and the project's met, and both sides of it");
    expect(second).toContain(
      `<data from="both sides of the conflict in round 1">
a.txt, at line 5:
line 2
line 3
line 4
<<<<<<< what the project had by then
mine 5
||||||| what stood there before both
line 5
=======
task 5
>>>>>>> what this Task had
line 6
line 7
line 8
</data>`,
    );
  });

  test("a follow-up is reviewed without the conflict of what landed before; of a conflict that no marker shows it is said", async () => {
    const directory = project();
    const taskID = await begin(directory, [
      shell("sleep 1; sed -i 's/line 5/task 5/' a.txt; git rm -q b.txt"),
      { text: "Done." },
      shell(
        "git checkout -q HEAD -- . ; sed -i '/^|||||||/,/^=======/d; /^<<<<<<</d; /^>>>>>>>/d' a.txt; echo c > c.txt",
      ),
      { text: "Merged." },
      shell("echo more > d.txt"),
      { text: "Followed." },
    ]);
    await prepared(taskID);
    writeFiles(directory, { "a.txt": twenty.replace("line 5\n", "mine 5\n"), "b.txt": "mine\n" });
    git(directory, "commit", "-q", "-am", "mine");
    expect(await settledTask(service.url, taskID)).toMatchObject({ lifecycleStatus: "completed" });
    const met = (await briefsOf(taskID)).at(-1) ?? "";
    expect(met).toContain("a.txt, at line 5:\n");
    expect(met).toContain("b.txt: no lines stand between markers; the project has this file");
    await post(service.url, `/task/${taskID}/message`, directory, { source: "test", text: "And d.txt." });
    expect(await settledTask(service.url, taskID)).toMatchObject({ lifecycleStatus: "completed" });
    const last = (await briefsOf(taskID)).at(-1) ?? "";
    expect(last).toContain("And d.txt.");
    expect(last).not.toContain("both sides of the conflict");
  });

  test("three rounds that solve nothing end it, with the branch kept", async () => {
    const directory = project();
    const taskID = await begin(directory, [shell("sleep 1; sed -i 's/line 5/task 5/' a.txt")]);
    await prepared(taskID);
    writeFiles(directory, { "a.txt": twenty.replace("line 5\n", "mine 5\n") });
    git(directory, "commit", "-q", "-am", "mine");
    const status = await settledTask(service.url, taskID);
    expect(status).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "landing_conflict" } });
    expect(status.error).toContain(
      `after 3 rounds: a.txt. Nothing was overwritten. To take it: git cherry-pick sortie/${taskID}`,
    );
    expect((await eventsOf(taskID, "landing.conflicted")).map(({ data }) => data.round)).toEqual([1, 2, 3]);
    expect(git(directory, "log", "--format=%s")).toBe("mine\nfirst");
    expectWhole(directory);
    // A new attempt has its rounds again, and can still solve it.
    await post(service.url, `/task/${taskID}/message`, directory, { source: "test", text: "again" });
    expect(await settledTask(service.url, taskID)).toMatchObject({
      lifecycleStatus: "failed",
      errorInfo: { code: "landing_conflict" },
    });
  });

  test("who commits during every check is followed for a while, then told", async () => {
    const directory = project();
    // Long enough to commit meanwhile; green at once where the last commit is in.
    const moved = "test -e quiet || sleep 2";
    const commitAfterEach = async (taskID: string, most: number) => {
      for (let count = 1; count <= most; count += 1) {
        await until(
          () => eventsOf(taskID, "check.started"),
          (started) => started.length >= count,
          40_000,
        );
        // Another tree: one that was checked already needs no second run.
        writeFiles(directory, { user: `${count}\n`, ...(count === most ? { quiet: "q\n" } : {}) });
        git(directory, "add", "-A");
        git(directory, "commit", "-q", "-m", `user ${count}`);
      }
    };
    const outrun = await begin(directory, [shell("echo n > n.txt")], { checks: [moved] });
    const user = commitAfterEach(outrun, 4);
    const { taskID, ...status } = await settledTask(service.url, outrun);
    await user;
    expect(status).toMatchObject({
      lifecycleStatus: "failed",
      error: expect.stringContaining("new commits each time that the checks had passed, 3 times in a row"),
      errorInfo: { code: "landing_refused", retryable: true },
    });
    expect(await eventsOf(taskID, "workspace.rebased")).toHaveLength(3);
    expectWhole(directory);
    // The control: the branch is quiet now, and a message is enough.
    await post(service.url, `/task/${taskID}/message`, directory, { source: "test", text: "again" });
    const again = await settledTask(service.url, taskID);
    expect(again, again.error).toMatchObject({ lifecycleStatus: "completed" });
    expectChecked(again, directory);
    expectWhole(directory);

    // What every test of an end asserts says no to a landing whose checks ran on something else.
    const frames = await logOf(service.url, taskID);
    expectLandedChecked(frames);
    const last = frames.findLastIndex(({ type }) => type === "check.finished");
    expect(() => expectLandedChecked(frames.toSpliced(last, 1))).toThrow("R6");
  });

  test("the built-in rules have no rounds", async () => {
    const directory = project();
    const taskID = await createTask(service.url, directory, {
      request: 'replace "line 5" with "task 5" in a.txt',
      checks: ["sleep 1"],
    });
    await until(
      () => statusOf(service.url, taskID),
      ({ phase }) => phase === "checking",
    );
    writeFiles(directory, { "a.txt": twenty.replace("line 5\n", "mine 5\n") });
    git(directory, "commit", "-q", "-am", "mine");
    const status = await settledTask(service.url, taskID);
    expect(status).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "landing_conflict" } });
    expect(await eventsOf(taskID, "landing.conflicted")).toEqual([]);
    expectWhole(directory);
  });

  test("two Tasks on the same file land one after the other, each checked on what lands", async () => {
    const directory = project();
    const turns = (number: number) => [
      shell(`sed -i 's/line ${number}$/task ${number}/' a.txt; echo ${number} > n${number}.txt`),
    ];
    const both = await Promise.all([
      begin(directory, turns(1), { checks: ["sleep 0.3; grep -q task a.txt"] }),
      begin(directory, turns(18), { checks: ["sleep 0.3; grep -q task a.txt"] }),
    ]);
    for (const taskID of both) {
      const status = await settledTask(service.url, taskID);
      expect(status, status.error).toMatchObject({ lifecycleStatus: "completed" });
      expectChecked(status, directory);
    }
    expect(readText(directory, "a.txt")).toBe(twenty.replace("line 1\n", "task 1\n").replace("line 18", "task 18"));
    expect(git(directory, "rev-list", "--count", "HEAD")).toBe("3");
    expectWhole(directory);
  });
});

describe("worktrees of ended Tasks", () => {
  test("go after the retention time, whatever the end; a message brings the tree back; the archive has the work", async () => {
    const own = await makeLab();
    const config = join(own.root, "retention.jsonc");
    const { providers } = JSON.parse(readText(own.config)) as { providers: object };
    writeFiles(own.root, { "retention.jsonc": JSON.stringify({ providers, workspace: { retentionHours: 0 } }) });
    await using kept = await startService(join(own.root, "data"), { SERVICE_CONFIG: config });
    const directory = makeProject(own.folder(), { "a.txt": twenty, ".gitignore": "built\n" });
    writeFiles(directory, { "u.txt": "u\n", "a.txt": twenty.replace("line 9\n", "mine 9\n") });
    const at = (turns: MockTurn[], body: object = {}) =>
      createTask(kept.url, directory, { ...own.request(turns), ...body });
    const gone = (taskID: string) =>
      until(
        () => Promise.resolve(existsSync(join(own.root, "data/worktrees", taskID))),
        (there) => !there,
      );
    const landed = await at([shell("echo n > n.txt; echo b > built")]);
    const failed = await at([shell("echo f > f.txt")], { checks: ["test -e never"] });
    const cancelled = await at([shell("echo c > c.txt; sleep 30")]);
    await until(
      () => statusOf(kept.url, cancelled),
      ({ git: { branch } }) => branch !== null && existsSync(join(own.root, "data/worktrees", cancelled, "c.txt")),
    );
    await post(kept.url, `/task/${cancelled}/cancel`, directory, {});
    for (const [taskID, end] of [
      [landed, "completed"],
      [failed, "failed"],
      [cancelled, "cancelled"],
    ] as const) {
      expect(await settledTask(kept.url, taskID, 40_000), end).toMatchObject({ lifecycleStatus: end });
      await gone(taskID);
    }
    // The folder goes first, then git forgets it.
    await until(
      () => Promise.resolve(git(directory, "worktree", "list", "--porcelain").match(/^worktree /gm)?.length),
      (worktrees) => worktrees === 1,
    );
    expect(git(directory, "show", `sortie/${failed}:f.txt`)).toBe("f");
    expect(git(directory, "show", `sortie/${cancelled}:c.txt`)).toBe("c");
    expect(git(directory, "diff", "--name-status", `sortie/${cancelled}^`, `sortie/${cancelled}`)).toBe("A\tc.txt");
    const diff = await (await fetch(`${kept.url}/task/${cancelled}/diff`)).text();
    expect(diff).toContain("+++ b/c.txt");

    // The archive, from the commits: with the Task's files, without the user's untracked one, which is named.
    const response = await fetch(
      `${kept.url}/task/${cancelled}/project-archive?directory=${encodeURIComponent(directory)}`,
    );
    const entries = entriesOf(Buffer.from(await response.arrayBuffer()));
    expect(entries.map(({ path }) => path).filter((name) => name.startsWith("project/"))).toEqual([
      "project/.gitignore",
      "project/a.txt",
      "project/c.txt",
    ]);
    const manifest = JSON.parse(
      String(entries.find(({ path }) => path === "execution-flow/manifest.json")?.read()),
    ) as { omitted: unknown };
    expect(manifest.omitted).toEqual([
      { path: "u.txt", reason: "untracked in the project when the Task started, and not changed by it" },
    ]);

    await post(kept.url, `/task/${failed}/message`, directory, { source: "test", text: "again" });
    expect(await settledTask(kept.url, failed)).toMatchObject({ lifecycleStatus: "failed", attempt: 2 });
    expect(git(directory, "show", `sortie/${failed}:f.txt`)).toBe("f");
    await gone(failed);
    expectWhole(directory, " M a.txt\n?? u.txt");
    await own[Symbol.asyncDispose]();
  }, 90_000);
});
