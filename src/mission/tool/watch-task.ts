import { hash } from "node:crypto";
import { z } from "zod";
import { maxSameFailures, sameFailures } from "../../domain/mission/grant.ts";
import { type Dispatched, isOfService, isRunning } from "../../domain/state/mission.ts";
import type { MissionBudget } from "../../protocol/mission/status.ts";
import { budget as taskBudget } from "../../protocol/field.ts";
import { oneLine } from "../../agent/loop/compaction.ts";
import { messageOf, ServiceError } from "../../error.ts";
import { failed, truncateMiddle, ok } from "../../tool/result.ts";
import type { Tool, ToolResult } from "../../tool/tool.ts";
import { serviceDutyOf } from "../service-task.ts";
import type { MissionRun } from "../run.ts";
import { minutesFromNow, lookInMinutes } from "./dispatch.ts";
import { checkInput } from "./check-input.ts";
import { planText } from "./plan-text.ts";

/** The tools by which the Mission's agent reads and steers its Tasks. */

const statusInput = z.strictObject({
  phases: z.array(z.string()).max(50).optional().describe("Of a long plan, those to show in full"),
  tasks: z.array(z.string()).max(50).optional().describe("Ids of Tasks"),
  lookInMinutes: lookInMinutes.optional().describe("You are woken then, if they have not ended"),
});

export const statusTool = (run: MissionRun): Tool<z.infer<typeof statusInput>> => ({
  name: "task_status",
  description:
    "Shows the plan with all its words, the state, Tasks and commits of each phase, and the budget; of Tasks that you name, what each is doing now.",
  input: statusInput,
  effect: "log",
  effectOf: (given) => (typeof given === "object" && given !== null && "lookInMinutes" in given ? "log" : "none"),
  async run({ phases = [], tasks = [], lookInMinutes: minutes }, { callID }) {
    if (minutes !== undefined) {
      const running = run.state().tasks.filter((task) => tasks.includes(task.taskID) && isRunning(task));
      if (running.length === 0)
        return failed(
          `Expected ids of running Tasks in \`tasks\` with lookInMinutes (${runningIDs(run)}), got ${tasks.join(", ") || "none"}. Nothing was set.`,
        );
      const at = { sessionID: run.stream, callID, lookAt: minutesFromNow(run, minutes) };
      await run.record(running.map(({ taskID }) => ({ type: "task.watched", data: { ...at, taskID } })));
    }
    const shown = await Promise.all(
      tasks.map(async (taskID) => {
        const task = await requireOwnTask(run, taskID);
        if ("outcome" in task) return { taskID, problem: task.output };
        const { lifecycleStatus, phase, error, pending, checks, usage } = await run.tasks.status(taskID);
        return {
          taskID,
          lifecycleStatus,
          phase,
          ...(error === undefined ? {} : { error }),
          asks: pending.map(({ id, prompt }) => ({ id, prompt })),
          checks: checks.map(({ name, state, required }) => ({ name, state, required })),
          steps: usage.modelCalls,
        };
      }),
    );
    // In order, to include what earlier calls of the same reply changed in the plan.
    const text = await run.inOrder(async () => planText(run.state(), phases, await run.store.dispatched(run.stream)));
    return ok(
      shown.length === 0 ? text : `${text}\n${truncateMiddle(JSON.stringify(shown, null, 1), "name fewer Tasks")}`,
    );
  },
});

const messageInput = z.strictObject({
  task: z.string(),
  text: z.string().min(1).max(50_000),
  budget: z
    .looseObject({})
    .pipe(taskBudget)
    .optional()
    .describe("If its own is used up: the new total, as in `dispatch`"),
  checks: z
    .array(checkInput)
    .max(20)
    .optional()
    .describe("If yours required the impossible: all of its checks from now on, as in `dispatch`"),
});

export const messageTool = (run: MissionRun): Tool<z.infer<typeof messageInput>> => ({
  name: "task_message",
  description:
    "Sends a Task an instruction. One that runs reads it at its next step; one that ended continues from where it was.",
  input: messageInput,
  effect: "log",
  run: ({ task: taskID, text, budget, checks }, { callID }) =>
    refusing(async () => {
      const task = await requireOwnTask(run, taskID);
      if ("outcome" in task) return task;
      const known = run.state().tasks.find((one) => one.taskID === taskID);
      if (known !== undefined && isOfService(known)) return failed(serviceBar(known));
      const { times, code } = sameFailures(known ?? { ends: [] });
      if (times >= maxSameFailures && known !== undefined && !isRunning(known))
        return failed(
          `The Task failed ${times} times in a row in the same way (${code}), and is not continued again. Dispatch its phase with another brief, plan another way, or report it.`,
        );
      const once = { scope: `mission ${run.stream}`, key: callID, bodyHash: hash("sha256", text) };
      const { body } = await run.tasks.message(run.state().directory, taskID, { source: "mission", text }, once, {
        callID,
        ...(budget === undefined ? {} : { budget: budget as MissionBudget }),
        ...(checks === undefined ? {} : { checks }),
      });
      // Reads the events that the message's commit wrote to this stream.
      await run.record([]);
      return ok(wasTold[body.disposition]);
    }),
});

/**
 * Why the agent cannot message a Task of the service's own: a judge of the whole is not to be persuaded, and merging is
 * a person's decision.
 */
const serviceBar = (task: Dispatched): string =>
  `Expected a Task that you dispatched, got ${task.taskID}, which ${serviceDutyOf(task)} for the service and reads no message of yours. Nothing was sent. ${
    task.merge === undefined
      ? "What is right in its verdict, have mended: by a phase, or by a message to the Task whose work it is. Where it is wrong, say so in the summary of `finish`."
      : "What has to be different in the work is a phase, or a message to the Task that did it; whether and when the branch is merged is not yours to decide."
  }`;

/** What becomes of the message, by the disposition that the service reports. */
const wasTold = {
  steered: "The Task is running and reads it at its next step.",
  queued: "The Task is running and reads it when its current work is done.",
  interrupted: "What the Task was doing is stopped, and it reads this now.",
  restarted: "The Task had ended. It continues from there with this, and you are woken when it ends again.",
};

const answerInput = z.strictObject({
  task: z.string(),
  ask: z.string().optional().describe("Where it asks several things: the id of one"),
  answer: z.string().min(1).max(8000).optional(),
  pass: z.literal(true).optional().describe("Instead: the user is asked"),
});

export const answerTool = (run: MissionRun): Tool<z.infer<typeof answerInput>> => ({
  name: "task_answer",
  description:
    "Answers what a Task asks, or has the user asked. Where a check of yours stands in its way, send other ones with `task_message`.",
  input: answerInput,
  effect: "log",
  // One after another: an answer may close what the next one in the same reply would answer again.
  run: ({ task: taskID, ask: askID, answer, pass }, { callID }) =>
    run.inOrder(() =>
      refusing(async () => {
        const task = await requireOwnTask(run, taskID);
        if ("outcome" in task) return task;
        if ((answer === undefined) === (pass === undefined))
          return failed(
            `Expected one of answer and pass, got ${answer === undefined ? "neither" : "both"}. The Task still waits.`,
          );
        // The answer was given before a restart.
        const scope = `mission ${run.stream}`;
        if ((await run.store.once(scope, callID)) !== undefined) return ok(goesOn);
        const { pending, lifecycleStatus } = await run.tasks.status(taskID);
        const questions = pending.filter(({ kind }) => kind === "question");
        const own = questions.filter(({ passesAt }) => passesAt !== undefined);
        const open = own.length > 0 ? own : questions;
        const ask = askID === undefined ? open[0] : questions.find(({ id }) => id === askID);
        if (open.length === 0)
          return failed(
            lifecycleStatus === "active"
              ? "The Task has no open question: it was answered, or continued without an answer. Send a message instead."
              : "The Task has ended and has no open question.",
          );
        if (ask === undefined)
          return failed(
            `Expected \`ask\` to be an open question of the Task, got ${JSON.stringify(askID)}. ${openText(open)}`,
          );
        if (askID === undefined && open.length > 1)
          return failed(`Expected \`ask\`, because the Task asks ${open.length} things; got none. ${openText(open)}`);
        const left = open.filter(({ id }) => id !== ask.id);
        if (answer === undefined) {
          await run.tasks.passAskToPerson(taskID, ask.id);
          return ok(`The user is asked. You are woken when the Task ends.${stillOpen(left)}`);
        }
        const once = { scope, key: callID, bodyHash: hash("sha256", answer) };
        await run.tasks.answer(run.state().directory, taskID, ask.id, { answer }, once, "mission");
        return ok(left.length === 0 ? goesOn : `Answered.${stillOpen(left)}`);
      }),
    ),
});

type Question = { id: string; prompt: string };

const openText = (open: readonly Question[]): string =>
  `Open: ${open.map(({ id, prompt }) => `${id}: ${JSON.stringify(oneLine(prompt, 200))}`).join(", ")}. The Task still waits.`;

const stillOpen = (left: readonly Question[]): string =>
  left.length === 0 ? "" : ` It waits for the answer to ${left.map(({ id }) => id).join(", ")}, too.`;

const goesOn = "It goes on with that.";

const cancelInput = z.strictObject({
  task: z.string(),
  reason: z.string().min(1).max(1000),
});

export const cancelTool = (run: MissionRun): Tool<z.infer<typeof cancelInput>> => ({
  name: "task_cancel",
  description: "Cancels a Task that is no longer wanted. Nothing lands; its work stays on its branch.",
  input: cancelInput,
  effect: "log",
  // In the order of the reply, so that a phase that a later call drops has no running Task any more.
  run: ({ task: taskID, reason }) =>
    run.inOrder(() =>
      refusing(async () => {
        const task = await requireOwnTask(run, taskID);
        if ("outcome" in task) return task;
        const { lifecycleStatus } = await run.tasks.status(taskID);
        if (lifecycleStatus === "completed" || lifecycleStatus === "failed")
          return failed(
            `Expected a Task that runs, ${taskID} has ended: it is ${lifecycleStatus}. Nothing is left to cancel${lifecycleStatus === "completed" ? "; what it landed stays" : ""}.`,
          );
        const { body } = await run.tasks.cancel(run.state().directory, taskID, { reason }, undefined, "mission");
        return ok(body.lifecycleStatus === "active" ? "It is being cancelled." : "It is cancelled.");
      }),
    ),
});

const runningIDs = (run: MissionRun): string =>
  run
    .state()
    .tasks.filter(isRunning)
    .map(({ taskID }) => taskID)
    .join(", ") || "none runs";

/** Most Tasks that a refusal names; the newest. */
const mostTasks = 20;

export const requireOwnTask = async (run: MissionRun, taskID: string): Promise<{ taskID: string } | ToolResult> =>
  run.state().tasks.some((task) => task.taskID === taskID)
    ? { taskID }
    : failed(
        `Expected a Task of this Mission (${
          run
            .state()
            .tasks.slice(-mostTasks)
            .map((task) => `${task.taskID} of phase ${task.phase}`)
            .join(", ") || "there is none yet"
        }), got ${JSON.stringify(taskID)}.`,
      );

/** Turns a `ServiceError` into a failed result for the model; retryable ones are thrown. */
export const refusing = async (work: () => Promise<ToolResult>): Promise<ToolResult> => {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ServiceError && !error.retryable) return failed(messageOf(error));
    throw error;
  }
};
