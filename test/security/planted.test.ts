import { existsSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTask, logOf, makeLab, post, settledTask, shell } from "../harness/double/hostile-text.ts";
import { git, makeProject } from "../harness/project.ts";
import { startService, type TestService } from "../harness/service.ts";

/**
 * An agent that works in place in a plain folder leaves a repository there; the next Task in the folder works in it. It
 * is not shown what another repository has by it, or another file of this machine.
 */

let lab: Awaited<ReturnType<typeof makeLab>>;
let service: TestService;
let victim: string;
let head: string;
const content = "what-the-victim-has";
beforeAll(async () => {
  lab = await makeLab();
  service = await startService(join(lab.root, "data"), { SERVICE_CONFIG: lab.config });
  victim = makeProject(lab.folder("victim"), { "v.txt": `${content}\n` });
  head = git(victim, "rev-parse", "HEAD");
});
afterAll(async () => {
  await service.close();
  await lab[Symbol.asyncDispose]();
});

const run = async (directory: string, command: string, more: object = {}) => {
  const id = await createTask(service.url, directory, { ...lab.request([shell(command), { text: "Done." }]), ...more });
  const { lifecycleStatus } = await settledTask(service.url, id);
  return { id, lifecycleStatus, log: JSON.stringify(await logOf(service.url, id)) };
};

const init = "git init -q -b main . && git -c user.name=x -c user.email=x@x commit -q --allow-empty -m x";
const reads = () => `git cat-file -p ${head}:v.txt; cat v.txt "$(git rev-parse --git-dir)"/info/*`;

test("objects that it borrows from elsewhere", { timeout: 60_000 }, async () => {
  const directory = lab.folder();
  mkdirSync(directory);
  const borrow = `mkdir -p .git/objects/info; echo ${victim}/.git/objects > .git/objects/info/alternates`;
  expect(await run(directory, `${init}; ${borrow}`)).toMatchObject({ lifecycleStatus: "completed" });
  expect(readdirSync(join(directory, ".git/objects/info")).join()).toMatch(/^alternates\.found-by-task_\w+$/);
  const next = await run(directory, `${reads()}; echo at-the-end`);
  expect(next.log).toContain("\\nat-the-end");
  expect(next.log).not.toContain(content);
  // Control: what a person has lent to a repository stays, and is read.
  const own = lab.folder();
  git(victim, "clone", "-q", "--shared", victim, own);
  expect((await run(own, reads(), { isolation: "directory" })).log).toContain(content);
  expect(existsSync(join(own, ".git/objects/info/alternates"))).toBe(true);
});

test("a link for its ignore patterns, of which every Task has a copy", async () => {
  const directory = lab.folder();
  mkdirSync(directory);
  const link = `mkdir -p .git/info; ln -sf ${victim}/v.txt .git/info/exclude`;
  expect(await run(directory, `${init}; ${link}`)).toMatchObject({ lifecycleStatus: "completed" });
  const next = await run(directory, `${reads()}; echo at-the-end`);
  expect(next.log).toContain("\\nat-the-end");
  expect(next.log).not.toContain(content);
});

test("links for its objects and branches: the next Task is refused", async () => {
  const directory = lab.folder();
  mkdirSync(directory);
  const links = `rm .git/refs/heads/main; ln -s ${victim}/.git/refs/heads/main .git/refs/heads/main`;
  expect(await run(directory, `${init}; ${links}`)).toMatchObject({ lifecycleStatus: "completed" });
  const next = await post(service.url, "/task", directory, { request: "read it", productPillar: "code" });
  expect(next).toMatchObject({ status: 422, body: { code: "repository_not_allowed" } });
});
