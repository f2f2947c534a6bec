import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { MissionManifest } from "../../../src/domain/view/archive.ts";
import type { MissionStatus } from "../../../src/protocol/mission/status.ts";
import { entriesOf } from "../../harness/entries.ts";
import { at, post, send } from "../../harness/double/hostile-text.ts";
import {
  dispatch,
  eventsOf,
  finish,
  missionOf,
  openStage,
  plan,
  restOf,
  type Say,
  type Stage,
  taskOf,
  turns,
  wake,
} from "../../harness/double/missions.ts";
import { textOf } from "../../harness/double/mock-provider.ts";
import { git, readText, until } from "../../harness/project.ts";

/** A Mission of a directory whose phases land on a branch of its own, which is merged once. */

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
});
afterAll(() => stage[Symbol.asyncDispose]());

const write = (path: string, content: string) => ({ calls: [{ tool: "write", input: { path, content } }] });
const commit = (directory: string, path: string, content: string): void => {
  writeFileSync(join(directory, path), content);
  git(directory, "add", "-A");
  git(directory, "commit", "-q", "-m", `the user's ${path}`);
};
const merge = (directory: string, missionID: string) =>
  post(stage.service.url, `/mission/${missionID}/merge`, directory, {});
/** The Task that merges has ended. */
const mergedOf = (directory: string, missionID: string): Promise<MissionStatus> =>
  until(
    () => missionOf(stage.service.url, directory, missionID),
    ({ merged, state }) => merged !== null && merged.state !== "running" && (state === "done" || state === "blocked"),
    30_000,
  );
/** One phase that writes a file, then done. */
const onePhase = (name: string, path: string, content: string, more: { task?: Say } = {}): void =>
  stage.play(name, {
    mission: turns(
      { calls: [plan("a"), dispatch("a", `Write it. [${name}]`, { checks: [] })] },
      { text: "Runs." },
      {
        calls: [finish()],
      },
    ),
    task: turns(write(path, content), { text: "Wrote it." }),
    ...more,
  });

test("phases land on its branch, one after the other, and reach the project's when somebody asks for it", async () => {
  const { url } = stage.service;
  const directory = stage.project({ "a.txt": "one\n", "mine.txt": "mine\n" });
  const seen: string[] = [];
  let begins: string | undefined;
  stage.play("second", {
    mission: turns(),
    task: (turn, { body }) => {
      if (turn > 0) return { text: "Copied." };
      begins = /It begins at commit (\w+)/.exec(body.messages.map(({ content }) => textOf(content)).join("\n"))?.[1];
      return { calls: [{ tool: "shell", input: { command: "cat first.txt > second.txt" } }] };
    },
  });
  stage.play("manual", {
    mission: turns(
      { calls: [plan("a", { id: "b", after: ["a"] }), dispatch("a", "Write it. [manual]", { checks: [] })] },
      { text: "Runs." },
      { calls: [{ tool: "list", input: {} }, dispatch("b", "Copy it. [second]", { checks: [] })] },
      (_turn, _request, newest) => {
        seen.push(newest);
        return { text: "Runs." };
      },
      { calls: [finish()] },
    ),
    task: turns(write("first.txt", "1\n"), { text: "Wrote it." }),
  });
  writeFileSync(join(directory, "mine.txt"), "not committed\n");
  const { missionID } = await wake(url, directory, {
    text: "[manual]",
    missionID: "m-manual",
    landing: "branch",
    checks: ["test -f second.txt"],
  });
  const done = await restOf(url, directory, missionID);
  expect(done).toMatchObject({
    state: "done",
    stateReason: "Its work is on sortie/m-manual and waits to be merged",
    landing: "branch",
    merge: "manual",
    landingBranch: "sortie/m-manual",
    merged: null,
    verified: true,
  });
  expect(done.tasks.map(({ landing, landingBranch }) => [landing, landingBranch])).toEqual([
    ["commit", "sortie/m-manual"],
    ["commit", "sortie/m-manual"],
  ]);
  // Its agent saw the branch's head, and the user's branch and files are as they were.
  expect(seen[0]).toContain("first.txt");
  // The second Task is told the commit that it begins at, which is not the one of the user's checkout.
  expect(git(directory, "rev-parse", "sortie/m-manual~1")).toMatch(new RegExp(`^${begins}`));
  expect(git(directory, "rev-list", "--count", "main..sortie/m-manual")).toBe("2");
  expect(git(directory, "show", "sortie/m-manual:second.txt")).toBe("1");
  expect([git(directory, "log", "--format=%s", "main"), git(directory, "status", "--porcelain")]).toEqual([
    "first",
    " M mine.txt",
  ]);

  const zip = await fetch(`${url}${at(`/mission/${missionID}/project-archive`, directory)}`);
  const entries = new Map(entriesOf(Buffer.from(await zip.arrayBuffer())).map((entry) => [entry.path, entry]));
  expect(String(entries.get("project/second.txt")?.read())).toBe("1\n");
  expect(String(entries.get("project/mine.txt")?.read())).toBe("mine\n");
  const manifest = JSON.parse(String(entries.get("execution-flow/manifest.json")?.read())) as MissionManifest;
  expect(manifest).toMatchObject({
    source: "commit",
    branch: "sortie/m-manual",
    commit: git(directory, "rev-parse", "sortie/m-manual"),
  });

  git(directory, "commit", "-q", "--allow-empty", "-m", "the user's");
  const begun = await merge(directory, missionID);
  expect(begun.status).toBe(202);
  const merged = await mergedOf(directory, missionID);
  const head = git(directory, "rev-parse", "main");
  expect(merged).toMatchObject({
    state: "done",
    stateReason: null,
    merged: { taskID: begun.body["taskID"], state: "merged", commit: head, branch: "main" },
  });
  expect(git(directory, "log", "-1", "--format=%s|%P", "main").split("|")).toEqual([
    "Merge sortie/m-manual",
    `${git(directory, "rev-parse", "main~1")} ${git(directory, "rev-parse", "sortie/m-manual")}`,
  ]);
  expect([readText(directory, "second.txt"), readText(directory, "mine.txt")]).toEqual(["1\n", "not committed\n"]);
  expect(git(directory, "status", "--porcelain")).toBe(" M mine.txt");
  const task = await taskOf(url, String(begun.body["taskID"]));
  expect(task).toMatchObject({ lifecycleStatus: "completed", usage: { modelCalls: 0 }, landingBranch: "main" });
  expect(task.checks.map(({ name, state }) => [name, state])).toEqual([["test -f second.txt", "passed"]]);
  // Its agent was not woken for that, and there is nothing left to merge.
  const events = await eventsOf(url, directory, missionID);
  expect(events.filter(({ type }) => type === "mission.finished")).toHaveLength(1);
  expect((await merge(directory, missionID)).body).toMatchObject({ code: "not_mergeable", status: 409 });
});

test("merged as soon as it is done, once and after an approval; no phase is asked about", async () => {
  const { url } = stage.service;
  const directory = stage.project();
  onePhase("auto", "made.txt", "x\n");
  git(directory, "branch", "sortie/m-auto");
  const { missionID } = await wake(url, directory, {
    text: "[auto]",
    missionID: "m-auto",
    landing: "branch",
    merge: "auto",
    approve: ["landing"],
  });
  const asks = await until(
    () => missionOf(url, directory, missionID),
    ({ tasks }) => tasks.some(({ pendingCount }) => pendingCount > 0),
    30_000,
  );
  expect(asks).toMatchObject({ state: "asking", landingBranch: "sortie/m-auto-2", finished: { outcome: "done" } });
  expect(asks.tasks.map(({ lifecycleStatus }) => lifecycleStatus)).toEqual(["completed", "active"]);
  const taskID = asks.tasks[1]?.taskID ?? "";
  const [ask] = (await taskOf(url, taskID)).pending;
  expect(ask).toMatchObject({ kind: "approval", of: "landing", would: { branch: "main" } });
  expect(git(directory, "log", "--format=%s", "main")).toBe("first");
  // Another merge is not begun beside it.
  expect((await merge(directory, missionID)).body).toMatchObject({ code: "not_mergeable" });
  await post(url, `/task/${taskID}/pending/${ask?.id}`, directory, { decision: "allow" });
  const merged = await mergedOf(directory, missionID);
  expect(merged).toMatchObject({ state: "done", merged: { state: "merged", taskID } });
  expect(readText(directory, "made.txt")).toBe("x\n");
  // What stood there before is left alone.
  expect(git(directory, "log", "--format=%s", "sortie/m-auto")).toBe("first");

  // More work begins from what was merged.
  commit(directory, "later.txt", "later\n");
  stage.play("more", { mission: turns(), task: turns(write("more.txt", "x\n")) });
  stage.play("auto", {
    mission: turns(
      ...[0, 0, 0].map(() => ({ text: "Was there before." })),
      { calls: [plan("a", "b"), dispatch("b", "More. [more]", { checks: [] })] },
      { text: "Runs." },
      { calls: [finish()] },
    ),
  });
  await wake(url, directory, { missionID, text: "More.", approve: [] });
  await until(
    () => missionOf(url, directory, missionID),
    ({ merged: now }) => now !== null && now.taskID !== taskID && now.state === "merged",
    30_000,
  );
  expect(readText(directory, "more.txt")).toBe("x\n");
  expect(git(directory, "rev-list", "--count", "--merges", "main")).toBe("2");
});

test("a branch that was removed is made anew from what landed there, unless that was merged; a commit of the user's on it stays", {
  timeout: 60_000,
}, async () => {
  const { url } = stage.service;
  /** Phase a lands, the user does something, phase b lands: what it began from, in which files there are then. */
  const filesAfter = async (name: string, between: (directory: string, branch: string) => void) => {
    const directory = stage.project();
    stage.play(name, {
      mission: turns(
        { calls: [plan("a", "b"), dispatch("a", `Write a. [${name}]`, { checks: [] })] },
        { text: "Runs." },
        { calls: [finish("blocked", "Look first.")] },
        { calls: [dispatch("b", `Write b. [${name}]`, { checks: [] })] },
        { text: "Runs." },
        { calls: [finish()] },
      ),
      task: (turn, { first }) =>
        turn === 0 ? write(/Write (\w)\./.exec(first)?.[1] ?? "", "x\n") : { text: "Wrote it." },
    });
    const missionID = `m-${name}`;
    await wake(url, directory, { text: `[${name}]`, missionID, landing: "branch" });
    await restOf(url, directory, missionID);
    between(directory, `sortie/${missionID}`);
    await wake(url, directory, { missionID, text: "Go on." });
    await until(
      () => missionOf(url, directory, missionID),
      ({ state, tasks }) => state === "done" && tasks.length === 2,
      30_000,
    );
    expect(git(directory, "status", "--porcelain")).toBe("");
    return git(directory, "ls-tree", "--name-only", `sortie/${missionID}`).split("\n");
  };
  const removed = (directory: string, branch: string) => git(directory, "branch", "-D", branch);
  // Merged in one commit and changed since then: what the project has now is what counts.
  const squashed = (directory: string, branch: string) => {
    git(directory, "merge", "-q", "--squash", branch);
    git(directory, "commit", "-q", "-m", "all of it");
    removed(directory, branch);
    commit(directory, "since.txt", "x\n");
  };
  const added = (directory: string, branch: string) => {
    git(directory, "checkout", "-q", branch);
    commit(directory, "mine.txt", "mine\n");
    git(directory, "checkout", "-q", "main");
  };
  const began = [filesAfter("removed", removed), filesAfter("squashed", squashed), filesAfter("added", added)];
  expect(await Promise.all(began)).toEqual([
    ["a", "a.txt", "b"],
    ["a", "a.txt", "b", "since.txt"],
    ["a", "a.txt", "b", "mine.txt"],
  ]);
});

test("a branch that the user has left is merged into all the same, and files and index stay as they are", async () => {
  const { url } = stage.service;
  const directory = stage.project();
  onePhase("left", "made.txt", "x\n");
  const { missionID } = await wake(url, directory, { text: "[left]", landing: "branch" });
  await restOf(url, directory, missionID);
  git(directory, "checkout", "-q", "-b", "elsewhere");
  commit(directory, "a.txt", "of another branch\n");
  writeFileSync(join(directory, "a.txt"), "and edited\n");
  const before = git(directory, "rev-parse", "HEAD");
  await merge(directory, missionID);
  expect(await mergedOf(directory, missionID)).toMatchObject({ merged: { state: "merged", branch: "main" } });
  expect(git(directory, "show", "main:made.txt")).toBe("x");
  expect([git(directory, "rev-parse", "HEAD"), git(directory, "branch", "--show-current")]).toEqual([
    before,
    "elsewhere",
  ]);
  expect([readText(directory, "a.txt"), git(directory, "status", "--porcelain")]).toEqual(["and edited\n", " M a.txt"]);
});

test("a conflict is put before the squad's agents, with both sides", async () => {
  const { url } = stage.service;
  const directory = stage.project();
  let told = "";
  stage.play("resolve", {
    mission: turns(),
    task: turns((_turn, { first, body }) => {
      told = `${first}\n${JSON.stringify(body.messages)}`;
      return write("a.txt", "mine and theirs\n");
    }),
  });
  onePhase("conflict", "a.txt", "theirs\n");
  const { missionID } = await wake(url, directory, { text: "[conflict]", title: "Both [resolve]", landing: "branch" });
  await restOf(url, directory, missionID);
  commit(directory, "a.txt", "mine\n");
  await merge(directory, missionID);
  const mission = await mergedOf(directory, missionID);
  expect(mission).toMatchObject({ state: "done", merged: { state: "merged" } });
  expect(told).toContain("could not be merged into main automatically: both changed the same places in a.txt");
  expect(readText(directory, "a.txt")).toBe("mine and theirs\n");
  expect(git(directory, "rev-list", "--count", "--merges", "main")).toBe("1");
});

test("a merge that fails is told, nothing is lost, and it can be asked for again", async () => {
  const { url } = stage.service;
  const directory = stage.project();
  onePhase("fails", "a.txt", "theirs\n", { task: turns(write("a.txt", "theirs\n"), { text: "Wrote it." }) });
  const { missionID } = await wake(url, directory, {
    text: "[fails]",
    title: "Nobody resolves it",
    landing: "branch",
    merge: "auto",
    checks: ["grep -q theirs a.txt"],
  });
  // The user's own edit of the same line, before the merge and not committed: the landing meets it.
  await until(
    () => missionOf(url, directory, missionID),
    ({ tasks }) => tasks.length > 0,
  );
  commit(directory, "a.txt", "mine\n");
  const failed = await mergedOf(directory, missionID);
  expect(failed).toMatchObject({ state: "blocked", outcome: "done", merged: { state: "failed", commit: null } });
  expect(failed.stateReason).toContain("It is done, and its branch was not merged: ");
  expect([readText(directory, "a.txt"), git(directory, "status", "--porcelain")]).toEqual(["mine\n", ""]);
  expect(git(directory, "show", `${failed.landingBranch}:a.txt`)).toBe("theirs");
  git(directory, "revert", "--no-edit", "HEAD");
  const again = await merge(directory, missionID);
  expect(again.status).toBe(202);
  await until(
    () => missionOf(url, directory, missionID),
    ({ merged }) => merged?.taskID === again.body["taskID"] && merged?.state === "merged",
    30_000,
  );
  expect(readText(directory, "a.txt")).toBe("theirs\n");
});

test("what no Mission of the project can do is refused at the door", async () => {
  const { url } = stage.service;
  const directory = stage.project();
  const asked = (body: object) =>
    send(url, at("/mission/wake", directory), { method: "POST", body: { text: "[door]", ...body } });
  stage.play("door", { mission: turns({ calls: [finish()] }) });
  const refused = async (body: object) => (await asked(body)).body["issues"];
  expect(await refused({ merge: "auto" })).toMatchObject([{ path: "body.merge" }]);
  expect(await refused({ landing: "commit", merge: "manual" })).toMatchObject([{ path: "body.merge" }]);
  expect(await refused({ landing: "pull-request" })).toMatchObject([{ path: "body.landing" }]);
  const { missionID } = await wake(url, directory, { text: "[door]" });
  expect(await refused({ missionID, landing: "branch" })).toMatchObject([{ path: "body.landing" }]);
  await restOf(url, directory, missionID);
  const { body } = await merge(directory, missionID);
  expect(body).toMatchObject({ code: "not_mergeable", details: { missionID } });
  const other = await wake(url, directory, { text: "[door]", landing: "branch", merge: "auto" });
  expect(await restOf(url, directory, other.missionID)).toMatchObject({ state: "done", landingBranch: null });
  expect(await asked({ missionID: other.missionID, landing: "branch", merge: "manual" })).toMatchObject({
    status: 200,
  });
});

test("what nobody could land is refused at the door", async () => {
  const { url } = stage.service;
  const directory = stage.project();
  rmSync(join(directory, ".git"), { recursive: true });
  stage.play("in-place", { mission: turns({ calls: [finish()] }) });
  const asked = (body: object) =>
    send(url, at("/mission/wake", directory), { method: "POST", body: { text: "[in-place]", ...body } });
  for (const [field, body] of [
    ["landing", { landing: "branch" }],
    ["approve", { approve: ["plan", "landing"] }],
  ] as const)
    expect(await asked(body)).toMatchObject({ status: 400, body: { issues: [{ path: `body.${field}` }] } });
  // Control: a plan can be approved there, and a commit can be landed.
  expect(await asked({ approve: ["plan"] })).toMatchObject({ status: 200 });
  git(directory, "init", "-q", "-b", "main");
  commit(directory, "b.txt", "two\n");
  expect(await asked({ approve: ["landing"] })).toMatchObject({ status: 200 });
});
