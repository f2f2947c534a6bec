import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { entriesOf } from "../../harness/entries.ts";
import { git, readText, until, writeFiles } from "../../harness/project.ts";
import { at, logOf, post, send, settledTask } from "../../harness/double/hostile-text.ts";
import { textOf } from "../../harness/double/mock-provider.ts";
import { countSkipped, freshSchema, postgresURL } from "../../harness/postgres.ts";
import {
  dispatch,
  eventsOf,
  finish,
  missionOf,
  openStage,
  plan,
  replan,
  restOf,
  type Say,
  type Stage,
  taskIn,
  taskOf,
  turns,
  wake,
} from "../../harness/double/missions.ts";

/** A Mission over the wire: what its agent is told, what it dispatches, what wakes it. */

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
});
afterAll(() => stage[Symbol.asyncDispose]());

const write = (path: string, content = "made\n") => ({ tool: "write", input: { path, content } });
/** Writes the file that its request names. */
const worker: Say = (turn, { first }) =>
  turn === 0 ? { calls: [write(/Write (\S+)\./.exec(first)?.[1] ?? "x.txt")] } : { text: `Wrote it. ${first}` };
const facts = async (directory: string, missionID: string) =>
  (await eventsOf(stage.service.url, directory, missionID)).filter(({ taskID }) => taskID === undefined);

describe("the road", () => {
  test("a wake becomes a plan, a Task, its landing, a word on the whole", async () => {
    stage.play("road", {
      mission: turns(
        {
          calls: [
            {
              tool: "plan",
              input: {
                phases: [
                  {
                    id: "one",
                    title: "Phase one",
                    objective: "It is kept.",
                    acceptance: ["It is made", "No torn lines"],
                  },
                ],
              },
            },
          ],
        },
        { calls: [dispatch("one", "Write one.txt. [road]")] },
        { text: "One Task runs." },
        { calls: [finish()] },
      ),
      task: worker,
    });
    const directory = stage.project();
    const { url } = stage.service;
    const woken = await wake(url, directory, { text: "Make it so. [road]" });
    expect(woken).toMatchObject({ created: true, missionID: expect.stringMatching(/^[0-9a-f]{16}$/) });
    const mission = await restOf(url, directory, woken.missionID);
    expect(mission).toMatchObject({
      status: "inactive",
      finished: { outcome: "done" },
      taskCounts: { total: 1, running: 0, inactive: 1 },
      progress: { total: 1, percent: 0 },
      tasks: [{ lifecycleStatus: "completed", missionID: woken.missionID, squad: { id: "base" } }],
      plan: [{ id: "one", state: "done", attempts: 1 }],
    });
    // Its own four, and what its Task used.
    expect(mission.usage.modelCalls).toBe(4 + (mission.tasks[0]?.usage.modelCalls ?? 0));
    expect(readText(directory, "one.txt")).toBe("made\n");
    expect(git(directory, "log", "--format=%s").split("\n")).toHaveLength(2);
    const taskID = mission.tasks[0]?.taskID ?? "";
    expect(git(directory, "log", "-1", "--format=%(trailers)").trim()).toBe(
      `Task: ${taskID}\nMission: ${woken.missionID}\nPhase: one\nSquad: base@0.3.0`,
    );
    // Whoever reviewed it had the phase as the plan has it.
    const [review] = (await logOf(url, taskID)).flatMap((frame) =>
      frame.type === "session.started" ? [frame.data] : [],
    );
    expect(review?.purpose).toBe("review");
    expect(JSON.stringify(review?.brief)).toMatch(
      /Phase one: It is kept\.\\n[^\\]*criterion of its own[^\\]*\\n- It is made\\n- No torn lines\\n/,
    );
    const own = await facts(directory, woken.missionID);
    expect(own.filter(({ type }) => type === "task.ended")).toHaveLength(1);
    expect(own.every(({ missionID }) => missionID === woken.missionID)).toBe(true);
  });

  test("phases without a dependency run at once; one with it starts from what they landed, with a handover", async () => {
    const handed: string[] = [];
    stage.play("fan", {
      mission: turns(
        { calls: [plan("a", "b", { id: "c", after: ["a", "b"] })] },
        {
          calls: [
            dispatch("a", "Write a1.txt. [fan]"),
            dispatch("b", "Write b1.txt. [fan]"),
            dispatch("c", "Write c1.txt. [fan]"),
          ],
        },
        (_turn, _request, newest) => {
          expect(newest).toContain(
            "Phase c starts from a (running), b (running), which are not done. You are woken when what runs has ended. Nothing was dispatched.",
          );
          return { text: "Two run." };
        },
        (_turn, _request, newest) => ({ text: `Heard: ${newest.length}` }),
        (_turn, _request, newest) =>
          newest.includes("ended completed")
            ? { calls: [dispatch("c", "Write c1.txt. [fan]"), { tool: "task_status", input: {} }] }
            : { text: "?" },
        { text: "c runs." },
        { calls: [finish()] },
      ),
      task: (turn, request, newest) => {
        const texts = request.body.messages.map(({ content }) => JSON.stringify(content)).join("\n");
        if (request.first.includes("c1.txt") && turn === 0) handed.push(texts);
        return worker(turn, request, newest);
      },
    });
    const directory = stage.project();
    const { url } = stage.service;
    const { missionID } = await wake(url, directory, { text: "Three files. [fan]" });
    const mission = await restOf(url, directory, missionID);
    expect(mission.plan.map(({ id, state }) => [id, state])).toEqual([
      ["a", "done"],
      ["b", "done"],
      ["c", "done"],
    ]);
    for (const name of ["a1.txt", "b1.txt", "c1.txt"]) expect(readText(directory, name)).toBe("made\n");
    const landed = mission.tasks.slice(0, 2).map(({ git: { landedCommit } }) => landedCommit);
    for (const commit of landed) expect(handed[0]).toContain(`It landed as ${commit}`);
    expect(handed[0]).toContain("What the phases left that it starts from");
  });

  test("its Tasks are the project's: filtered by missionID, with the Mission in every frame", async () => {
    const directory = stage.project();
    const { url } = stage.service;
    stage.play("mark", {
      mission: turns(
        { calls: [plan("m"), dispatch("m", "Write m.txt. [mark]")] },
        { text: "It runs." },
        { calls: [finish()] },
      ),
      task: worker,
    });
    const { missionID } = await wake(url, directory, { missionID: "mark-1", text: "[mark]" });
    await post(url, "/task", directory, { request: "another [mark]", productPillar: "code" });
    await restOf(url, directory, missionID);
    const { body } = await send(url, at(`/tasks?missionID=${missionID}`, directory));
    expect(body).toMatchObject([{ missionID }]);
    expect(await send(url, at("/tasks?missionID=Not%20One", directory))).toMatchObject({ status: 400 });
    const all = await eventsOf(url, directory, missionID);
    expect(new Set(all.map((event) => event.missionID))).toEqual(new Set([missionID]));
    expect(new Set(all.map(({ taskID }) => taskID))).toEqual(new Set([undefined, (body as never)[0]["taskID"]]));
    const ids = all.map(({ id }) => id);
    expect(ids).toEqual(ids.toSorted((one, other) => one - other));
  });
});

describe("what goes wrong", () => {
  test("a failed Task is tried again with another brief at most twice, then reported; the same brief is refused", async () => {
    stage.play("fail", {
      mission: turns(
        { calls: [plan("f")] },
        { calls: [dispatch("f", "Write f.txt. [fail]", { checks: ["test -e never"] })] },
        (_turn, _request, newest) => {
          expect(newest).toMatch(/ended failed[\s\S]*test -e never/);
          return { calls: [dispatch("f", "Write f.txt. [fail]")] };
        },
        (_turn, _request, newest) => {
          expect(newest).toContain("failed with this very brief");
          return { calls: [dispatch("f", "Write f.txt. Again. [fail]", { checks: ["false"] })] };
        },
        { calls: [dispatch("f", "Write f.txt. Once more. [fail]", { checks: ["false"] })] },
        { calls: [dispatch("f", "Write f.txt. A last time. [fail]")] },
        (_turn, _request, newest) => {
          expect(newest).toContain("failed 3 times and is not tried again");
          return { calls: [finish("done")] };
        },
        (_turn, _request, newest) => {
          expect(newest).toContain("these are not: f (failed)");
          return { calls: [finish("blocked", "It failed three times.")] };
        },
      ),
      task: worker,
    });
    const directory = stage.project();
    const { url } = stage.service;
    const { missionID } = await wake(url, directory, { text: "[fail]" });
    const mission = await restOf(url, directory, missionID);
    expect(mission).toMatchObject({
      finished: { outcome: "blocked" },
      taskCounts: { total: 3 },
      plan: [{ state: "failed", attempts: 3 }],
    });
    expect(mission.tasks.map(({ lifecycleStatus }) => lifecycleStatus)).toEqual(["failed", "failed", "failed"]);
  });

  test("it plans anew after a failed Task, whose checks say what they want and what they got", async () => {
    const check = { kind: "command", name: "look", run: "cat x.txt", expect: { stdoutMatches: "^other" } };
    const asked: string[] = [];
    stage.play("replan", {
      mission: turns(
        { calls: [plan("x"), dispatch("x", "Write x.txt. [replan]", { checks: [check] })] },
        { text: "Runs." },
        (_turn, _request, newest) => {
          const taskID = taskIn(newest);
          return { calls: [{ tool: "task_evidence", input: { task: taskID, part: "checks" } }] };
        },
        (_turn, _request, newest) => {
          expect(newest).toMatch(/"examines": "cat x\.txt"[\s\S]*"state": "failed"[\s\S]*"reason": "[^"]*\^other/);
          return { calls: [replan(["x"], "y"), dispatch("y", "Write y.txt. [replan]")] };
        },
        { text: "Runs." },
        { calls: [finish("done", "By another way.")] },
      ),
      task: (turn, request, newest) => {
        asked.push(textOf(request.body.messages[0]?.content));
        return worker(turn, request, newest);
      },
    });
    const directory = stage.project();
    const { url } = stage.service;
    const { missionID } = await wake(url, directory, { text: "[replan]" });
    const mission = await restOf(url, directory, missionID);
    expect(mission).toMatchObject({ finished: { outcome: "done" }, plan: [{ id: "y", state: "done" }] });
    expect(asked[0]).toContain("`cat x.txt` prints what matches /^other/ (command)");
    expect(readText(directory, "y.txt")).toBe("made\n");
  });

  test("its calls act on what is so when they run: a Task that ended while the model thought has ended", async () => {
    const { url } = stage.service;
    const said: string[] = [];
    stage.play("meanwhile", {
      mission: turns(
        { calls: [plan("a"), dispatch("a", "Write a.txt. [meanwhile]")] },
        async (_turn, _request, newest) => {
          await settledTask(url, taskIn(newest));
          return { calls: [{ tool: "task_status", input: {} }, finish("done", "It is there.")] };
        },
        (_turn, _request, newest) => {
          said.push(newest);
          return { calls: [finish("done", "It is there.")] };
        },
      ),
      task: worker,
    });
    const directory = stage.project();
    const { missionID } = await wake(url, directory, { text: "[meanwhile]", budget: { maxSteps: 90 } });
    const mission = await restOf(url, directory, missionID);
    expect(mission).toMatchObject({ finished: { outcome: "done" }, plan: [{ id: "a", state: "done" }] });
    const events = await eventsOf(url, directory, missionID);
    expect(said[0]).toContain("A message came in while this was decided");
    const looked = events.find(({ type, data }) => type === "tool.finished" && data["tool"] === "task_status");
    const seen = String(looked?.data["output"]);
    expect(seen).toMatch(/"state": "done"/);
    expect(seen).toMatch(
      /"used": \{[^}]*"maxCostUSD": null[^}]*"maxSteps": [1-9][^}]*\}[\s\S]*"reserved": \{[^}]*"maxSteps": 0/,
    );
  });

  test("a plan with a circle, unknown ids or ids twice is refused, and the one before stays", async () => {
    stage.play("circle", {
      mission: turns(
        { calls: [plan("a", { id: "b", after: ["a"] })] },
        { calls: [plan({ id: "a", after: ["b"] }, { id: "b", after: ["a"] })] },
        (_turn, _request, newest) => {
          expect(newest).toContain("without a circle");
          return { calls: [replan(["b"], { id: "a", after: ["z"] }), replan(["b"], "a", "a")] };
        },
        (_turn, _request, newest) => {
          expect(newest).toContain('got "z"');
          expect(newest).toContain('got "a" twice');
          return { calls: [dispatch("q", "nothing [circle]"), finish("blocked")] };
        },
      ),
    });
    const directory = stage.project();
    const { missionID } = await wake(stage.service.url, directory, { text: "[circle]" });
    const mission = await restOf(stage.service.url, directory, missionID);
    expect(mission.plan.map(({ id, after }) => [id, after])).toEqual([
      ["a", []],
      ["b", ["a"]],
    ]);
    expect(mission.taskCounts.total).toBe(0);
  });

  test("a phase whose Task runs stays in the plan; once it is cancelled it may go", async () => {
    await using other = await openStage();
    const said: string[] = [];
    other.play("stay", {
      mission: (turn, _request, newest) => {
        said.push(newest);
        const taskID = taskIn(newest);
        return (
          [
            { calls: [plan("a"), dispatch("a", "Write a.txt. [stay]")] },
            { calls: [plan("b"), { tool: "task_cancel", input: { task: taskID, reason: "another way" } }] },
            { text: "Waiting for its end." },
            { calls: [replan(["a"], "b")] },
          ][turn] ?? { calls: [finish("blocked", "Another way.")] }
        );
      },
      task: () => ({ text: "…", hold: true }),
    });
    const directory = other.project();
    const { url } = other.service;
    const { missionID } = await wake(url, directory, { text: "[stay]" });
    const mission = await restOf(url, directory, missionID);
    expect(said[2]).toContain(
      'Expected the phase "a", whose Task runs, to stay; end that with `task_cancel`, which may stand before this in the same reply. The plan is as it was.',
    );
    expect(mission.tasks).toMatchObject([
      { lifecycleStatus: "cancelled", error: expect.stringContaining("another way") },
    ]);
    expect(said.join("\n")).not.toContain("the user cancelled it");
    expect(mission.plan.map(({ id }) => id)).toEqual(["b"]);
  });

  test("one that has done all and does not say so is told once, and then finishes", async () => {
    stage.play("mum", {
      mission: turns(
        { calls: [plan("a")] },
        { calls: [dispatch("a", "Write a.txt. [mum]")] },
        { text: "It has landed." },
        (_turn, _request, newest) => {
          expect(newest).toContain("you have not called `finish`");
          return { calls: [finish()] };
        },
      ),
      task: worker,
    });
    const directory = stage.project();
    const { missionID } = await wake(stage.service.url, directory, { text: "[mum]" });
    expect(await restOf(stage.service.url, directory, missionID)).toMatchObject({ finished: { outcome: "done" } });
    const own = await facts(directory, missionID);
    expect(own.filter(({ type }) => type === "mission.reminded")).toHaveLength(1);
  });

  test("an agent that stops in the middle is told so once, and then left in peace", async () => {
    stage.play("stop", { mission: turns({ calls: [plan("a")] }, { text: "Enough." }, { text: "No." }) });
    const directory = stage.project();
    const { url } = stage.service;
    const { missionID } = await wake(url, directory, { text: "[stop]" });
    await until(
      () => facts(directory, missionID),
      (events) => events.filter(({ type }) => type === "reply.finished").length === 3,
    );
    const before = stage.provider.count();
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(stage.provider.count()).toBe(before);
    const own = await facts(directory, missionID);
    expect(own.filter(({ type }) => type === "mission.reminded")).toHaveLength(1);
    expect(await missionOf(url, directory, missionID)).toMatchObject({ agentStatus: "inactive", finished: null });
  });

  test("a model that cannot be called is an error of the Mission's, and a wake tries again", async () => {
    await using other = await openStage({}, { model: "mock/large" });
    const directory = other.project();
    const { url } = other.service;
    other.play("broken", {
      mission: turns({ fail: { status: 401, message: "no such key" } }),
    });
    const { missionID } = await wake(url, directory, { text: "[broken]" });
    const mission = await restOf(url, directory, missionID);
    expect(mission).toMatchObject({
      agentStatus: "inactive",
      error: expect.any(String),
      errorInfo: { at: expect.any(String) },
    });
    other.play("broken", { mission: turns({ calls: [finish("blocked", "Back.")] }) });
    await wake(url, directory, { missionID, text: "again" });
    const again = await restOf(url, directory, missionID);
    expect(again).toMatchObject({ finished: { summary: "Back." } });
    expect(again.error).toBeUndefined();
  });
});

describe("wakes", () => {
  test("one in the middle is read at the next step, and changes direction", async () => {
    let told = "";
    stage.play("turn", {
      mission: turns(
        { calls: [plan("left")] },
        { text: "…", hold: true, calls: [{ tool: "task_status", input: {} }] },
        (_turn, _request, newest) => {
          told = newest;
          return { calls: [replan(["left"], "right"), dispatch("right", "Write right.txt. [turn]")] };
        },
        { text: "Runs." },
        { calls: [finish()] },
      ),
      task: worker,
    });
    const directory = stage.project();
    const { url } = stage.service;
    const { missionID } = await wake(url, directory, { missionID: "turn", text: "Go left. [turn]" });
    await until(
      () => Promise.resolve(stage.provider.held()),
      (held) => held === 1,
    );
    expect(await wake(url, directory, { missionID, text: "No: go right.", title: "ignored" })).toMatchObject({
      created: false,
    });
    stage.provider.release();
    const mission = await restOf(url, directory, missionID);
    expect(told).toContain("No: go right.");
    expect(mission).toMatchObject({ title: "Go left. [turn]", plan: [{ id: "right", state: "done" }] });
  });

  test("fifty at once make one Mission with one session", async () => {
    stage.play("many", { mission: () => ({ calls: [finish("blocked", "One.")] }) });
    const directory = stage.project();
    const { url } = stage.service;
    const woken = await Promise.all(
      Array.from({ length: 50 }, (_, index) => wake(url, directory, { missionID: "many", text: `${index} [many]` })),
    );
    expect(new Set(woken.map(({ sessionID }) => sessionID)).size).toBe(1);
    expect(woken.filter(({ created }) => created)).toHaveLength(1);
    await restOf(url, directory, "many");
    const own = await facts(directory, "many");
    expect(own.filter(({ type }) => type === "mission.created")).toHaveLength(1);
    expect(own.filter(({ type }) => type === "mission.woken")).toHaveLength(50);
  });

  test("worktrees of a repository are one project; another project has Missions of its own", async () => {
    stage.play("place", { mission: () => ({ calls: [finish("blocked", "Here.")] }) });
    const directory = stage.project();
    const worktree = `${directory}-tree`;
    git(directory, "worktree", "add", "-q", worktree);
    const { url } = stage.service;
    const one = await wake(url, directory, { missionID: "place", text: "[place]" });
    const same = await wake(url, worktree, { missionID: "place", text: "more" });
    // Its id alone finds it, and the project that it is in; in several it is not told which is meant.
    const found = await send(url, "/mission/place");
    expect(found).toMatchObject({ status: 200, body: { missionID: "place", sessionID: one.sessionID, directory } });
    expect(found.body).toMatchObject({ plan: [], tasks: [] });
    const other = await wake(url, stage.project(), { missionID: "place", text: "[place]" });
    expect(await send(url, "/mission/place")).toMatchObject({ status: 400, body: { code: "directory_required" } });
    expect(await send(url, at("/mission/place", worktree))).toMatchObject({ status: 200, body: { directory } });
    expect(same).toEqual({ ...one, created: false });
    expect(other).toMatchObject({ created: true });
    expect(other.sessionID).not.toBe(one.sessionID);
    const bare = await send(url, "/mission/place/messages");
    expect(bare).toMatchObject({ status: 400, body: { code: "directory_required" } });
    const elsewhere = await send(url, at("/mission/place/status", stage.project()));
    expect(elsewhere).toMatchObject({ status: 409, body: { code: "directory_mismatch" } });
  });

  test("a text is needed to begin one and not to go on; unknown squads and models are refused, nothing is written", async () => {
    const directory = stage.project();
    const { url } = stage.service;
    const refused = async (body: object) => post(url, "/mission/wake", directory, body);
    expect(await refused({ missionID: "none" })).toMatchObject({
      status: 400,
      body: { code: "invalid_request", issues: [{ path: "body.text" }] },
    });
    expect(await refused({ text: "x", squads: ["nobody"] })).toMatchObject({
      status: 422,
      body: { code: "squad_not_available" },
    });
    expect(await refused({ text: "x", model: "nobody/large" })).toMatchObject({ status: 422 });
    expect(await refused({ text: "x", budget: { maxHours: 5 } })).toMatchObject({
      status: 400,
      body: { issues: [{ path: "body.budget.maxHours" }] },
    });
    expect((await send(url, at("/missions", directory))).body).toEqual([]);
    stage.play("bare", { mission: () => ({ calls: [finish("blocked", "Here.")] }) });
    await wake(url, directory, { missionID: "bare", text: "[bare]" });
    await restOf(url, directory, "bare");
    expect(await wake(url, directory, { missionID: "bare" })).toMatchObject({ created: false });
    await restOf(url, directory, "bare");
  });

  test("an answered question wakes it, and a wake instead of an answer closes it", async () => {
    stage.play("ask", {
      mission: turns(
        { calls: [{ tool: "ask", input: { question: "Red or blue?", options: ["red", "blue"] } }] },
        (_turn, _request, newest) => ({ text: newest, calls: [{ tool: "ask", input: { question: "Sure?" } }] }),
        (_turn, _request, newest) => ({ calls: [finish("blocked", newest)] }),
      ),
    });
    const directory = stage.project();
    const { url } = stage.service;
    const { missionID } = await wake(url, directory, { text: "[ask]" });
    const asking = await restOf(url, directory, missionID);
    expect(asking).toMatchObject({ agentStatus: "inactive", pending: [{ kind: "question", prompt: "Red or blue?" }] });
    const path = `/mission/${missionID}/pending/${asking.pending[0]?.id}`;
    expect(await post(url, path, directory, { decision: "allow" })).toMatchObject({ status: 400 });
    expect(await post(url, path, directory, { answer: "blue" })).toMatchObject({
      status: 200,
      body: { accepted: true },
    });
    const again = await until(
      () => missionOf(url, directory, missionID),
      ({ pending }) => pending[0]?.prompt === "Sure?",
    );
    expect(await post(url, path, directory, { answer: "red" })).toMatchObject({
      status: 409,
      body: { code: "ask_closed" },
    });
    expect(again.finished).toBeNull();
    await wake(url, directory, { missionID, text: "Never mind." });
    const mission = await restOf(url, directory, missionID);
    expect(mission.finished?.summary).toContain("Never mind.");
  });

  test("a wake that only sets something closes no question: its agent reads nothing, and the answer counts", async () => {
    stage.play("sets", {
      mission: turns({ calls: [{ tool: "ask", input: { question: "Red or blue?" } }] }, (_turn, _request, newest) => ({
        calls: [finish("blocked", newest)],
      })),
    });
    const directory = stage.project();
    const { url } = stage.service;
    const { missionID } = await wake(url, directory, { text: "[sets]" });
    const { pending } = await restOf(url, directory, missionID);
    await wake(url, directory, { missionID, limits: { askSeconds: 0 }, budget: { maxSteps: 90 } });
    const asking = await restOf(url, directory, missionID);
    expect(asking).toMatchObject({ state: "asking", pending, budget: { maxSteps: 90 }, limits: { askSeconds: 0 } });
    await post(url, `/mission/${missionID}/pending/${pending[0]?.id}`, directory, { answer: "blue" });
    const { finished } = await until(
      () => missionOf(url, directory, missionID),
      (mission) => mission.finished !== null,
    );
    expect(finished?.summary).toContain("blue");
    expect(finished?.summary).not.toContain("without a text");
    // Control: with nothing open it is woken, and told that it was.
    await wake(url, directory, { missionID });
    const heard = (await facts(directory, missionID)).filter(({ type }) => type === "message.received");
    expect(heard.map(({ data: { source } }) => source)).toEqual(["user", "service"]);
    expect(heard[1]?.data["text"]).toContain("The user woke you without a text.");
  });

  test("a time that it set wakes it", async () => {
    stage.play("time", {
      mission: turns(
        { calls: [finish("waiting", "Later.", { wakeInMinutes: 1 })] },
        { calls: [finish("blocked", "x")] },
      ),
    });
    const directory = stage.project();
    const { missionID } = await wake(stage.service.url, directory, { text: "[time]" });
    const mission = await restOf(stage.service.url, directory, missionID);
    const wakeAt = Date.parse(mission.finished?.wakeAt ?? "");
    expect(wakeAt - Date.now()).toBeGreaterThan(50_000);
    expect(wakeAt - Date.now()).toBeLessThan(61_000);
  });
});

describe("abort, delete, archive", () => {
  const slow = (name: string) => ({
    mission: turns(
      { calls: [plan("s"), dispatch("s", `Write s.txt. [${name}]`)] },
      { text: "Runs." },
      (_turn, _request, newest) => ({ calls: [finish("done", newest)] }),
    ),
    task: (turn: number) =>
      turn === 0 ? { calls: [{ tool: "shell", input: { command: "sleep 1; echo x > s.txt" } }] } : { text: "Done." },
  });

  test("an aborted Mission is woken by no Task's end; a wake tells it what ended", async () => {
    stage.play("abort", slow("abort"));
    const directory = stage.project();
    const { url } = stage.service;
    const { missionID, sessionID } = await wake(url, directory, { text: "[abort]" });
    await until(
      () => missionOf(url, directory, missionID),
      ({ status, agentStatus }) => status === "running" && agentStatus === "inactive",
    );
    const aborted = await post(url, `/mission/${missionID}/abort`, directory, { surface: "api", reason: "wait" });
    expect(aborted).toMatchObject({
      status: 200,
      body: { missionID, sessionID, aborted: true, status: "running", tasksRunning: 1 },
    });
    expect(await post(url, `/mission/${missionID}/abort`, directory, {})).toMatchObject({ status: 200 });
    expect(await missionOf(url, directory, missionID)).toMatchObject({
      aborted: true,
      error: "Aborted by api: wait",
      errorInfo: { code: "aborted", remedy: "Wake the Mission to continue.", at: expect.any(String) },
    });
    await until(
      () => missionOf(url, directory, missionID),
      ({ status }) => status === "inactive",
    );
    await new Promise((resolve) => setTimeout(resolve, 200));
    const before = await facts(directory, missionID);
    expect(before.filter(({ type }) => type === "mission.aborted")).toHaveLength(1);
    expect(before.filter(({ type }) => type === "task.ended")).toHaveLength(0);
    await wake(url, directory, { missionID, text: "Go on." });
    const mission = await restOf(url, directory, missionID);
    expect(mission.finished?.summary).toContain("ended completed");
    expect(mission.aborted).toBe(false);
    expect(mission.error).toBeUndefined();
  });

  test.each(["abort", "delete"] as const)(
    "%s in the middle of a reply: nothing of it is heard any more",
    async (how) => {
      await using other = await openStage();
      other.play("middle", {
        mission: turns({ calls: [plan("a"), dispatch("a", "Write a.txt. [middle]")], hold: true }),
        task: worker,
      });
      const directory = other.project();
      const { url } = other.service;
      const { missionID, sessionID } = await wake(url, directory, { text: "[middle]" });
      await until(
        () => Promise.resolve(other.provider.held()),
        (held) => held === 1,
      );
      expect((await missionOf(url, directory, missionID)).agentStatus).toBe("running");
      const done =
        how === "abort"
          ? await post(url, `/mission/${missionID}/abort`, directory, {})
          : await send(url, at(`/mission/${missionID}`, directory), { method: "DELETE" });
      expect(done.status).toBe(200);
      other.provider.release();
      await new Promise((resolve) => setTimeout(resolve, 300));
      expect((await send(url, at("/tasks", directory))).body).toEqual([]);
      const { body } = await send(url, `/events?format=json&after=0`);
      const facts = (body["events"] as { type: string; sessionID?: string }[]).filter(
        (fact) => fact.sessionID === sessionID,
      );
      expect(facts.flatMap(({ type }) => (type === "run.started" ? [] : [type]))).toEqual(
        how === "abort" ? ["mission.created", "mission.woken", "message.received", "mission.aborted"] : [],
      );
      if (how === "abort") expect((await missionOf(url, directory, missionID)).agentStatus).toBe("inactive");
    },
  );

  test("cascade cancels its Tasks, again and again with the same answer", async () => {
    stage.play("cascade", slow("cascade"));
    const directory = stage.project();
    const { url } = stage.service;
    const { missionID } = await wake(url, directory, { text: "[cascade]" });
    await until(
      () => missionOf(url, directory, missionID),
      ({ status, agentStatus }) => status === "running" && agentStatus === "inactive",
    );
    for (let times = 0; times < 2; times += 1)
      expect(await post(url, `/mission/${missionID}/abort`, directory, { cascade: true })).toMatchObject({
        status: 200,
      });
    const mission = await until(
      () => missionOf(url, directory, missionID),
      ({ status }) => status === "inactive",
    );
    expect(mission.tasks).toMatchObject([{ lifecycleStatus: "cancelled" }]);
  });

  test("delete keeps the Tasks, is 404 a second time, and the id begins anew without them", async () => {
    stage.play("gone", slow("gone"));
    const directory = stage.project();
    const { url } = stage.service;
    const one = await wake(url, directory, { missionID: "gone", text: "[gone]" });
    const { tasks } = await until(
      () => missionOf(url, directory, "gone"),
      ({ taskCounts }) => taskCounts.total === 1,
    );
    const remove = () => send(url, at("/mission/gone?surface=api", directory), { method: "DELETE" });
    expect(await remove()).toMatchObject({ status: 200, body: { missionID: "gone", deleted: true } });
    expect(await remove()).toMatchObject({ status: 404, body: { code: "mission_not_found" } });
    expect(await send(url, at("/mission/gone/status", directory))).toMatchObject({ status: 404 });
    stage.play("anew", { mission: () => ({ calls: [finish("blocked", "New.")] }) });
    const two = await wake(url, directory, { missionID: "gone", text: "[anew]" });
    expect(two).toMatchObject({ created: true });
    expect(two.sessionID).not.toBe(one.sessionID);
    const taskID = tasks[0]?.taskID ?? "";
    await until(
      () => taskOf(url, taskID),
      ({ status }) => status === "inactive",
    );
    const mission = await restOf(url, directory, "gone");
    expect(mission).toMatchObject({ taskCounts: { total: 0 }, finished: { summary: "New." } });
    expect((await facts(directory, "gone")).some(({ type }) => type === "task.ended")).toBe(false);
  });

  test("title, archive flag, list with search and cursor, and the ZIP", async () => {
    stage.play("list", {
      mission: turns(
        { calls: [plan("z"), dispatch("z", "Write z.txt. [list]")] },
        { text: "Runs." },
        { calls: [finish("done", "Zipped.")] },
      ),
      task: worker,
    });
    stage.play("idle", { mission: () => ({ calls: [finish("blocked", "x")] }) });
    const directory = stage.project();
    const { url } = stage.service;
    await wake(url, directory, { missionID: "first", text: "One [list]" });
    await restOf(url, directory, "first");
    for (const id of ["second", "third"]) {
      await wake(url, directory, { missionID: id, text: `${id} [idle]` });
      await restOf(url, directory, id);
    }
    const list = async (more = "") =>
      (await send(url, at(`/missions${more}`, directory))).body as unknown as {
        missionID: string;
        sessionID: string;
        updated: number;
      }[];
    const ids = async (more = "") => (await list(more)).map(({ missionID }) => missionID);
    expect(await ids()).toEqual(["third", "second", "first"]);
    const [first] = await list("?limit=1");
    expect(await ids(`?cursorUpdated=${first?.updated}&cursorSessionID=${first?.sessionID}`)).toEqual([
      "second",
      "first",
    ]);
    expect(await send(url, at("/missions?cursorUpdated=1", directory))).toMatchObject({
      status: 400,
      body: { code: "invalid_cursor" },
    });
    expect(await send(url, at("/missions?limit=201", directory))).toMatchObject({ status: 400 });
    expect(await send(url, at("/mission?search=SECOND", directory))).toMatchObject({ body: [{ missionID: "second" }] });
    expect((await list("?search=first"))[0]).toMatchObject({
      taskStats: { total: 1, running: 0, inactive: 1, completed: 1, failed: 0, cancelled: 0 },
    });
    const patch = (path: string, body: object) => send(url, at(path, directory), { method: "PATCH", body });
    expect(await patch("/mission/second/title", { title: "Renamed" })).toMatchObject({ body: { title: "Renamed" } });
    expect(await ids("?search=renamed")).toEqual(["second"]);
    expect(await patch("/mission/third/archive", { archived: true })).toMatchObject({ body: { archived: true } });
    expect(await ids()).not.toContain("third");
    expect(await ids("?archived=true")).toContain("third");
    await wake(url, directory, { missionID: "third", text: "Up." });
    expect(await ids()).toContain("third");

    const response = await fetch(`${url}${at("/mission/first/project-archive", directory)}`);
    expect(response.headers.get("content-type")).toBe("application/zip");
    const entries = entriesOf(Buffer.from(await response.arrayBuffer()));
    const names = entries.map(({ path }) => path);
    const [task] = (await missionOf(url, directory, "first")).tasks;
    for (const name of [
      "project/z.txt",
      "execution-flow/mission.json",
      "execution-flow/status.json",
      "execution-flow/plan.json",
      "execution-flow/messages.jsonl",
      `execution-flow/tasks/${task?.taskID}/task.json`,
    ])
      expect(names).toContain(name);
    const manifest = JSON.parse(
      entries
        .find(({ path }) => path.endsWith("execution-flow/manifest.json"))
        ?.read()
        .toString() ?? "",
    ) as { files: { name: string }[]; missionID: string };
    expect(manifest.missionID).toBe("first");
    expect(manifest.files.map(({ name }) => name).toSorted()).toEqual(
      names.filter((name) => name !== "execution-flow/manifest.json").toSorted(),
    );
    writeFiles(stage.root, { "plain/a.txt": "x" });
    await wake(url, `${stage.root}/plain`, { missionID: "plain", text: "[idle]" });
    expect(await send(url, at("/mission/plain/project-archive", `${stage.root}/plain`))).toMatchObject({
      status: 422,
      body: { code: "not_a_git_worktree" },
    });
  });
});

describe("the budget over the tree", () => {
  test("is reserved before a dispatch, given back at the end; reached it sleeps, and a wake with more goes on", async () => {
    stage.play("money", {
      mission: turns(
        { calls: [plan("a", "b")] },
        { calls: [dispatch("a", "Write a.txt. [money]"), dispatch("b", "Write b.txt. [money]")] },
        (_turn, _request, newest) => ({ text: newest }),
        { text: "Heard one." },
        { calls: [{ tool: "task_status", input: {} }] },
        { calls: [finish("done", "Paid.")] },
        { calls: [finish("done", "Paid.")] },
      ),
      task: worker,
    });
    const directory = stage.project();
    const { url } = stage.service;
    const { missionID } = await wake(url, directory, { text: "[money]", budget: { maxTokens: 800 } });
    const stopped = await until(
      () => missionOf(url, directory, missionID),
      ({ state, taskCounts, budgetUsed }) =>
        state === "paused" && taskCounts.total === 2 && budgetUsed.maxTokens >= 800,
    );
    const own = await facts(directory, missionID);
    const reserved = own.flatMap(({ type, data }) => (type === "task.dispatched" ? [data["reserved"]] : []));
    // Two turns of the Mission's were 220 tokens, 120 are kept for corrections; the rest was shared.
    expect(reserved).toEqual([{ maxTokens: 230 }, { maxTokens: 230 }]);
    expect(own.filter(({ type }) => type === "mission.paused")).toHaveLength(1);
    expect(stopped.finished).toBeNull();
    await wake(url, directory, { missionID, text: "Here is more.", budget: { maxTokens: 10_000 } });
    const mission = await restOf(url, directory, missionID);
    expect(mission).toMatchObject({ finished: { summary: "Paid." }, budget: { maxTokens: 10_000 } });
  });
});

test("a cap in USD cannot be kept for a model without a price, and that is told", async () => {
  stage.play("price", { mission: () => ({ calls: [{ tool: "task_status", input: {} }] }) });
  const directory = stage.project();
  const { missionID } = await wake(stage.service.url, directory, { text: "[price]", budget: { maxCostUSD: 1 } });
  const mission = await restOf(stage.service.url, directory, missionID);
  expect(mission).toMatchObject({ errorInfo: { code: "budget_reached" }, error: expect.stringContaining("price") });
});

test("an agent that goes in circles is stopped, and a wake goes on", async () => {
  stage.play("round", { mission: () => ({ calls: [{ tool: "task_status", input: {} }] }) });
  const directory = stage.project();
  const { missionID } = await wake(stage.service.url, directory, { text: "[round]" });
  const mission = await restOf(stage.service.url, directory, missionID);
  expect(mission).toMatchObject({ errorInfo: { code: "loop_detected" } });
  stage.play("round", { mission: () => ({ calls: [finish("blocked", "Out of it.")] }) });
  await wake(stage.service.url, directory, { missionID, text: "Stop that." });
  expect((await restOf(stage.service.url, directory, missionID)).finished?.summary).toBe("Out of it.");
});

describe("what its agent is told, and what is told of it", () => {
  test("its tools plan, dispatch, read and look; none writes files or runs commands; the handbook says where it stands", async () => {
    stage.play("told", { mission: () => ({ calls: [finish("blocked", "x")] }) });
    const directory = stage.project();
    const { url } = stage.service;
    const { missionID } = await wake(url, directory, { text: "[told]", squads: ["base"], budget: { maxTokens: 5000 } });
    await restOf(url, directory, missionID);
    const { request } = stage.requests.findLast(({ mission }) => mission) ?? {};
    const tools = (request?.body.tools ?? []) as { function: { name: string; description?: string } }[];
    expect(tools.map((tool) => tool.function.name)).toEqual([
      "plan",
      "phase",
      "recommend",
      "dispatch",
      "list",
      "read",
      "search",
      "git",
      "task_status",
      "task_evidence",
      "task_message",
      "task_answer",
      "task_cancel",
      "verify",
      "ask",
      "remember",
      "finish",
    ]);
    // How a squad is made is told where one may be made.
    const other = await wake(url, directory, { text: "[told]", allowSquadProduction: true });
    await restOf(url, directory, other.missionID);
    const { request: may } = stage.requests.findLast(({ mission }) => mission) ?? {};
    expect(may?.body.tools?.map((tool) => tool.function.name)).toContain("produce_squad");
    const system = JSON.stringify(request?.body.messages[0]);
    for (const line of [
      `The project is ${directory}.`,
      "The user chose these squads, and no other may be used: base.",
      "No squads may be made.",
      "Budget over everything",
    ])
      expect(system).toContain(line);
    // Short enough to be read with every request.
    expect(system.length).toBeLessThan(5_000);
    expect(JSON.stringify(tools).length).toBeLessThan(14_700);
  });

  test("what it remembers stays word for word, and what a Task says is material", async () => {
    stage.play("memo", {
      mission: turns(
        { calls: [{ tool: "remember", input: { text: "The user wants blue." } }, plan("a")] },
        { calls: [dispatch("a", "Write memo.txt. [memo]")] },
        (_turn, _request, newest) => ({
          calls: ["outcome", "diff", "checks", "artifacts"].map((part) => ({
            tool: "task_evidence",
            input: { task: taskIn(newest), part },
          })),
        }),
        (_turn, _request, newest) => ({ calls: [finish("done", newest.slice(0, 7000))] }),
      ),
      task: worker,
    });
    const directory = stage.project();
    const { url } = stage.service;
    const { missionID } = await wake(url, directory, { text: "[memo]" });
    const summary = (await restOf(url, directory, missionID)).finished?.summary ?? "";
    expect(summary).toMatch(/<data from="task_\w+ outcome">[\s\S]*<data from="task_\w+ diff">[\s\S]*\+made/);
    const notes = (await facts(directory, missionID)).filter(({ type }) => type === "note.written");
    expect(notes.map(({ data }) => data["text"])).toEqual(["The user wants blue."]);
    const { body } = await send(url, at(`/mission/${missionID}/messages`, directory));
    const messages = (body as unknown as { messages: { role: string; source: string }[] }).messages;
    expect(messages[0]).toMatchObject({ role: "user", source: "user" });
    expect(messages.some(({ source }) => source === "service")).toBe(true);
  });

  test("a key repeats the first answer, and another body under it is refused", async () => {
    stage.play("once", { mission: () => ({ calls: [finish("blocked", "x")] }) });
    const directory = stage.project();
    const { url } = stage.service;
    const send1 = (text: string) => post(url, "/mission/wake", directory, { text }, { key: "k-1" });
    const [one, two] = [await send1("[once]"), await send1("[once]")];
    expect(two.body).toEqual(one.body);
    expect(two.headers.get("idempotent-replayed")).toBe("true");
    expect(await send1("[once] other")).toMatchObject({ status: 409, body: { code: "idempotency_key_reused" } });
    expect((await send(url, at("/missions", directory))).body).toHaveLength(1);
  });

  test("its stream: the snapshot, live words, its own facts and its Tasks', until it is deleted", async () => {
    stage.play("stream", {
      mission: turns(
        { calls: [plan("s"), dispatch("s", "Write s.txt. [stream]")] },
        { text: "It runs." },
        { calls: [finish()] },
      ),
      task: worker,
    });
    const directory = stage.project();
    const { url } = stage.service;
    const { missionID } = await wake(url, directory, { missionID: "stream", text: "[stream]" });
    const path = `/mission/${missionID}/events?after=0`;
    const response = await fetch(`${url}${at(path, directory)}`);
    const frames: { id?: number; type: string; taskID?: string; missionID?: string }[] = [];
    const reading = (async () => {
      let rest = "";
      for await (const piece of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
        const blocks = (rest + piece).split("\n\n");
        rest = blocks.pop() ?? "";
        for (const block of blocks) {
          const data = /^data: (.*)$/m.exec(block)?.[1];
          if (data !== undefined) frames.push(JSON.parse(data) as (typeof frames)[number]);
        }
      }
    })();
    await restOf(url, directory, missionID);
    const all = await eventsOf(url, directory, missionID);
    await until(
      () => Promise.resolve(frames),
      (seen) => seen.some(({ id }) => id === all.at(-1)?.id),
    );
    expect(frames[0]).toMatchObject({ type: "mission.snapshot", missionID });
    expect(frames.flatMap(({ id }) => id ?? [])).toEqual(all.map(({ id }) => id));
    expect(frames.some(({ type, taskID }) => type === "landing.finished" && taskID !== undefined)).toBe(true);
    const deleted = performance.now();
    await send(url, at(`/mission/${missionID}`, directory), { method: "DELETE" });
    await reading;
    // At once, not with the next heartbeat.
    expect(performance.now() - deleted).toBeLessThan(2_000);
    expect(frames.at(-1)).toMatchObject({ type: "stream.end", missionID });
    expect(await send(url, at(`/mission/${missionID}/events?format=json`, directory))).toMatchObject({ status: 404 });
  });
});

describe.skipIf(postgresURL === undefined)("on PostgreSQL", () => {
  test("the same road, fifty wakes at once, and a Task's end that wakes", { timeout: 60_000 }, async () => {
    if (postgresURL === undefined) return;
    await using schema = freshSchema(postgresURL);
    await schema.create();
    const address = new URL(postgresURL);
    address.searchParams.set("options", `-c search_path=${schema.name}`);
    await using other = await openStage({ SERVICE_DATABASE_URL: address.href });
    other.play("many", { mission: () => ({ calls: [finish("blocked", "x")] }) });
    other.play("pg", {
      mission: turns(
        { calls: [plan("a", { id: "b", after: ["a"] }), dispatch("a", "Write a.txt. [pg]")] },
        { text: "Runs." },
        { calls: [dispatch("b", "Write b.txt. [pg]")] },
        { calls: [finish()] },
      ),
      task: worker,
    });
    const directory = other.project({ "README.md": "x\n" });
    const { url } = other.service;
    const woken = await Promise.all(
      Array.from({ length: 50 }, () => wake(url, directory, { missionID: "many", text: "[many]" })),
    );
    await wake(url, directory, { missionID: "pg", text: "[pg]" });
    expect(new Set(woken.map(({ sessionID }) => sessionID)).size).toBe(1);
    const mission = await restOf(url, directory, "pg");
    expect(mission).toMatchObject({ finished: { outcome: "done" }, taskCounts: { total: 2 } });
    expect([readText(directory, "a.txt"), readText(directory, "b.txt")]).toEqual(["made\n", "made\n"]);
  });
});
if (postgresURL === undefined) countSkipped(1);
