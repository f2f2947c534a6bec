import { z } from "zod";
import { inOrder, phaseState, withPhase } from "../../domain/mission/plan.ts";
import {
  mostPhases,
  phaseAcceptance,
  phaseAfter,
  phaseFields,
  phaseID,
  phaseKind,
  phaseObjective,
  phaseTitle,
} from "../../protocol/mission/phase.ts";
import type { PlannedPhase } from "../../protocol/mission/status.ts";
import { failed, ok } from "../../tool/result.ts";
import type { Tool, ToolResult } from "../../tool/tool.ts";
import type { MissionRun } from "../run.ts";
import { planRefusal, planEvents, phaseOf } from "../plan/rules.ts";
import { planSummary } from "./plan-text.ts";
import { phaseIDs, planEditRefusal } from "./refusal.ts";

/** The tools that write the plan: the whole of it, or one phase. Each phase is an event of its own. */

/** The id of a phase of the plan. The tool itself checks it, and refuses an unknown one in words. */
const known = z.string();

const planInput = z.strictObject({
  phases: z.array(z.strictObject(phaseFields)).min(1).max(mostPhases),
  drop: z.array(known).max(mostPhases).optional().describe("Ids of phases that go"),
});

export const planTool = (run: MissionRun): Tool<z.infer<typeof planInput>> => ({
  name: "plan",
  description:
    "Writes the whole plan. Phases without `after` run at the same time; one with it begins with what those have landed. " +
    "Write it before the first dispatch; later change single phases with `phase`. Ids stay.",
  input: planInput,
  effect: "log",
  run: ({ phases: given, drop = [] }, { callID }) =>
    run.inOrder(async () => {
      const phases = given.map(phaseOf);
      const state = run.state();
      const named = new Set([...phases.map(({ id }) => id), ...drop]);
      const left = state.plan.filter((phase) => !named.has(phase.id));
      // Phases of running Tasks are refused in words of their own.
      const lost = left.filter((phase) => phaseState(state, phase) !== "running");
      if (lost.length > 0)
        return failed(
          `Expected every phase of the plan in \`phases\` or in \`drop\`, these are in neither: ${lost
            .slice(0, 50)
            .map((phase) => `${phase.id} (${JSON.stringify(phase.title)}, ${phaseState(state, phase)})`)
            .join(", ")}. The plan is as it was. One phase alone is added or changed with \`phase\`.`,
        );
      return write(run, callID, phases);
    }),
});

/** The fields mean what they mean in `plan`, and are described there. */
const phaseInput = z.strictObject({
  id: phaseID,
  title: phaseTitle.optional(),
  phase: phaseKind.optional(),
  objective: phaseObjective.optional(),
  acceptance: phaseAcceptance.optional(),
  after: phaseAfter.optional(),
  before: known.optional().describe("Where it stands: before this one"),
  drop: z.boolean().optional(),
});

export const phaseTool = (run: MissionRun): Tool<z.infer<typeof phaseInput>> => ({
  name: "phase",
  description:
    "Adds, changes, moves or drops one phase; the others stay. Name only what changes; a new one needs title and objective.",
  input: phaseInput,
  effect: "log",
  run: ({ id, before, drop = false, ...given }, { callID }) =>
    run.inOrder(async () => {
      const { plan } = run.state();
      const known = plan.find((phase) => phase.id === id);
      const ids = phaseIDs(run.state());
      if (drop && known === undefined)
        return failed(`Expected the id of a phase of the plan (${ids}), got "${id}". The plan is as it was.`);
      if (before !== undefined && (before === id || !plan.some((phase) => phase.id === before)))
        return failed(
          `Expected the id of another phase (${ids}) in \`before\`, got "${before}". The plan is as it was.`,
        );
      const heirs = plan.flatMap((phase) => (phase.after.includes(id) ? [phase.id] : []));
      if (drop && heirs.length > 0)
        return failed(
          `Expected no phase to start from one that is dropped, but ${heirs.join(", ")} ${heirs.length === 1 ? "has" : "have"} "${id}" in \`after\`: change that first. The plan is as it was.`,
        );
      if (drop)
        return write(
          run,
          callID,
          plan.filter((phase) => phase.id !== id),
        );
      const title = given.title ?? known?.title;
      const objective = given.objective ?? known?.objective;
      if (title === undefined || objective === undefined)
        return failed(
          `Expected a title and an objective for the new phase "${id}", got ${title === undefined ? (objective === undefined ? "neither" : "no title") : "no objective"}. If you meant a phase of the plan, they are: ${ids}. The plan is as it was.`,
        );
      const next = withPhase(plan, {
        id,
        title,
        phase: given.phase ?? known?.phase ?? id,
        objective,
        acceptance: given.acceptance ?? known?.acceptance ?? [],
        after: given.after ?? known?.after ?? [],
      });
      if (before === undefined) return write(run, callID, next);
      const others = next.flatMap((phase) => (phase.id === id ? [] : [phase.id]));
      return write(run, callID, inOrder(next, others.toSpliced(others.indexOf(before), 0, id)));
    }),
});

/** Makes `next` the plan in one commit, unless it breaks a rule. */
const write = async (run: MissionRun, callID: string, next: readonly PlannedPhase[]): Promise<ToolResult> => {
  for (;;) {
    const state = run.state();
    const problem = planEditRefusal(state) ?? (await planRefusal(run.store, state, next, release));
    if (problem !== undefined) return failed(`${problem}. The plan is as it was.`);
    const { facts, written, dropped } = planEvents(state.plan, next, { sessionID: run.stream, callID });
    // A person may have changed the plan meanwhile. Then the commit fails, and the agent has to read that change first.
    if (facts.length === 0 || (await run.record(facts, { decidedAt: state.version })))
      return ok(planSummary(run.state(), written, dropped));
  }
};

const release = "end that with `task_cancel`, which may stand before this in the same reply";
