import { afterAll, beforeAll, expect, test } from "vitest";
import { at, post, send } from "../../harness/double/hostile-text.ts";
import {
  author,
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
import { git, readText, until } from "../../harness/project.ts";
import { view } from "../../../src/cli/mission/action.ts";
import { plan as showPlan } from "../../../src/cli/mission/plan.ts";
import { createScreen } from "../../../src/cli/terminal/screen.ts";
import type { MissionStatus } from "../../../src/protocol/mission/status.ts";
import type { PendingAsk } from "../../../src/protocol/task/status.ts";

/** A Mission that asks a person before its plan is carried out, a squad is made, a phase lands. */

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
});
afterAll(() => stage[Symbol.asyncDispose]());

const writes: Say = turns(
  { calls: [{ tool: "write", input: { path: "done.txt", content: "x\n" } }] },
  { text: "Wrote it." },
);
const roster = Array.from({ length: 3 }, (_, index) => ({ name: `agent-${index}`, duty: "A duty." }));

/** The Mission's own approval, once it is another one than `before`. */
const asked = async (directory: string, missionID: string, before?: PendingAsk) => {
  const mission = await until(
    () => missionOf(stage.service.url, directory, missionID),
    ({ pending: [ask] }) => ask !== undefined && ask.id !== before?.id,
  );
  return mission.pending[0] as PendingAsk;
};
const answer = (directory: string, missionID: string, { id }: PendingAsk, body: object) =>
  post(stage.service.url, `/mission/${missionID}/pending/${id}`, directory, body);
/** A Task that waits for a person. */
const waitingTask = async (directory: string, missionID: string) => {
  const mission = await until(
    () => missionOf(stage.service.url, directory, missionID),
    ({ tasks }) => tasks.some(({ pendingCount }) => pendingCount > 0),
  );
  const { taskID } = mission.tasks.find(({ pendingCount }) => pendingCount > 0) as MissionStatus["tasks"][number];
  const [ask] = (await taskOf(stage.service.url, taskID)).pending;
  return { mission, taskID, ask: ask as PendingAsk };
};

test("nothing is dispatched before the plan is approved, and each phase lands once it is", async () => {
  const told: string[] = [];
  const hear =
    (...calls: { tool: string; input: unknown }[]): Say =>
    (_turn, _request, newest) => {
      told.push(newest);
      return calls.length === 0 ? { text: "Waiting." } : { calls };
    };
  stage.play("planned", {
    mission: turns(
      { calls: [plan("a"), dispatch("a", "Write it. [planned]")] },
      hear(),
      hear(dispatch("a", "Write it. [planned]")),
      hear(finish()),
    ),
    task: writes,
  });
  const directory = stage.project();
  const { url } = stage.service;
  const { missionID } = await wake(url, directory, { text: "[planned]", approve: ["plan", "landing"] });
  const ask = await asked(directory, missionID);
  expect(ask).toMatchObject({ kind: "approval", of: "plan", expiresAt: null, default: null });
  expect(ask.prompt).toBe("Carry out this plan? It has one phase.".replace("one", "1"));
  const waits = await missionOf(url, directory, missionID);
  expect(waits).toMatchObject({ state: "asking", agentStatus: "inactive", approve: ["plan", "landing"], tasks: [] });
  expect(told[0]).toContain("The user approves the plan before anything is dispatched");
  expect((await answer(directory, missionID, ask, { decision: "allow" })).status).toBe(200);

  const landing = await waitingTask(directory, missionID);
  expect(landing.mission).toMatchObject({ state: "asking", stateReason: "One of its Tasks asks" });
  expect(landing.ask).toMatchObject({ kind: "approval", of: "landing", would: { branch: "main" } });
  expect(git(directory, "log", "--format=%s")).toBe("first");
  await post(url, `/task/${landing.taskID}/pending/${landing.ask.id}`, directory, { decision: "allow" });
  expect(await restOf(url, directory, missionID)).toMatchObject({ state: "done" });
  expect(readText(directory, "done.txt")).toBe("x\n");
  const events = await eventsOf(url, directory, missionID);
  const answers = events.filter(({ type, taskID }) => type === "ask.answered" && taskID === undefined);
  expect(answers.map(({ data }) => data)).toMatchObject([
    { decision: "allow", by: "caller", from: { user: null, address: expect.any(String) } },
  ]);
});

test("denied with words it plans anew and is asked again; a changed plan is void, without words it stands still", async () => {
  stage.play("denied", {
    mission: turns(
      { calls: [plan("a")] },
      { text: "So?" },
      { calls: [plan("a", "b")] },
      { text: "Better?" },
      { text: "Again?" },
    ),
    task: writes,
  });
  const directory = stage.project();
  const { url } = stage.service;
  const { missionID } = await wake(url, directory, { text: "[denied]", approve: ["plan"] });
  const first = await asked(directory, missionID);
  await answer(directory, missionID, first, { decision: "deny", answer: "Two phases." });
  const second = await asked(directory, missionID, first);
  expect(second.prompt).toContain("2 phases");
  expect(second.would?.subject).not.toBe(first.would?.subject);
  expect((await answer(directory, missionID, first, { decision: "allow" })).body).toMatchObject({ code: "ask_closed" });

  await answer(directory, missionID, second, { decision: "deny", source: "ada" });
  const still = await until(
    () => missionOf(url, directory, missionID),
    ({ state }) => state === "stalled",
  );
  expect(still.stateReason).toContain("was not approved (ada)");
  await wake(url, directory, { missionID, text: "Show it once more." });
  const third = await asked(directory, missionID, second);
  expect(third.would?.subject).toBe(second.would?.subject);
  const { body } = await send(url, at(`/mission/${missionID}/status`, directory));
  expect(body["tasks"]).toEqual([]);
});

test("what was asked of a plan that is changed meanwhile is void: its answer approves nothing, and one question is open", async () => {
  const held = Promise.withResolvers<void>();
  stage.play("void", {
    mission: turns(
      { calls: [plan("a", "b")] },
      { text: "So?" },
      {
        calls: [
          dispatch("a", "Write it. [void]", { checks: ["false"] }),
          { tool: "phase", input: { id: "b", objective: "Another one." } },
        ],
      },
      { calls: [{ tool: "phase", input: { id: "b", objective: "A third one." } }] },
      { text: "And now?" },
      { calls: [dispatch("b", "Write b. [other]", { checks: [] })] },
      { text: "It runs." },
      { calls: [finish("blocked", "a has failed.")] },
    ),
    task: async (turn, request, newest) => {
      if (turn === 1) await held.promise;
      return writes(turn, request, newest);
    },
  });
  stage.play("other", { mission: turns(), task: turns({ text: "Nothing to do." }) });
  const directory = stage.project();
  const { url } = stage.service;
  const { missionID } = await wake(url, directory, { text: "[void]", approve: ["plan"], limits: {} });
  const first = await asked(directory, missionID);
  await answer(directory, missionID, first, { decision: "allow" });
  const second = await asked(directory, missionID, first);
  held.resolve();
  const third = await asked(directory, missionID, second);
  const waits = await missionOf(url, directory, missionID);
  expect(waits).toMatchObject({ state: "asking", pending: [{ id: third.id }], pendingCount: 1 });
  expect(third.would?.subject).not.toBe(second.would?.subject);
  const late = await answer(directory, missionID, second, { decision: "allow" });
  expect(late).toMatchObject({ status: 409, body: { code: "ask_closed" } });
  const ends = (await eventsOf(url, directory, missionID)).filter(({ type }) => type === "ask.answered");
  expect(ends.map(({ data: { askID, by, source } }) => [askID, by, source])).toEqual([
    [first.id, "caller", "api"],
    [second.id, "ended", "void"],
  ]);
  expect((await missionOf(url, directory, missionID)).tasks).toHaveLength(1);
  await answer(directory, missionID, third, { decision: "allow" });
  expect(await restOf(url, directory, missionID)).toMatchObject({ state: "blocked", tasks: [{}, {}] });
});

test("a wake that only sets something leaves the approval open; one after which none is wanted closes it, and it goes on", async () => {
  stage.play("settings", {
    mission: turns(
      { calls: [plan("a")] },
      { text: "So?" },
      { calls: [dispatch("a", "Write it. [settings]", { checks: [] })] },
      { text: "It runs." },
      { calls: [finish()] },
    ),
    task: writes,
  });
  const directory = stage.project();
  const { url } = stage.service;
  const { missionID } = await wake(url, directory, { text: "[settings]", approve: ["plan"] });
  const first = await asked(directory, missionID);
  await wake(url, directory, { missionID, budget: { maxSteps: 90 } });
  expect(await restOf(url, directory, missionID)).toMatchObject({
    state: "asking",
    pending: [{ id: first.id }],
    budget: { maxSteps: 90 },
  });
  await wake(url, directory, { missionID, approve: [] });
  expect(await restOf(url, directory, missionID)).toMatchObject({ state: "done", pending: [], tasks: [{}] });
  const ends = (await eventsOf(url, directory, missionID)).filter(({ type }) => type === "ask.answered");
  expect(ends.map(({ data: { askID, by } }) => [askID, by])).toEqual([[first.id, "ended"]]);
});

test("a plan that was changed after its approval is shown with what differs from the approved one", async () => {
  const told: string[] = [];
  stage.play("differs", {
    mission: turns(
      { calls: [plan("a", "b")] },
      { text: "So?" },
      {
        calls: [
          { tool: "phase", input: { id: "a", objective: "More is there.", acceptance: ["It is seen."] } },
          { tool: "phase", input: { id: "b", drop: true } },
          { tool: "phase", input: { id: "c", title: "Phase c", objective: "c is there." } },
        ],
      },
      { text: "Better?" },
      (_turn, _request, newest) => {
        told.push(newest);
        return { calls: [{ tool: "phase", input: { id: "c", title: "The third" } }] };
      },
      { text: "And now?" },
    ),
  });
  const directory = stage.project();
  const { url } = stage.service;
  const { missionID } = await wake(url, directory, { text: "[differs]", approve: ["plan"] });
  const first = await asked(directory, missionID);
  expect(await missionOf(url, directory, missionID)).toMatchObject({ state: "asking", planChange: null });
  await answer(directory, missionID, first, { decision: "allow" });
  const second = await asked(directory, missionID, first);
  const parts = '1 new ("Phase c"); 1 dropped ("Phase b"); 1 changed ("Phase a")';
  expect(second.prompt).toBe(
    `Carry out the changed plan? It has 2 phases. What differs from the plan that was approved last: ${parts}.`,
  );
  const changed = {
    id: "a",
    title: "Phase a",
    was: { objective: "a is there.", acceptance: [] },
    is: { objective: "More is there.", acceptance: ["It is seen."] },
  };
  const { planChange, stateReason } = await missionOf(url, directory, missionID);
  expect(planChange).toMatchObject({
    added: [{ id: "c", title: "Phase c", phase: "c", objective: "c is there." }],
    dropped: [{ id: "b", title: "Phase b", objective: "b is there." }],
    changed: [changed],
    reordered: false,
  });
  expect(stateReason).toContain("Carry out the changed plan?");

  // What was denied was never approved: the difference stays that to the first plan.
  await answer(directory, missionID, second, { decision: "deny", answer: "Name the third one." });
  const third = await asked(directory, missionID, second);
  expect(told[0]).toContain("Name the third one.");
  expect((await missionOf(url, directory, missionID)).planChange).toMatchObject({
    added: [{ id: "c", title: "The third" }],
    dropped: [{ id: "b" }],
    changed: [changed],
  });
  await answer(directory, missionID, third, { decision: "allow" });
  expect((await missionOf(url, directory, missionID)).planChange).toBeNull();
});

test("a squad is installed once its package was approved, handbooks and all; until then all say that it waits for that", async () => {
  const told: string[] = [];
  stage.play("crew", {
    mission: turns(
      { calls: [plan({ id: "a", phase: "web/crew" })] },
      {
        calls: [
          { tool: "produce_squad", input: { phase: "a", squad: "crew", name: "Crew", summary: "A crew.", roster } },
        ],
      },
      { calls: [{ tool: "task_status", input: {} }] },
      (_turn, _request, newest) => {
        told.push(newest);
        return { text: "It waits." };
      },
      { calls: [finish("blocked", "Seen.")] },
    ),
  });
  const authored = author(roster);
  // The maker's request has no marker of its own.
  stage.play("", { mission: turns(), task: turns({ calls: [authored] }, { text: "Made." }) });
  const directory = stage.project();
  const { url } = stage.service;
  const body = { text: "[crew]", approve: ["squad"], allowSquadProduction: true };
  const { missionID } = await wake(url, directory, body);
  const { taskID, ask } = await waitingTask(directory, missionID);
  expect(ask).toMatchObject({ kind: "approval", of: "squad" });
  expect(ask.would?.subject).toMatch(/^[0-9a-f]{64}$/);
  const page = await fetch(`${url}/task/${taskID}/artifacts/${ask.would?.artifactID}`);
  const text = await page.text();
  for (const words of ["You lead the crew.", "You are agent-2.", ask.would?.subject ?? "-"])
    expect(text).toContain(words);
  expect(() => readText(directory, ".sortie/squads/crew/squad.json")).toThrow("ENOENT");

  const waiting = await missionOf(url, directory, missionID);
  const since = (await taskOf(url, taskID)).now?.since ?? "";
  expect(waiting.plan).toMatchObject([
    { state: "producing", waits: { taskID, askID: ask.id, kind: "approval", of: "squad", since } },
  ]);
  expect(waiting).toMatchObject({
    state: "asking",
    now: {
      kind: "ask",
      text: expect.stringMatching(/^"Make the squad crew": Waiting for your approval: Install/),
      since,
    },
  });
  await wake(url, directory, { missionID, text: "How does it stand?" });
  await until(
    async () => told.length,
    (count) => count === 1,
  );
  const minute = since.slice(0, 16).replace("T", " ");
  expect(told[0]).toContain(`"now": "${taskID} waits for the user's approval of the squad, since ${minute} UTC"`);
  const shown: string[] = [];
  const screen = { ...createScreen(process.stdout, true), say: (text: string) => void shown.push(text) };
  const target = { url, directory, username: "service", password: undefined };
  for (const show of [view, showPlan]) await show(missionID, { target, screen, emit: undefined });
  for (const text of shown)
    expect(text).toContain(`producing, waits for your approval of the squad since ${minute} UTC`);
  await post(url, `/task/${taskID}/pending/${ask.id}`, directory, { decision: "allow" });
  const rest = await restOf(url, directory, missionID);
  expect(rest.plan).toMatchObject([{ state: "ready", waits: null }]);
  expect(readText(directory, ".sortie/squads/crew/squad.json")).toContain("crew");
});

test("a change of direction costs what it asks of its agent: to change the plan, and to go on once that is approved", async () => {
  const told: string[] = [];
  const held = Promise.withResolvers<void>();
  const hear =
    (...calls: { tool: string; input: unknown }[]): Say =>
    (_turn, _request, newest) => {
      told.push(newest);
      return calls.length === 0 ? { text: "Waiting." } : { calls };
    };
  stage.play("turns", {
    mission: turns(
      hear(plan("a", "old")),
      hear(),
      hear(dispatch("a", "Write a. [turns]"), dispatch("old", "Write old. [turns]")),
      (_turn, request, newest) => {
        told.push(newest);
        const old = /"dispatched":"(task_\w+)","phase":"old"/.exec(
          JSON.stringify(request.body.messages).replaceAll("\\", ""),
        );
        return {
          calls: [
            { tool: "task_cancel", input: { task: old?.[1], reason: "Not wanted." } },
            { tool: "phase", input: { id: "new", title: "Phase new", objective: "new is there." } },
            { tool: "phase", input: { id: "old", drop: true } },
          ],
        };
      },
      hear(),
      hear(dispatch("new", "Write new. [turns]")),
      hear(finish()),
    ),
    task: async (turn, request) => {
      if (request.first.startsWith("Write old")) await new Promise((resolve) => setTimeout(resolve, 60_000).unref());
      if (request.first.startsWith("Write a") && turn === 1) await held.promise;
      const name = /Write (\w+)/.exec(request.first)?.[1] ?? "";
      return turn === 0
        ? { calls: [{ tool: "write", input: { path: `${name}.txt`, content: "x\n" } }] }
        : { text: `Wrote ${name}.` };
    },
  });
  const directory = stage.project();
  const { url } = stage.service;
  const { missionID } = await wake(url, directory, { text: "[turns]", approve: ["plan"] });
  const first = await asked(directory, missionID);
  await answer(directory, missionID, first, { decision: "allow" });
  await until(
    () => missionOf(url, directory, missionID),
    ({ tasks, agentStatus }) => tasks.length === 2 && agentStatus === "inactive",
  );
  await wake(url, directory, { missionID, text: "Not the old one." });
  const second = await asked(directory, missionID, first);
  expect(second.prompt).toContain('1 new ("Phase new"); 1 dropped ("Phase old")');
  held.resolve();
  const ended = ({ tasks }: MissionStatus) => tasks.every(({ lifecycleStatus }) => lifecycleStatus !== "active");
  await until(() => missionOf(url, directory, missionID), ended);
  await until(
    () => eventsOf(url, directory, missionID),
    (events) => events.filter(({ type, taskID }) => type === "task.ended" && taskID === undefined).length === 2,
  );
  expect(told).toHaveLength(5);
  expect(await missionOf(url, directory, missionID)).toMatchObject({ state: "asking", agentStatus: "inactive" });
  expect(told[4]).toContain("Dropped: old.");
  expect(told[4]).toContain("The user approves it before anything more is dispatched");

  await answer(directory, missionID, second, { decision: "allow" });
  expect(await restOf(url, directory, missionID)).toMatchObject({ state: "done" });
  expect(told).toHaveLength(7);
  // What was told in between is read with the approval, and nothing of it is lost.
  expect(told[5]).toMatch(/of phase old, "Phase old", ended cancelled/);
  expect(told[5]).toMatch(/of phase a, "Phase a", ended completed/);
  expect(told[5]).toContain("Ready, once the user has approved the plan: new.");
  expect(told[5]).toContain("The user approved the plan: carry it out.");
});

test("an approval after which nothing can begin wakes nobody: what runs goes on, and its end is told as ever", async () => {
  const told: string[] = [];
  const held = Promise.withResolvers<void>();
  stage.play("quiet", {
    mission: (turn, _request, newest) => {
      told.push(newest);
      const calls = [
        [plan("a", { id: "b", after: ["a"] })],
        [],
        [dispatch("a", "Write it. [quiet]")],
        [{ tool: "phase", input: { id: "b", title: "The second" } }],
        [],
        [dispatch("b", "Write it too. [quiet]")],
        [finish()],
      ][turn];
      return calls === undefined || calls.length === 0 ? { text: "So?" } : { calls };
    },
    task: async (turn, request, newest) => {
      if (turn === 1 && request.first.startsWith("Write it.")) await held.promise;
      return writes(turn, request, newest);
    },
  });
  const directory = stage.project();
  const { url } = stage.service;
  const { missionID } = await wake(url, directory, { text: "[quiet]", approve: ["plan"] });
  const first = await asked(directory, missionID);
  await answer(directory, missionID, first, { decision: "allow" });
  await until(
    () => missionOf(url, directory, missionID),
    ({ tasks, agentStatus }) => tasks.length === 1 && agentStatus === "inactive",
  );
  await wake(url, directory, { missionID, text: "Name it better." });
  const second = await asked(directory, missionID, first);
  await answer(directory, missionID, second, { decision: "allow" });
  const still = await until(
    () => missionOf(url, directory, missionID),
    ({ state }) => state === "waiting",
  );
  expect(still).toMatchObject({ agentStatus: "inactive", planChange: null });
  expect(told).toHaveLength(5);
  held.resolve();
  expect(await restOf(url, directory, missionID)).toMatchObject({ state: "done" });
  expect(told).toHaveLength(7);
  expect(told[5]).toContain("Ready: b.");
});
