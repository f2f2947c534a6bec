import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { at, logOf, post, send } from "../../harness/double/hostile-text.ts";
import {
  author,
  dispatch,
  finish,
  missionOf,
  openStage,
  plan,
  restOf,
  type Stage,
  taskOf,
  turns,
  wake,
} from "../../harness/double/missions.ts";
import { git, readText, temporary, until, writeFiles } from "../../harness/project.ts";

/**
 * Where the package of a made squad goes in a project whose phases land on its own branch: a commit, or files in its
 * folder.
 */

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
});
afterAll(() => stage[Symbol.asyncDispose]());

const roster = ["one", "two", "three"].map((name) => ({ name, duty: "A duty." }));
const crew = { name: "Crew", summary: "A crew.", roster };

/** It has a squad made, and has that write a file. */
const begin = async (name: string, directory: string, more: object = {}): Promise<string> => {
  stage.play(name, {
    mission: turns(
      {
        calls: [
          plan({ id: "p", phase: "web/shop" }),
          { tool: "produce_squad", input: { phase: "p", squad: "crew", brief: `[${name}]`, ...crew } },
        ],
      },
      { text: "It is made." },
      (_turn, _request, newest) =>
        newest.includes("found in the catalog as it was staged")
          ? { calls: [dispatch("p", `Do it. [${name}]`, { checks: [] })] }
          : { calls: [finish("blocked", newest.slice(0, 4000))] },
      { text: "It runs." },
      { calls: [finish()] },
    ),
    task: (turn, { first }) =>
      turn > 0
        ? { text: "Done." }
        : {
            calls: first.startsWith("Make the squad")
              ? [author(roster)]
              : [{ tool: "write", input: { path: "done.txt", content: "x\n" } }],
          },
  });
  const woken = await wake(stage.service.url, directory, { text: `[${name}]`, allowSquadProduction: true, ...more });
  return woken.missionID;
};

const rest = (directory: string, missionID: string) => restOf(stage.service.url, directory, missionID);

/** Waits until the package waits for a person; `allow` lets it be installed. */
const approval = async (directory: string, missionID: string) => {
  const { url } = stage.service;
  const { tasks } = await until(
    () => missionOf(url, directory, missionID),
    ({ tasks: [task] }) => (task?.pending.length ?? 0) > 0,
  );
  const [
    {
      taskID,
      pending: [ask],
    } = { taskID: "", pending: [] },
  ] = tasks;
  const allow = () => post(url, `/task/${taskID}/pending/${ask?.id}`, directory, { decision: "allow" });
  return { taskID, of: ask?.of, digest: ask?.would?.subject, allow };
};

const squadIn = async (directory: string) => {
  const { body } = await send(stage.service.url, at("/squads", directory));
  const { healthy, squads } = body as unknown as { healthy: boolean; squads: { id: string; digest: string }[] };
  return { healthy, digest: squads.find(({ id }) => id === "crew")?.digest };
};

const subjects = (directory: string, ref = "HEAD") => git(directory, "log", "--format=%s", ref).split("\n");

describe("a commit", () => {
  test("that is approved by its digest before it is made, beside what the user has edited and staged, and that a clone has", async () => {
    const directory = stage.project({ "a.txt": "one\n", "b.txt": "one\n" });
    const missionID = await begin("commit", directory, { approve: ["squad"] });
    const { taskID, of, digest, allow } = await approval(directory, missionID);
    expect(of).toBe("squad");
    expect(subjects(directory)).toEqual(["first"]);
    git(directory, "-c", "user.name=u", "-c", "user.email=u@x", "commit", "-q", "--allow-empty", "-m", "theirs");
    writeFiles(directory, { "a.txt": "edited\n", "b.txt": "staged\n", "c.txt": "new\n" });
    git(directory, "add", "b.txt");
    const edits = git(directory, "status", "--porcelain");
    await allow();
    const mission = await rest(directory, missionID);
    expect(mission, mission.finished?.summary).toMatchObject({
      finished: { outcome: "done" },
      tasks: [{ taskID }, { squad: { id: "crew", digest, scope: "project" } }],
    });
    const [, , added] = git(directory, "rev-list", "--reverse", "HEAD").split("\n");
    expect(subjects(directory).slice(1)).toEqual(["Add the squad crew", "theirs", "first"]);
    const files = git(directory, "show", "--format=", "--name-only", added ?? "").split("\n");
    expect(files.filter((path) => !path.startsWith(".sortie/squads/crew/"))).toEqual([]);
    expect((await taskOf(stage.service.url, taskID)).git).toMatchObject({ landedCommit: added });
    expect(git(directory, "status", "--porcelain")).toBe(edits);
    expect(["a.txt", "b.txt", "c.txt"].map((name) => readText(directory, name))).toEqual([
      "edited\n",
      "staged\n",
      "new\n",
    ]);
    using elsewhere = temporary("sortie-clone-");
    git(elsewhere.path, "clone", "-q", directory, "clone");
    expect(await squadIn(join(elsewhere.path, "clone"))).toEqual({ healthy: true, digest });
    expect(await squadIn(directory)).toEqual({ healthy: true, digest });
  });

  test("in the folder that is the project, of a repository that holds more, from work that is not committed", async () => {
    const top = stage.project({ "app/a.txt": "one\n", "b.txt": "one\n" });
    const directory = join(top, "app");
    writeFiles(top, { "app/a.txt": "edited\n", "b.txt": "edited\n" });
    const mission = await rest(directory, await begin("folder", directory));
    expect(mission, mission.finished?.summary).toMatchObject({ finished: { outcome: "done" } });
    expect(subjects(top).slice(1)).toEqual(["Add the squad crew", "first"]);
    const files = git(top, "show", "--format=", "--name-only", "HEAD~1").split("\n");
    expect(files.filter((path) => !path.startsWith("app/.sortie/squads/crew/"))).toEqual([]);
    expect(git(top, "status", "--porcelain")).toBe(" M app/a.txt\n M b.txt");
    expect(await squadIn(directory)).toEqual({ healthy: true, digest: mission.tasks[1]?.squad.digest });
  });

  test("that is taken back by nobody but who removes the squad", async () => {
    const directory = stage.project();
    const mission = await rest(directory, await begin("revert", directory));
    const { status, body } = await post(stage.service.url, `/task/${mission.tasks[0]?.taskID}/revert`, directory, {});
    expect(status).toBe(409);
    expect(JSON.stringify(body)).toContain("sortie squad remove");
  });

  test("and none where somebody has put another package there meanwhile, which stays", async () => {
    const directory = stage.project();
    const missionID = await begin("other", directory, { approve: ["squad"] });
    const { taskID, allow } = await approval(directory, missionID);
    writeFiles(directory, { ".sortie/squads/crew/README.md": "# Mine\n" });
    await allow();
    const mission = await rest(directory, missionID);
    expect(mission.tasks).toMatchObject([{ taskID, errorInfo: { code: "squad_changed" } }]);
    expect(subjects(directory)).toEqual(["first"]);
    expect(git(directory, "status", "--porcelain", "-uall")).toBe("?? .sortie/squads/crew/README.md");
    // Out of its way, the same Task lands it when it is told to go on.
    rmSync(join(directory, ".sortie"), { recursive: true });
    await post(stage.service.url, `/task/${taskID}/message`, directory, { source: "user", text: "It is gone: go on." });
    const again = await approval(directory, missionID);
    await again.allow();
    await until(
      () => taskOf(stage.service.url, taskID),
      ({ lifecycleStatus }) => lifecycleStatus === "completed",
    );
    expect(subjects(directory)).toEqual(["Add the squad crew", "first"]);
    expect(git(directory, "status", "--porcelain", "--ignored")).toBe("");
  });

  test("that the project's branch does not get where another one is checked out meanwhile, as with a phase", async () => {
    const directory = stage.project();
    const missionID = await begin("moved", directory, { approve: ["squad"] });
    const { taskID, allow } = await approval(directory, missionID);
    git(directory, "checkout", "-q", "-b", "mine");
    await allow();
    const mission = await rest(directory, missionID);
    expect(mission.tasks).toMatchObject([{ taskID, errorInfo: { code: "landing_refused" } }]);
    expect([subjects(directory, "main"), subjects(directory, "mine")]).toEqual([["first"], ["first"]]);
    expect(git(directory, "status", "--porcelain", "--ignored")).toBe("");
  });
});

describe("files in the folder", () => {
  test.each<[string, string, (directory: string) => void, string]>([
    ["is no work tree", "plain", (directory) => rmSync(join(directory, ".git"), { recursive: true }), ""],
    [
      "has no commit",
      "empty",
      (directory) => {
        rmSync(join(directory, ".git"), { recursive: true });
        git(directory, "init", "-q", "-b", "main");
      },
      "",
    ],
    ["is on no branch", "loose", (directory) => git(directory, "checkout", "-q", "--detach"), "?? .sortie/"],
    ["ignores them", "ignores", (directory) => writeFileSync(join(directory, ".git/info/exclude"), ".sortie/\n"), ""],
    [
      "has other line ends in its files",
      "ends",
      (directory) => writeFileSync(join(directory, ".git/info/attributes"), "*.md text eol=crlf\n"),
      "?? .sortie/",
    ],
  ])("where the project %s: found, used, and not in the next Task's way", async (_what, name, change, left) => {
    const directory = stage.project();
    change(directory);
    const mission = await rest(directory, await begin(name, directory));
    expect(mission, mission.finished?.summary).toMatchObject({
      finished: { outcome: "done" },
      tasks: [{ git: { landedCommit: null } }, { squad: { id: "crew" }, lifecycleStatus: "completed" }],
    });
    expect(await squadIn(directory)).toEqual({ healthy: true, digest: mission.tasks[1]?.squad.digest });
    if (name === "plain" || name === "empty") return;
    expect(subjects(directory)).not.toContain("Add the squad crew");
    expect(git(directory, "status", "--porcelain")).toBe(left);
    const events = await logOf(stage.service.url, mission.tasks[1]?.taskID ?? "");
    const prepared = events.find(({ type }) => type === "workspace.prepared");
    expect(prepared?.data).not.toHaveProperty("snapshot");
  });
});
