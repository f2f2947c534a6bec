import { z } from "zod";
import { phaseState } from "../../domain/mission/plan.ts";
import { failed, ok } from "../../tool/result.ts";
import type { Tool } from "../../tool/tool.ts";
import type { MissionRun } from "../run.ts";

/** The tool that declares how the Mission stands. */

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
