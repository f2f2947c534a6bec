import { failuresOf, outcomeText, workOf } from "../../domain/mission/plan.ts";
import { deliveredBy, type MissionState } from "../../domain/state/mission.ts";
import type { EventData } from "../../protocol/event/event.ts";
import type { PlannedPhase } from "../../protocol/mission/status.ts";
import { markForeign } from "../../tool/result.ts";

/**
 * What earlier phases left, and how the phase is accepted: the service's message to the squad, in addition to the
 * agent's brief. Those that the phase starts from are told in full, the others that have delivered in their beginnings.
 */

/** Longest beginning of what a phase left that this one does not start from, and how many of the newest are told. */
const shortWords = 600;
const mostOthers = 40;

export const handoverOf = (state: MissionState, phase: PlannedPhase, note: string | null): string => {
  const before = phase.after.flatMap((id) => {
    const other = state.plan.find((one) => one.id === id);
    const work = workOf(state, id);
    const last = work.flatMap((task) => deliveredBy(task) ?? []).at(-1) ?? work.at(-1)?.ends.at(-1);
    return other === undefined || last === undefined ? [] : [leftText(other, last, Number.POSITIVE_INFINITY)];
  });
  const others = state.plan.flatMap((other) => {
    if (other.id === phase.id || phase.after.includes(other.id)) return [];
    const last = workOf(state, other.id)
      .flatMap((task) => deliveredBy(task) ?? [])
      .at(-1);
    return last === undefined ? [] : [{ other, last }];
  });
  const told = others.slice(-mostOthers).map(({ other, last }) => leftText(other, last, shortWords));
  const earlier = failuresOf(state, phase.id).map((task, at) => {
    const end = task.ends.at(-1);
    const branch = end?.branch == null ? "" : ` ${branchText(end.branch)}`;
    return `- Attempt ${at + 1} (${task.taskID}) failed: ${end?.error ?? "no reason given"}${branch}`;
  });
  const section = (heading: string, parts: readonly string[], between = "\n\n") =>
    parts.length === 0 ? [] : [`# ${heading}\n${parts.join(between)}`];
  return [
    `This Task is one phase of a larger Mission, "${state.title}". Do this phase and no other.`,
    `# The phase\n${phase.title}: ${phase.objective}`,
    ...section(
      "It is accepted when",
      phase.acceptance.map((line) => `- ${line}`),
      "\n",
    ),
    ...section("What the phases left that it starts from", before),
    ...section("What other phases left", told),
    ...(note === null || note.trim() === "" ? [] : [`# What the Mission keeps in mind\n${note.trim()}`]),
    ...section("What was tried", earlier, "\n"),
  ].join("\n\n");
};

const branchText = (branch: string): string =>
  `What it left is on the branch ${branch}: look at it with \`git log\` and \`git diff HEAD...${branch}\`, and take over what is right of it.`;

const leftText = ({ id, title }: PlannedPhase, last: EventData["task.ended"], longest: number): string => {
  const landed = last.landedCommit === null ? "" : ` It landed as ${last.landedCommit}, which your copy has.`;
  const words = last.summary.length > longest ? `${last.summary.slice(0, longest)}…` : last.summary;
  return `## ${title} (phase ${id}, ${last.taskID})\n${outcomeText(last.outcome)}.${landed}\n\n${words === "" ? "" : markForeign(last.taskID, words)}`.trim();
};
