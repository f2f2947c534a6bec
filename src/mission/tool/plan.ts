import { z } from "zod";
import { isOfService, isRunning } from "../../domain/state/mission.ts";
import type { DomainEvent } from "../../domain/event.ts";
import { inOrder, phaseState, planDifference, planProblem, withPhase } from "../../domain/mission/plan.ts";
import type { PlannedPhase } from "../../protocol/mission/status.ts";
import { failed, ok } from "../../tool/result.ts";
import type { Tool, ToolResult } from "../../tool/tool.ts";
import type { MissionRun } from "../run.ts";
import { planSummary } from "./plan-text.ts";
import { phaseIDs } from "./refusal.ts";

/** The tools that write the plan: the whole of it, or one phase. Each phase is a fact of its own. */

const mostPhases = 500;

/** Largest phase in bytes, so that its event stays below the limit of 64 KiB. */
const phaseBytes = 60 * 1024;

const id = z
  .string()
  .regex(/^[a-z0-9]+(?:-[a-z0-9]+)*$/)
  .max(40);

/** One that the plan must have: said in words where it has not. */
const known = z.string();

const words = {
  title: z.string().min(1).max(120),
  phase: z
    .string()
    .min(1)
    .max(129)
    .optional()
    .describe("What kind of work it is, as squads own it: domain/phase or words. Default: the id"),
  objective: z.string().min(1).max(4000).describe("What is true when it is done"),
  acceptance: z.array(z.string().min(1).max(500)).max(20).optional().describe("What can be seen or run"),
  after: z.array(known).max(100).optional().describe("Ids of phases whose result it starts from"),
};

const planInput = z.strictObject({
  phases: z
    .array(
      z.strictObject({
        id: id.describe("Small letters, digits, hyphens"),
        ...words,
      }),
    )
    .min(1)
    .max(mostPhases),
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
      const state = run.state();
      const named = new Set([...phases.map(({ id }) => id), ...drop]);
      const left = state.plan.filter((phase) => !named.has(phase.id));
      // Those of running Tasks are refused in words of their own.
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
  id,
  title: words.title.optional(),
  phase: z.string().min(1).max(129).optional(),
  objective: z.string().min(1).max(4000).optional(),
  acceptance: z.array(z.string().min(1).max(500)).max(20).optional(),
  after: z.array(known).max(100).optional(),
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

/** Makes this the plan, in one commit, unless something is wrong with it. */
const write = async (run: MissionRun, callID: string, next: readonly PlannedPhase[]): Promise<ToolResult> => {
  const state = run.state();
  const problem = problemOf(next, await keptBy(run, next));
  if (problem !== undefined) return failed(`${problem}. The plan is as it was.`);
  const { written, dropped, order } = planDifference(state.plan, next);
  const at = { sessionID: run.stream, callID };
  const facts: DomainEvent[] = [
    ...dropped.map((phase): DomainEvent => ({ type: "phase.dropped", data: { ...at, phase } })),
    ...written.map((phase): DomainEvent => ({ type: "phase.written", data: { ...at, phase } })),
    ...(order === null ? [] : [{ type: "plan.ordered" as const, data: { ...at, phases: order } }]),
  ];
  if (facts.length > 0) await run.record(facts);
  return ok(
    planSummary(
      run.state(),
      written.map((phase) => phase.id),
      dropped,
    ),
  );
};

/** Phases that the plan would lose, whose Tasks run and are not being cancelled. */
const keptBy = async (run: MissionRun, next: readonly PlannedPhase[]): Promise<string[]> => {
  const ids = new Set(next.map(({ id }) => id));
  const lost = run.state().tasks.filter((task) => isRunning(task) && !isOfService(task) && !ids.has(task.phase));
  const tasks = await Promise.all(
    lost.map(async ({ taskID, phase }) => ({ phase, task: await run.store.state(taskID) })),
  );
  const kept = tasks.filter(({ task }) => task?.lifecycle === "active" && task.cancel === null);
  return [...new Set(kept.map(({ phase }) => phase))];
};

const problemOf = (next: readonly PlannedPhase[], kept: readonly string[]): string | undefined => {
  if (next.length > mostPhases) return `Expected at most ${mostPhases} phases, got ${next.length}`;
  const large = next.find((phase) => Buffer.byteLength(JSON.stringify(phase)) > phaseBytes);
  if (large !== undefined) return `Expected a phase of at most ${phaseBytes} bytes, got more in "${large.id}"`;
  return planProblem(next, kept);
};
