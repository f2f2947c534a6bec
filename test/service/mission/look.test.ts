import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { dispatch, finish, openStage, plan, restOf, type Stage, turns, wake } from "../../harness/double/missions.ts";
import { git, until, writeFiles } from "../../harness/project.ts";

/** What a Mission's agent sees of its project: what is committed at the head, and nothing that rules keep from it. */

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
});
afterAll(() => stage[Symbol.asyncDispose]());

const read = (path: string) => ({ tool: "read", input: { path } });
const log = { tool: "git", input: { action: "log" } };

/** Plays one Mission; resolves to what its agent was shown after each of the replies. */
const shownTo = async (name: string, directory: string, ...replies: object[][]): Promise<string[]> => {
  const shown: string[] = [];
  stage.play(name, {
    mission: (turn, _request, newest) => {
      if (turn > 0) shown.push(newest);
      const calls = replies[turn];
      if (calls === undefined && shown.length <= replies.length) return { calls: [finish("blocked", "Seen.")] };
      return calls === undefined ? { text: "Nothing more." } : { calls: calls as { tool: string; input: unknown }[] };
    },
    task: turns({ calls: [{ tool: "write", input: { path: "made.txt", content: "made by a Task\n" } }] }),
  });
  const { url } = stage.service;
  const { missionID } = await wake(url, directory, { text: `[${name}]` });
  const mission = await restOf(url, directory, missionID);
  expect(mission.finished?.summary).toBe("Seen.");
  return shown;
};

test("it lists, reads, searches and sees the history of the head; control: what is not committed is not there", async () => {
  const directory = stage.project({ "a.txt": "first line\n", "sub/b.txt": "needle here\n" });
  writeFileSync(join(directory, "draft.txt"), "not committed\n");
  const [seen = "", shown = "", refused = ""] = await shownTo(
    "head",
    directory,
    [{ tool: "list", input: { depth: 2 } }, read("a.txt"), { tool: "search", input: { pattern: "needle" } }, log],
    [{ tool: "git", input: { action: "show", stat: true } }, read("draft.txt")],
    [
      { tool: "git", input: { action: "diff" } },
      { tool: "git", input: { action: "restore", paths: ["a.txt"] } },
    ],
  );
  for (const part of ["sub/b.txt", "first line", "needle here", "first"]) expect(seen).toContain(part);
  expect(seen).not.toContain("draft.txt");
  expect(shown).toContain("2 files changed");
  expect(shown).toContain('Expected a file at "draft.txt"');
  expect(refused).toContain("Expected a commit or range");
  // It has no action that changes anything.
  expect(refused).toContain("The arguments of git are wrong");
  const left = join(stage.service.dataDir, "worktrees");
  await until(
    async () => (existsSync(left) ? readdirSync(left).filter((name) => name.startsWith("ses_")) : []),
    (names) => names.length === 0,
  );
});

test("after a Task it sees what landed, in the same conversation", async () => {
  const directory = stage.project({ "a.txt": "one\n" });
  const shown: string[] = [];
  stage.play("after", {
    mission: turns(
      { calls: [read("a.txt"), plan("a")] },
      { calls: [dispatch("a", "Write made.txt. [after]"), read("made.txt")] },
      (_turn, _request, newest) => {
        shown.push(newest);
        return { text: "Runs." };
      },
      { calls: [read("made.txt"), log] },
      (_turn, _request, newest) => {
        shown.push(newest);
        return { calls: [finish()] };
      },
    ),
    task: turns({ calls: [{ tool: "write", input: { path: "made.txt", content: "made by a Task\n" } }] }),
  });
  const { url } = stage.service;
  const { missionID } = await wake(url, directory, { text: "[after]" });
  const mission = await restOf(url, directory, missionID);
  expect(mission.finished?.outcome).toBe("done");
  expect(shown[0]).toContain('Expected a file at "made.txt"');
  expect(shown[1]).toContain("made by a Task");
});

test("rules of the project and of the service hold; control: what they do not name is read", async () => {
  const rules = JSON.stringify({ deny: ["read(private/**)"] });
  const files = { "a.txt": "open\n", "private/p.txt": "hidden\n", ".sortie/permissions.jsonc": rules, ".env": "K=v\n" };
  const [seen = "", found = ""] = await shownTo(
    "rules",
    stage.project(files),
    [read("a.txt"), read("private/p.txt"), read(".env"), read("../x")],
    [{ tool: "search", input: { pattern: "hidden|open" } }],
  );
  expect(seen).toContain("open");
  expect(seen).toContain("Denied: read private/p.txt");
  expect(seen).not.toContain("K=v");
  expect(found).toContain("a.txt");
  expect(found).not.toContain("hidden");
});

test("rules that cannot be read keep everything; control: mended, the files are there", async () => {
  const directory = stage.project({ "a.txt": "open\n" });
  writeFiles(directory, { ".sortie/permissions.jsonc": "{ deny" });
  const [kept = ""] = await shownTo("broken", directory, [read("a.txt")]);
  expect(kept).toContain(".sortie/permissions.jsonc");
  expect(kept).not.toContain("open");
  writeFiles(directory, { ".sortie/permissions.jsonc": "{}" });
  expect((await shownTo("mended", directory, [read("a.txt")]))[0]).toContain("open");
});

test("a folder below the top is the root, and a directory without Git is seen as it is", async () => {
  const directory = stage.project({ "a.txt": "top\n", "sub/b.txt": "below\n" });
  const [below = ""] = await shownTo("below", join(directory, "sub"), [read("b.txt"), read("a.txt")]);
  expect(below).toContain("below");
  expect(below).not.toContain("top");

  const plain = join(stage.root, "plain");
  mkdirSync(plain);
  writeFileSync(join(plain, "c.txt"), "no repository\n");
  const [seen = ""] = await shownTo("plain", plain, [read("c.txt"), log]);
  expect(seen).toContain("no repository");
  expect(seen).toContain("Not a Git worktree");
});

test("what a killed service left of such files goes at the next start; control: a Task's own folder stays", async () => {
  const worktrees = join(stage.service.dataDir, "worktrees");
  mkdirSync(join(worktrees, "ses_0left.checkout/sub"), { recursive: true });
  mkdirSync(join(worktrees, "ses_0left.checkout.git"), { recursive: true });
  mkdirSync(join(worktrees, "task_0other.checkout"), { recursive: true });
  await stage.restart();
  const names = () => readdirSync(worktrees).filter((name) => name.includes("0left") || name.includes("0other"));
  expect(
    await until(
      async () => names(),
      (left) => left.length === 1,
    ),
  ).toEqual(["task_0other.checkout"]);
});

test("it is the head of the branch that is checked out", async () => {
  const directory = stage.project({ "a.txt": "one\n" });
  git(directory, "switch", "-q", "-c", "other");
  writeFiles(directory, { "a.txt": "two\n" });
  git(directory, "commit", "-qam", "second");
  expect((await shownTo("branch", directory, [read("a.txt")]))[0]).toContain("two");
  git(directory, "switch", "-q", "-");
  expect((await shownTo("back", directory, [read("a.txt")]))[0]).toContain("one");
});
