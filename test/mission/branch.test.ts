import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { missionLog, woken } from "../harness/mission-log.ts";
import { git, makeProject, temporary } from "../harness/project.ts";
import { readyLocalBranch } from "../../src/mission/branch.ts";
import type { MissionRun } from "../../src/mission/run.ts";
import { createGit } from "../../src/workspace/git/git.ts";
import { branchesOf } from "../../src/workspace/object/branch.ts";

/** A Mission's branch that git does not make is told with git's words, and not tried again and again. */

let place: ReturnType<typeof temporary>;
let directory: string;
beforeEach(() => {
  place = temporary();
  directory = makeProject(join(place.path, "project"), { "a.txt": "a\n" });
});
afterEach(() => place[Symbol.dispose]());

/** Readies the branch of a Mission that has none yet. Resolves to the answer and the number of facts. */
const ready = async (log = missionLog("branch")) => {
  const before = log.events.length;
  const head = git(directory, "rev-parse", "HEAD").trim();
  const branches = branchesOf(createGit(directory));
  const run = {
    stream: "ses_1",
    signal: AbortSignal.timeout(20_000),
    state: log.state,
    record: (events: Parameters<typeof log.add>) => Promise.resolve(void log.add(...events)),
    workspaces: {
      inspect: () => Promise.resolve({ project: directory, git: { head, branch: "refs/heads/main" } }),
      branches: () => branches,
    },
  } as unknown as MissionRun;
  log.add(...woken());
  return { answer: await readyLocalBranch(run), facts: log.events.length - before - woken().length };
};

test.each<[name: string, block: () => string | undefined]>([
  ["where a branch has the name of its folder", () => void git(directory, "branch", "sortie")],
  [
    "where a lock was left",
    () => {
      git(directory, "branch", "sortie/other");
      const lock = join(directory, ".git/refs/heads/sortie/m.lock");
      writeFileSync(lock, "");
      return lock;
    },
  ],
])("%s", async (_name, block) => {
  const lock = block();
  const log = missionLog("branch");
  const first = await ready(log);
  expect(first).toEqual({
    answer: { why: expect.stringMatching(/^Git could not make the branch sortie\/m: .*(sortie)/s) },
    facts: 1,
  });
  // Tried again, nothing is recorded anew.
  expect(await ready(log)).toEqual({ ...first, facts: 0 });
  // Control: once that is gone, it is made.
  if (lock === undefined) git(directory, "branch", "-D", "sortie");
  else rmSync(lock);
  expect(await ready(log)).toEqual({ answer: { onto: "refs/heads/sortie/m" }, facts: 0 });
});

test("control: one that is there already is left alone", async () => {
  git(directory, "branch", "sortie/m");
  expect(await ready()).toEqual({ answer: { onto: "refs/heads/sortie/m-2" }, facts: 1 });
});
