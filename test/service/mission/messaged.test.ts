import { afterAll, beforeAll, expect, test } from "vitest";
import { post } from "../../harness/double/hostile-text.ts";
import {
  dispatch,
  eventsOf,
  finish,
  missionOf,
  openStage,
  plan,
  restOf,
  type Stage,
  taskIn,
  taskOf,
  turns,
  wake,
} from "../../harness/double/missions.ts";
import { until } from "../../harness/project.ts";
import { verdictHeading } from "../../../src/mission/verdict.ts";

/** What a person writes to one of a Mission's Tasks that asks nothing is a word to the Mission, too. */

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
});
afterAll(() => stage[Symbol.asyncDispose]());

/** What whoever judges the whole was told last. */
const judgesBrief = (): (() => string) => {
  let brief = "";
  stage.heard = ({ first }) => {
    if (first.startsWith(verdictHeading)) brief = first;
  };
  return () => brief;
};

test("it hears it with what wakes it next, also of a Task that had ended; of its own messages it hears nothing", {
  timeout: 60_000,
}, async () => {
  const held = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const told: string[] = [];
  const brief = judgesBrief();
  stage.play("told", {
    mission: turns(
      { calls: [plan("a"), dispatch("a", "Write it. [told]")] },
      { text: "It runs." },
      (_turn, _request, newest) => {
        told.push(newest);
        return { calls: [{ tool: "task_message", input: { task: taskIn(newest), text: "Of mine: shorter." } }] };
      },
      { text: "It goes on." },
      (_turn, _request, newest) => {
        told.push(newest);
        return { calls: [finish()] };
      },
      (_turn, _request, newest) => {
        told.push(newest);
        return { calls: [finish()] };
      },
    ),
    task: turns(
      async () => {
        await held[0]?.promise;
        return { calls: [{ tool: "write", input: { path: "b.txt", content: "b\n" } }] };
      },
      { text: "Wrote it." },
      async () => {
        await held[1]?.promise;
        return { text: "Shorter." };
      },
      { text: "As the user said." },
    ),
  });
  const { url } = stage.service;
  const directory = stage.project();
  const { missionID } = await wake(url, directory, { text: "[told]", judged: true });
  const now = () => missionOf(url, directory, missionID);
  const requests = () => stage.requests.filter(({ mission }) => mission).length;
  const runs = await until(now, ({ tasks, agentStatus }) => tasks.length === 1 && agentStatus === "inactive");
  const taskID = runs.tasks[0]?.taskID ?? "";
  const say = (text: string) => post(url, `/task/${taskID}/message`, directory, { source: "api", text });
  const facts = async () =>
    (await eventsOf(url, directory, missionID)).flatMap(({ type, data: { text, disposition, phase, title } }) =>
      type === "task.messaged" ? [{ text, disposition, phase, title }] : [],
    );

  const before = requests();
  expect(await say("Tabs, here and everywhere.")).toMatchObject({ body: { disposition: "steered" } });
  expect(await facts()).toEqual([
    { text: "Tabs, here and everywhere.", disposition: "steered", phase: "a", title: "Phase a" },
  ]);
  // It gives its agent nothing to do.
  expect(await now()).toMatchObject({ agentStatus: "inactive", state: "waiting" });
  expect(requests()).toBe(before);
  held[0]?.resolve();
  await until(now, ({ tasks }) => tasks[0]?.attempt === 2);
  expect(told[0]).toMatch(
    /^The user wrote to Task task_\w+ of phase a, "Phase a", which has it: Tabs, here and everywhere\.$/m,
  );
  expect(told[0]).toContain("ended completed");
  held[1]?.resolve();
  const done = await until(now, ({ state }) => state === "done");
  expect(told[1]).not.toContain("The user wrote to");
  expect(await facts()).toHaveLength(1);
  expect(brief()).toMatch(/<data from="a message of the user to a Task">\nTabs, here and everywhere\.\n<\/data>/);
  expect(done).toMatchObject({ verified: true });

  // One that had ended: a long message in its parts that say the most, and all of it to the Task.
  const long = `Begins here. ${"and so on ".repeat(400)} Ends here.`;
  expect(await say(long)).toMatchObject({ body: { disposition: "restarted" } });
  await until(now, ({ state, tasks }) => state === "done" && tasks[0]?.attempt === 3);
  expect(told[2]).toMatch(
    /^The user wrote to Task task_\w+ of phase a, "Phase a", which had ended, and goes on with it: /m,
  );
  expect(told[2]).toContain("Begins here.");
  expect(told[2]).toContain(`the Task ${taskID} has all of it`);
  expect(told[2]).toContain("Ends here.");
  const [, cut] = await facts();
  expect(String(cut?.text).length).toBeLessThan(2_200);
  // The words before stay word for word, and the new ones make the verdict out of date.
  const [last] = stage.requests.filter(({ mission }) => mission).slice(-1);
  expect(JSON.stringify(last?.request.body.messages)).toContain("Tabs, here and everywhere.");
  expect(brief()).toContain("Ends here.");
});

test("why a person cancels a Task reaches it, and whoever judges the whole, as their words", {
  timeout: 60_000,
}, async () => {
  const told: string[] = [];
  const brief = judgesBrief();
  stage.play("cancelled", {
    mission: turns(
      { calls: [plan("a"), dispatch("a", "Write it. [cancelled]")] },
      { text: "It runs." },
      (_turn, _request, newest) => {
        told.push(newest);
        return { calls: [dispatch("a", "Write another. [cancelled]")] };
      },
      { text: "It runs." },
      { calls: [finish()] },
    ),
    task: (turn, { first }) =>
      first.includes("Write it.")
        ? { text: "…", hold: true }
        : turn === 0
          ? { calls: [{ tool: "write", input: { path: "b.txt", content: "b\n" } }] }
          : { text: "Wrote it." },
  });
  const { url } = stage.service;
  const directory = stage.project();
  const { missionID } = await wake(url, directory, { text: "[cancelled]", judged: true });
  const now = () => missionOf(url, directory, missionID);
  const { tasks } = await until(now, (one) => one.tasks.length === 1 && one.agentStatus === "inactive");
  const reason = "007 is a product code with us, keep it";
  // Also under the name that its own have.
  await post(url, `/task/${tasks[0]?.taskID}/cancel`, directory, { surface: "mission", reason });
  await until(now, ({ state }) => state === "done", 50_000);
  expect(told[0]).toContain("ended cancelled: the user cancelled it.");
  expect(told[0]).toContain(`The user's reason, in their words: ${reason}`);
  expect(brief()).toContain(`<data from="the user, who cancelled a Task">\n${reason}\n</data>`);
});

test("a Mission that is gone keeps nobody from its Task; one that was stopped hears it when it is woken", async () => {
  const told: string[] = [];
  const free = Promise.withResolvers<void>();
  stage.play("stopped", {
    mission: turns(
      { calls: [plan("a"), dispatch("a", "Write it. [stopped]")] },
      { text: "It runs." },
      (_turn, _request, newest) => {
        told.push(newest);
        return { calls: [finish("blocked", "Stopped.")] };
      },
    ),
    task: async () => {
      await free.promise;
      return { text: "Nothing to do." };
    },
  });
  const { url } = stage.service;
  const directory = stage.project();
  const { missionID } = await wake(url, directory, { text: "[stopped]" });
  const { tasks } = await until(
    () => missionOf(url, directory, missionID),
    ({ tasks: [task], agentStatus }) => task !== undefined && agentStatus === "inactive",
  );
  const message = (text: string) => post(url, `/task/${tasks[0]?.taskID}/message`, directory, { source: "api", text });
  await post(url, `/mission/${missionID}/abort`, directory, {});
  expect((await message("Only the first half.")).status).toBe(202);
  expect(await missionOf(url, directory, missionID)).toMatchObject({ state: "aborted", agentStatus: "inactive" });
  free.resolve();
  await until(
    () => taskOf(url, tasks[0]?.taskID ?? ""),
    ({ lifecycleStatus }) => lifecycleStatus === "completed",
  );
  await wake(url, directory, { missionID, text: "Go on." });
  await restOf(url, directory, missionID);
  expect(told[0]).toContain("which has it: Only the first half.");
  const { status } = await (async () => {
    await fetch(`${url}/mission/${missionID}?directory=${encodeURIComponent(directory)}`, { method: "DELETE" });
    return message("And the second one.");
  })();
  expect(status).toBe(202);
});
