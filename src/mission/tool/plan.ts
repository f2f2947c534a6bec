import { z } from "zod";
import { isRunning } from "../../domain/state/mission.ts";
import { phaseState, planProblem } from "../../domain/mission/plan.ts";
import type { PlannedPhase } from "../../protocol/mission/status.ts";
import { failed, ok } from "../../tool/result.ts";
import type { Tool } from "../../tool/tool.ts";
import type { MissionRun } from "../run.ts";
import { planSummary } from "./watch-task.ts";

/** The tools that write the plan and that declare the Mission's outcome. */

/** Largest plan in bytes, so that its event stays below the limit of 64 KiB. */
const planBytes = 48 * 1024;

const id = z
  .string()
  .regex(/^[a-z0-9]+(?:-[a-z0-9]+)*$/)
  .max(40);

const planInput = z.strictObject({
  phases: z
    .array(
      z.strictObject({
        id: id.describe("Small letters, digits, hyphens; it stays the same over every later plan"),
        title: z.string().min(1).max(120),
        phase: z
          .string()
          .min(1)
          .max(129)
          .optional()
          .describe("What kind of work it is, as squads own it: domain/phase or words. Default: the id"),
        objective: z.string().min(1).max(4000).describe("What is true when it is done"),
        acceptance: z.array(z.string().min(1).max(500)).max(20).optional().describe("What can be seen or run"),
        after: z.array(id).max(50).optional().describe("Ids of phases whose result it starts from"),
      }),
    )
    .min(1)
    .max(50),
});

export const planTool = (run: MissionRun): Tool<z.infer<typeof planInput>> => ({
  name: "plan",
  description:
    "Writes the whole plan: phases with what each is for, how its result is judged, and which phases it starts from. " +
    "Phases without `after` run at the same time; one with it begins with what those before have landed in the project. " +
    "One phase is what one Task delivers and one squad knows how to do. Write it before the first dispatch, and again when it changes; ids stay.",
  input: planInput,
  effect: "log",
  run: ({ phases: given }, { callID }) =>
    run.inOrder(async () => {
      const phases = given.map(
        ({ id, title, phase = id, objective, acceptance = [], after = [] }): PlannedPhase => ({
          id,
          title,
          phase,
          objective,
          acceptance,
          after,
        }),
      );
      const { plan, tasks } = run.state();
      const kept = [...new Set(tasks.filter(isRunning).map(({ phase }) => phase))];
      const problem = planProblem(phases, kept);
      if (problem !== undefined) return failed(`${problem}. The plan is as it was.`);
      const bytes = Buffer.byteLength(JSON.stringify(phases));
      if (bytes > planBytes)
        return failed(`Expected a plan of at most ${planBytes} bytes, got ${bytes}. Say it shorter.`);
      if (JSON.stringify(plan) !== JSON.stringify(phases))
        await run.record([{ type: "plan.written", data: { sessionID: run.stream, callID, phases } }]);
      return ok(planSummary(run.state()));
    }),
});

const finishInput = z.strictObject({
  outcome: z.enum(["done", "blocked", "waiting"]),
  summary: z.string().min(1).max(8000).describe("For the user, who has not watched"),
  wakeInMinutes: z.number().int().min(1).max(525_600).optional().describe("With waiting: when you want to look again"),
});

export const finishTool = (run: MissionRun): Tool<z.infer<typeof finishInput>> => ({
  name: "finish",
  description:
    "Says how the whole stands, and ends your turn. done: every phase is done and you have read the evidence. blocked: you can do nothing more without the user; say what is missing. " +
    "waiting: something outside has to happen first; with `wakeInMinutes` you are woken then. " +
    "Not needed while Tasks run: answer without a call, you are woken when one ends.",
  input: finishInput,
  effect: "log",
  run: ({ outcome, summary, wakeInMinutes }, { callID }) =>
    run.inOrder(async () => {
      const state = run.state();
      if (state.finished?.callID === callID) return ok("Said.");
      const open = state.plan.filter((phase) => phaseState(state, phase) !== "done");
      if (outcome === "done" && open.length > 0)
        return failed(
          `Expected every phase of the plan to be done, these are not: ${open.map((phase) => `${phase.id} (${phaseState(state, phase)})`).join(", ")}. Change the plan if they are no longer wanted, or say blocked.`,
        );
      if (wakeInMinutes !== undefined && outcome !== "waiting")
        return failed(`Expected wakeInMinutes only with the outcome waiting, got ${outcome}.`);
      const wakeAt =
        wakeInMinutes === undefined ? null : new Date(run.now().getTime() + wakeInMinutes * 60_000).toISOString();
      const decidedAt = state.version;
      const said = await run.record(
        [{ type: "mission.finished", data: { sessionID: run.stream, callID, outcome, summary, wakeAt } }],
        { decidedAt },
      );
      return said ? ok("Said.") : failed("Something came in meanwhile. Read it first.");
    }),
});
