import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { entriesOf } from "../../harness/entries.ts";
import { git, makeProject, readText } from "../../harness/project.ts";
import {
  at,
  createTask,
  expectWhole,
  type Lab,
  makeLab,
  post,
  refsOf,
  send,
  settledTask,
  shell,
} from "../../harness/double/hostile-text.ts";
import { startService, type TestService } from "../../harness/service.ts";
import { night } from "../../harness/night.ts";

/** What a command can do to Git where no sandbox keeps its files from it, in tier 3. */

let lab: Lab;
let service: TestService;
beforeAll(async () => {
  lab = await makeLab({ archives: 100 }, 3);
  service = await startService(join(lab.root, "data"), { SERVICE_CONFIG: lab.config });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await lab[Symbol.asyncDispose]();
});

describe.concurrent("what an agent can do to Git from its worktree", { timeout: 60_000 }, () => {
  const tricks: [name: string, command: string, lands: string | null, refs?: RegExp][] = [
    ["its own commit", "echo n > n.txt; git add -A; git -c user.name=x -c user.email=x@x commit -qm own", "n.txt"],
    [
      "a commit and its revert",
      "echo n > n.txt; git add -A; git -c user.name=x -c user.email=x@x commit -qm own; git reset -q --hard HEAD~",
      null,
    ],
    [
      "a revert as a commit",
      "export GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x@x GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x@x; echo n > n.txt; git add -A; git commit -qm own; git revert --no-edit HEAD",
      null,
    ],
    ["an empty commit", "git -c user.name=x -c user.email=x@x commit -q --allow-empty -m nothing", null],
    ["another branch", "git checkout -q -b x; echo n > n.txt", "n.txt", /^refs\/heads\/x /],
    ["a detached HEAD", "git checkout -q --detach; echo n > n.txt", "n.txt"],
    ["reset past the root", "echo n > n.txt; git update-ref -d HEAD; git rm -q --cached -r .", "n.txt"],
    ["no .git file", "rm -rf .git; echo n > n.txt", "n.txt"],
    [
      "a .git folder of its own",
      "rm -rf .git; git init -q; echo n > n.txt; git add -A; git -c user.name=x -c user.email=x@x commit -qm own",
      "n.txt",
    ],
    ["a .git file that points away", "echo 'gitdir: /nonexistent' > .git; echo n > n.txt", "n.txt"],
    ["a broken index", "echo junk > $(git rev-parse --git-dir)/index; echo n > n.txt", "n.txt"],
    ["an index lock", ": > $(git rev-parse --git-dir)/index.lock; echo n > n.txt", "n.txt"],
    [
      "a ref lock",
      ": > $(git rev-parse --git-common-dir)/refs/heads/$(git symbolic-ref --short HEAD).lock; echo n > n.txt",
      "n.txt",
    ],
    ["a HEAD of nonsense", "echo nonsense > $(git rev-parse --git-dir)/HEAD; echo n > n.txt", "n.txt"],
    ["no git directory of the worktree", "rm -rf $(git rev-parse --git-dir); echo n > n.txt", "n.txt"],
    [
      "its branch deleted",
      "git checkout -q --detach; git branch -D $(git branch --list --format='%(refname:short)' 'sortie/*' | head -1); echo n > n.txt",
      "n.txt",
    ],
    [
      "an unfinished merge",
      "export GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x@x GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x@x; git checkout -q --detach; echo 1 > a.txt; git commit -qam 1; A=$(git rev-parse HEAD); git checkout -q --detach HEAD~; echo 2 > a.txt; git commit -qam 2; git merge $A; echo n > n.txt; echo one > a.txt",
      "n.txt",
    ],
    ["a nested repository", "git init -q nested; echo x > nested/x; echo n > n.txt", "n.txt"],
    ["skipped files", "git update-index --skip-worktree a.txt; echo hidden > a.txt; echo n > n.txt", "a.txt\nn.txt"],
    [
      "marks in an index of version 4",
      "git update-index --index-version 4; mkdir -p b/c; echo x > b/c/d; git add b; git update-index --assume-unchanged a.txt b/c/d; echo hidden > a.txt; echo hidden > b/c/d",
      "a.txt\nb/c/d",
    ],
    [
      "assumed unchanged",
      "git update-index --assume-unchanged a.txt; echo hidden > a.txt; echo n > n.txt",
      "a.txt\nn.txt",
    ],
    ["the worktree gone", "cd /; rm -rf $OLDPWD", null],
    [
      "a FIFO and a socket",
      "mkfifo f; node -e 'net.createServer().listen(\"s\", () => process.kill(process.pid, 9))'; test -S s && echo n > n.txt",
      "n.txt",
    ],
    ["folders nobody may read", "mkdir d; echo x > d/x; chmod 000 d; echo n > n.txt", null],
  ];
  // What comes after is the same for all: by day it is looked at for each third.
  const looked = tricks.map((trick, index) => ({ trick, after: night || index % 3 === 0 }));
  test.each(looked)("$trick.0", async ({ trick: [name, command, lands, more], after: goesOn }) => {
    const directory = makeProject(lab.folder(), { "a.txt": "one\n" });
    const before = refsOf(directory);
    const config = readText(directory, ".git/config");
    const taskID = await createTask(service.url, directory, lab.request([shell(command)]));
    const status = await settledTask(service.url, taskID);
    expect(["completed", "failed"]).toContain(status.lifecycleStatus);
    expect(`${status.errorInfo?.code} ${status.error}`).not.toMatch(/^internal/);
    if (lands !== null) {
      expect(status, name).toMatchObject({ lifecycleStatus: "completed" });
      expect(git(directory, "show", "--format=", "--name-only", "HEAD")).toBe(lands);
    }
    expectWhole(directory);
    expect(readText(directory, ".git/config")).toBe(config);
    const landed = status.git.landedCommit;
    const after = refsOf(directory)
      .split("\n")
      .filter((line) => more?.test(line) !== true)
      .join("\n");
    if (landed == null || status.git.landedTree === git(directory, "rev-parse", `${before.split(" ")[1]}^{tree}`))
      expect(after).toBe(before);
    else expect(after).toBe(`refs/heads/main ${landed}`);
    expect(git(directory, "symbolic-ref", "HEAD")).toBe("refs/heads/main");
    if (!goesOn) return;
    // What is said to have happened is what happened: nothing on disk that the branch does not know.
    const zip = await fetch(`${service.url}${at(`/task/${taskID}/project-archive`, directory)}`);
    expect(zip.status).toBe(200);
    for (const entry of entriesOf(Buffer.from(await zip.arrayBuffer()))) entry.read();
    const answer = await post(service.url, `/task/${taskID}/message`, directory, { source: "t", text: "again" });
    expect(answer.status).toBe(202);
    await settledTask(service.url, taskID);
    expectWhole(directory);
    const deleted = await send(service.url, at(`/task/${taskID}`, directory), { method: "DELETE" });
    expect(deleted.status).toBe(200);
    expect(git(directory, "worktree", "list", "--porcelain").match(/^worktree /gm)).toHaveLength(1);
  });
});
