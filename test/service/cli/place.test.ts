import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createServiceClient } from "../../../src/client/client.ts";
import { type RunOptions, runTask } from "../../../src/cli/task/run.ts";
import { createScreen } from "../../../src/cli/terminal/screen.ts";
import { makeProject, readText, temporary, writeFiles } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** A folder without Git, or without a commit: what `sortie run` does before it changes anything there. */

const root = temporary("sortie-place-");
let service: TestService;
let said = "";
const screen = () => ({ ...createScreen(process.stdout, true), say: (text: string) => void (said += `${text}\n`) });
const run = (directory: string, options: Partial<RunOptions> = {}) => {
  said = "";
  const target = { url: service.url, directory, username: "service", password: undefined };
  return runTask('replace "one" with "two" in a.txt', { pillar: "code", ...options }, target, screen(), () => {});
};

beforeAll(async () => {
  service = await startService(join(root.path, "data"), {});
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  root[Symbol.dispose]();
});

const folder = (name: string): string => {
  const directory = join(root.path, name);
  writeFiles(directory, { "a.txt": "one\n" });
  return directory;
};

test("repository work is refused with the two commands that help, until the caller says in place", async () => {
  const bare = folder("bare");
  await expect(run(bare)).rejects.toMatchObject({
    exitCode: 2,
    message: expect.stringMatching(
      /is not a Git repository[^]*git init\n {2}git add --all && git commit[^]*--in-place/,
    ),
  });
  const empty = folder("empty");
  execFileSync("git", ["init", "-q", empty]);
  await expect(run(empty)).rejects.toMatchObject({
    exitCode: 2,
    message: expect.stringContaining("has no commits yet"),
  });
  expect(readText(bare, "a.txt")).toBe("one\n");

  expect(await run(bare, { inPlace: true })).toBe(0);
  expect(readText(bare, "a.txt")).toBe("two\n");
  expect(said).toContain("editing its files directly");
  expect(said).toContain("Not verified: no check ran on the result.");
  // What is told of it: the 202, the record and the list.
  const client = createServiceClient({ baseUrl: service.url, directory: bare });
  const body = { request: "list TODOs", productPillar: "work" as const };
  const { data: made } = await client.task.create({ body });
  expect(made).toMatchObject({ isolation: "directory", landing: "none" });
  const { data: list } = await client.task.list();
  expect(list?.map(({ isolation }) => isolation)).toEqual(["directory", "directory"]);
});

test("knowledge work goes on where nobody can be asked, and says where; control: a copy asks nothing", async () => {
  const bare = folder("notes");
  expect(await run(bare, { pillar: "work" })).toBe(0);
  expect(said).toContain("its edits could not be undone");
  const copied = makeProject(join(root.path, "copied"), { "a.txt": "one\n" });
  expect(await run(copied)).toBe(0);
  expect(said).not.toContain("could not be undone");
  const { data } = await createServiceClient({ baseUrl: service.url, directory: copied }).project.get();
  expect(data).toEqual({
    directory: copied,
    isolation: "worktree",
    because: null,
    branch: "main",
    landing: "commit",
    landings: ["commit", "branch"],
    checks: [],
    squad: "base",
  });
});
