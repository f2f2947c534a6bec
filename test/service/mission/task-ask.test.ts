import { afterAll, beforeAll, expect, test } from "vitest";
import { post, send } from "../../harness/double/hostile-text.ts";
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
  taskIn,
  taskOf,
  turns,
  wake,
} from "../../harness/double/missions.ts";
import { verdictHeading } from "../../../src/mission/verdict.ts";
import { readText, until } from "../../harness/project.ts";
import { startReceiver } from "../../harness/receiver.ts";

/** What a Task asks goes to its Mission first, and to a person where that does not answer. */

let stage: Stage;
beforeAll(async () => {
  stage = await openStage({}, { webhooks: { allow: ["127.0.0.1"] } });
});
afterAll(() => stage[Symbol.asyncDispose]());

const question = { question: "Red or blue?", options: ["red", "blue"], default: "red" };
const writes = (text: string) => ({ calls: [{ tool: "write", input: { path: "colour.txt", content: text } }] });
/** It asks, writes what it was told, and ends. */
const asks: Say = turns(
  { calls: [{ tool: "ask", input: question }] },
  (_turn, _request, newest) => writes(`${newest.trim()}\n`),
  { text: "Wrote it." },
);
const begun = (name: string) => ({ calls: [plan("a"), dispatch("a", `Write the colour. [${name}]`)] });

const questioned = (directory: string, missionID: string) =>
  until(
    () => missionOf(stage.service.url, directory, missionID),
    ({ tasks: [task] }) => (task?.pending.length ?? 0) > 0,
  );
const colourOf = async (directory: string, missionID: string) => {
  const mission = await restOf(stage.service.url, directory, missionID);
  expect(mission.tasks[0], JSON.stringify(mission.tasks[0]?.error)).toMatchObject({ lifecycleStatus: "completed" });
  return readText(directory, "colour.txt");
};
const own = async (directory: string, missionID: string) =>
  (await eventsOf(stage.service.url, directory, missionID)).flatMap(({ type, taskID, data }) =>
    taskID === undefined && (type === "task.asked" || type === "task.answered") ? [[type, data["how"]]] : [],
  );

/** What people answered to its Tasks, as its own log has it. */
const saidIn = async (directory: string, missionID: string): Promise<string[]> =>
  (await eventsOf(stage.service.url, directory, missionID)).flatMap(({ type, data }) =>
    type === "task.answered" && data["said"] !== undefined ? [(data["said"] as { answer: string }).answer] : [],
  );

test("its agent is woken with the question, and answers; no person is asked", async () => {
  await using receiver = await startReceiver();
  const told: string[] = [];
  stage.play("first", {
    mission: turns(
      begun("first"),
      { text: "It runs." },
      (_turn, _request, newest) => {
        told.push(newest);
        return { calls: [{ tool: "task_answer", input: { task: taskIn(newest), answer: "Blue, as the goal says." } }] };
      },
      { calls: [finish()] },
    ),
    task: asks,
  });
  const { url } = stage.service;
  const directory = stage.project();
  await post(url, "/webhook", directory, { url: receiver.url, events: ["task.asked", "task.completed"] });
  const { missionID } = await wake(url, directory, { text: "[first]" });
  expect(await colourOf(directory, missionID)).toBe("Your Mission answered: Blue, as the goal says.\n");
  expect(told[0]).toContain("Red or blue?");
  expect(told[0]).toContain('It proposes: "red", "blue".');
  expect(told[0]).toContain('Without an answer it goes on with: "red".');
  expect(await own(directory, missionID)).toEqual([
    ["task.asked", undefined],
    ["task.answered", "closed"],
  ]);
  expect(await saidIn(directory, missionID)).toEqual([]);
  await receiver.got(1);
  expect(receiver.received.map(({ body }) => (JSON.parse(body) as { type: string }).type)).toEqual(["task.completed"]);
});

test("passed on it is a person's, with all the time of a person; so is what its agent says nothing of", {
  timeout: 60_000,
}, async () => {
  for (const [name, says] of [
    ["passed", { calls: [{ tool: "task_answer", input: { task: "", pass: true } }] }],
    ["silent", { text: "Hm." }],
  ] as const) {
    const told: string[] = [];
    let judged = "";
    stage.heard = ({ first }) => {
      if (first.startsWith(verdictHeading)) judged = first;
    };
    stage.play(name, {
      mission: turns(
        begun(name),
        { text: "It runs." },
        (_turn, _request, newest) =>
          "calls" in says ? { calls: [{ tool: "task_answer", input: { task: taskIn(newest), pass: true } }] } : says,
        (_turn, _request, newest) => {
          told.push(newest);
          return { calls: [finish()] };
        },
      ),
      task: asks,
    });
    const { url } = stage.service;
    const directory = stage.project();
    const { missionID } = await wake(url, directory, {
      text: `[${name}]`,
      limits: { askSeconds: 0 },
      ...(name === "silent" ? { judged: true } : {}),
    });
    const mission = await until(
      () => missionOf(url, directory, missionID),
      ({ tasks: [task] }) => (task?.pendingCount ?? 0) > 0,
    );
    expect(mission).toMatchObject({ state: "asking", stateReason: "One of its Tasks asks", limits: { askSeconds: 0 } });
    const [task] = mission.tasks;
    const [ask] = task?.pending ?? [];
    expect(ask).toMatchObject({ prompt: "Red or blue?", expiresAt: null });
    expect(ask).not.toHaveProperty("passesAt");
    const { body } = await send(url, "/overview");
    expect(body["pending"]).toMatchObject([{ id: ask?.id, taskID: task?.taskID }]);
    // Also under the name that its own answers have.
    const source = name === "passed" ? "api" : "mission";
    await post(url, `/task/${task?.taskID}/pending/${ask?.id}`, directory, { answer: "green, and everywhere", source });
    expect(await colourOf(directory, missionID)).toBe("The user answered: green, and everywhere\n");
    // The Mission hears it with what wakes it next, the Task's end: it makes no request of its own.
    expect(told).toHaveLength(1);
    expect(told[0]).toMatch(
      /^The user answered Task task_\w+ of phase a, "Phase a", which had asked:\n<data from="task_\w+">\nRed or blue\?\n<\/data>\nThe answer, which the Task has: green, and everywhere$/m,
    );
    expect(told[0]).toContain("ended completed");
    const answered = (await eventsOf(url, directory, missionID)).filter(({ type }) => type === "task.answered");
    expect(answered.map(({ data: { how, said } }) => [how, said])).toEqual([
      ["passed", undefined],
      ["closed", { phase: "a", title: "Phase a", question: "Red or blue?", answer: "green, and everywhere" }],
    ]);
    // Who judges the whole reads it among the words of the user.
    if (name === "silent")
      expect(judged).toMatch(
        /<data from="an answer of the user to a Task">\nTo: Red or blue\?\ngreen, and everywhere\n<\/data>/,
      );
    const { body: log } = await send(url, `/mission/${missionID}/messages?directory=${encodeURIComponent(directory)}`);
    const { messages, total } = log as unknown as {
      messages: { source: string; text: string; role: string }[];
      total: number;
    };
    expect(messages.filter(({ source }) => source === "answer")).toMatchObject([
      { role: "user", text: expect.stringContaining("The answer, which the Task has: green, and everywhere") },
    ]);
    // With the verdict's, which wakes nobody either.
    expect(total).toBe(messages.length);
  }
});

test("what a person says in another way to a Task that asks is told, too; a decision alone and a default are not", async () => {
  const told: string[] = [];
  stage.play("other", {
    mission: turns(begun("other"), { text: "It runs." }, { text: "Hm." }, (_turn, _request, newest) => {
      told.push(newest);
      return { calls: [finish()] };
    }),
    task: asks,
  });
  const { url } = stage.service;
  const directory = stage.project();
  const { missionID } = await wake(url, directory, {
    text: "[other]",
    approve: ["landing"],
    limits: { askSeconds: 0 },
  });
  const asking = () =>
    until(
      () => missionOf(url, directory, missionID),
      ({ tasks: [task] }) => (task?.pendingCount ?? 0) > 0,
    );
  const [task] = (await asking()).tasks;
  await post(url, `/task/${task?.taskID}/message`, directory, { source: "api", text: "Neither: green." });
  // A landing that is refused with words, and one that is approved without any.
  for (const answer of [{ decision: "deny", answer: "Never on a Friday." }, { decision: "allow" }]) {
    const [one] = (await asking()).tasks;
    const [ask] = one?.pending ?? [];
    expect(ask?.kind).toBe("approval");
    await post(url, `/task/${one?.taskID}/pending/${ask?.id}`, directory, answer);
    await until(
      () => taskOf(url, one?.taskID ?? ""),
      ({ pending }) => pending.every(({ id }) => id !== ask?.id),
    );
  }
  await restOf(url, directory, missionID);
  const said = await saidIn(directory, missionID);
  expect(said).toEqual(["Neither: green.", "Never on a Friday."]);
  expect(told).toHaveLength(1);
  for (const words of said) expect(told[0]).toContain(`The answer, which the Task has: ${words}`);
});

test("while it is the Mission's a person may answer all the same, and needs not", async () => {
  let free = () => {};
  const held = new Promise<void>((resolve) => {
    free = resolve;
  });
  const told: string[] = [];
  stage.play("busy", {
    mission: turns(
      begun("busy"),
      { text: "It runs." },
      async (_turn, _request, newest) => {
        await held;
        return { calls: [{ tool: "task_answer", input: { task: taskIn(newest), answer: "Late." } }] };
      },
      (_turn, _request, newest) => {
        told.push(newest);
        return { text: "Then not." };
      },
      { calls: [finish()] },
    ),
    task: asks,
  });
  const { url } = stage.service;
  const directory = stage.project();
  const { missionID } = await wake(url, directory, { text: "[busy]" });
  const mission = await questioned(directory, missionID);
  const [task] = mission.tasks;
  const [ask] = task?.pending ?? [];
  expect(task).toMatchObject({ phase: "waiting", pendingCount: 0, now: { kind: "ask" } });
  expect(task?.now?.text).toBe("Waiting for the Mission's answer: Red or blue?");
  expect(ask).toMatchObject({ expiresAt: null, passesAt: expect.any(String) });
  expect((await send(url, "/overview")).body["pending"]).toEqual([]);
  expect((await post(url, `/task/${task?.taskID}/pending/${ask?.id}`, directory, { answer: "green" })).status).toBe(
    200,
  );
  await until(
    () => taskOf(url, task?.taskID ?? ""),
    ({ lifecycleStatus }) => lifecycleStatus === "completed",
  );
  free();
  await restOf(url, directory, missionID);
  expect(told[0]).toMatch(/The Task has ended and has no open question|The Task has no open question/);
  expect(await saidIn(directory, missionID)).toEqual(["green"]);
  expect(readText(directory, "colour.txt")).toBe("The user answered: green\n");
});

test("a Mission that says nothing for too long holds nothing up", async () => {
  let free = () => {};
  const held = new Promise<void>((resolve) => {
    free = resolve;
  });
  stage.play("stuck", {
    mission: turns(
      begun("stuck"),
      { text: "It runs." },
      async () => {
        await held;
        return { text: "Too late." };
      },
      { calls: [finish()] },
    ),
    task: asks,
  });
  const { url } = stage.service;
  const directory = stage.project();
  const { missionID } = await wake(url, directory, { text: "[stuck]", limits: { askSeconds: 1 } });
  const mission = await until(
    () => missionOf(url, directory, missionID),
    ({ tasks: [task] }) => task?.lifecycleStatus === "completed",
  );
  // First the Mission had its second, then a person had one.
  expect(mission.agentStatus).toBe("running");
  expect(readText(directory, "colour.txt")).toContain("Nobody answered in time, so your default applies: red");
  const events = await eventsOf(url, directory, missionID);
  expect(events.filter(({ type }) => type === "ask.passed").map(({ data }) => data["by"])).toEqual(["timeout"]);
  expect(await saidIn(directory, missionID)).toEqual([]);
  free();
  await restOf(url, directory, missionID);
});

test("a Mission that is stopped or gone is not asked: a person is", async () => {
  for (const how of ["abort", "delete"]) {
    let free = () => {};
    const held = new Promise<void>((resolve) => {
      free = resolve;
    });
    stage.play(how, {
      mission: turns(begun(how), { text: "It runs." }),
      task: turns(
        async () => {
          await held;
          return { calls: [{ tool: "ask", input: question }] };
        },
        (_turn, _request, newest) => writes(`${newest.trim()}\n`),
        { text: "Wrote it." },
      ),
    });
    const { url } = stage.service;
    const directory = stage.project();
    const { missionID } = await wake(url, directory, { text: `[${how}]` });
    const mission = await until(
      () => missionOf(url, directory, missionID),
      ({ tasks, agentStatus }) => tasks.length > 0 && agentStatus === "inactive",
    );
    const taskID = mission.tasks[0]?.taskID ?? "";
    const at = `?directory=${encodeURIComponent(directory)}`;
    if (how === "abort") await post(url, `/mission/${missionID}/abort`, directory, {});
    else await send(url, `/mission/${missionID}${at}`, { method: "DELETE" });
    free();
    const asked = await until(
      () => taskOf(url, taskID),
      ({ pending }) => pending.length > 0,
    );
    expect(asked.pending[0]).not.toHaveProperty("passesAt");
    await post(url, `/task/${taskID}/pending/${asked.pending[0]?.id}`, directory, { answer: "blue" });
    await until(
      () => taskOf(url, taskID),
      ({ lifecycleStatus }) => lifecycleStatus === "completed",
    );
  }
});

test("it corrects the checks that it wrote: what asked for what cannot be stands no more in the way", async () => {
  const notices: string[] = [];
  const impossible = "grep -q purple colour.txt";
  const checks = [impossible, "test -f a.txt"];
  stage.play("checks", {
    mission: turns(
      { calls: [plan("a"), dispatch("a", "Write the colour. [checks]", { checks })] },
      { text: "It runs." },
      (_turn, _request, newest) => ({
        calls: [
          {
            tool: "task_message",
            input: {
              task: taskIn(newest),
              text: "The check was mine, and wrong. Blue it is.",
              checks: ["grep -q blue colour.txt", "test -f a.txt"],
            },
          },
        ],
      }),
      { calls: [finish()] },
    ),
    task: turns(
      { calls: [{ tool: "ask", input: { question: "The check wants purple, the request blue. Which?" } }] },
      (_turn, _request, newest) => {
        notices.push(newest);
        return writes("blue\n");
      },
      { text: "Wrote it." },
    ),
  });
  const { url } = stage.service;
  const directory = stage.project();
  const { missionID } = await wake(url, directory, { text: "[checks]" });
  expect(await colourOf(directory, missionID)).toBe("blue\n");
  expect(notices[0]).toContain("The check was mine, and wrong. Blue it is.");
  const [task] = (await missionOf(url, directory, missionID)).tasks;
  const { checks: ran } = await taskOf(url, task?.taskID ?? "");
  expect(ran).toMatchObject([
    { id: "check-1-2", name: "grep -q blue colour.txt", state: "passed" },
    { id: "check-2", name: "test -f a.txt", state: "passed" },
  ]);
});

test("of several things that it asks at once each is named, and answered by its name, in one reply", async () => {
  const results: string[] = [];
  const ids = new Map<string, string>();
  const lead: Say = (turn, _request, newest) => {
    if (turn === 0) return begun("several");
    if (turn === 1) return { text: "It runs." };
    for (const [, id = "", what = ""] of newest.matchAll(/asks \((ask_\w+)\), and waits:\n<data[^>]*>\n(\w+) or/g))
      ids.set(what, id);
    const answered = [...newest.matchAll(/^(Expected `ask`.*|Answered.*|It goes on.*)$/gm)].map(([line]) => line);
    results.push(...answered);
    if (answered.length > 0) return { text: "Both are answered." };
    if (newest.includes("ended")) return { calls: [finish()] };
    const task = taskIn(newest);
    // The other one has not come yet.
    if (ids.size < 2) return { calls: [{ tool: "task_status", input: { tasks: [task] } }] };
    const answer = (of: string | undefined, text: string) => ({
      tool: "task_answer",
      input: { task, answer: text, ...(of === undefined ? {} : { ask: of }) },
    });
    return {
      calls: [
        answer(undefined, "Which?"),
        answer("ask_unknown", "Which?"),
        answer(ids.get("Large"), "Large."),
        answer(ids.get("Red"), "Red."),
      ],
    };
  };
  stage.play("several", {
    mission: lead,
    task: turns(
      {
        calls: [
          { tool: "ask", input: { question: "Red or blue?" } },
          { tool: "ask", input: { question: "Large or small?" } },
        ],
      },
      (_turn, _request, newest) => writes(`${newest.trim().replaceAll("\n", " ")}\n`),
      { text: "Wrote it." },
    ),
  });
  const directory = stage.project();
  const { missionID } = await wake(stage.service.url, directory, { text: "[several]" });
  expect(await colourOf(directory, missionID)).toBe("Your Mission answered: Red. Your Mission answered: Large.\n");
  expect(results).toEqual([
    expect.stringMatching(/^Expected `ask`, because the Task asks 2 things; got none\. Open: ask_\w+: "/),
    expect.stringMatching(/^Expected `ask` to be an open question of the Task, got "ask_unknown"\. Open: ask_\w+: "/),
    `Answered. It waits for the answer to ${ids.get("Red")}, too.`,
    "It goes on with that.",
  ]);
});
