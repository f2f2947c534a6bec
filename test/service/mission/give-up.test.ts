import { afterAll, beforeAll, expect, test } from "vitest";
import {
  dispatch,
  finish,
  openStage,
  plan,
  restOf,
  type Say,
  type Stage,
  turns,
  wake,
} from "../../harness/double/missions.ts";

/** A phase that its agents give up: dispatched once more with other words, then no more. */

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
});
afterAll(() => stage[Symbol.asyncDispose]());

const shell = (command: string) => ({ calls: [{ tool: "shell", input: { command } }] });
const gaveUp = { calls: [{ tool: "give_up", input: { why: "The port is taken.", tried: "Another one." } }] };

/** The first two dispatches end as `task` plays it, and a third is tried; resolves to what its agent heard. */
const heard = async (name: string, task: Say): Promise<{ told: string[]; tasks: number }> => {
  const told: string[] = [];
  const hear =
    (...calls: { tool: string; input: unknown }[]): Say =>
    (_turn, _request, newest) => {
      told.push(newest);
      return calls.length === 0 ? { text: "Waiting." } : { calls };
    };
  stage.play(name, {
    mission: turns(
      { calls: [plan("a")] },
      { calls: [dispatch("a", `Serve it. [${name}]`, { checks: ["false"] })] },
      hear(dispatch("a", `Serve it elsewhere. [${name}]`, { checks: ["false"] })),
      hear(dispatch("a", `Serve it at last. [${name}]`, { checks: ["false"] })),
      hear(),
      hear(finish("blocked", "No way.")),
      { calls: [finish("blocked", "No way.")] },
    ),
    task,
  });
  const directory = stage.project();
  const { url } = stage.service;
  const { missionID } = await wake(url, directory, { text: `[${name}]` });
  const mission = await restOf(url, directory, missionID);
  return { told, tasks: mission.taskCounts.total };
};

test("it is told why, may dispatch once more with other words, and not a third time", async () => {
  const { told, tasks } = await heard("gaveup", turns(shell("false"), gaveUp));
  expect(tasks).toBe(2);
  const all = told.join("\n");
  expect(all).toContain("The agent gave up: The port is taken.");
  expect(all).toContain("Phase a was given up twice");
});

test("control: a phase that fails otherwise is dispatched a third time", async () => {
  const { told, tasks } = await heard("failed", turns(shell("false"), { text: "Done." }));
  expect(tasks).toBe(3);
  expect(told.join("\n")).not.toContain("given up");
});
