import { failuresOf, outcomeText, workOf } from "../../domain/mission/plan.ts";
import { deliveredBy, type MissionState } from "../../domain/state/mission.ts";
import type { EventData } from "../../protocol/event/event.ts";
import type { PlannedPhase } from "../../protocol/mission/status.ts";
import { readEnd } from "../../domain/task/commit-text.ts";
import { markForeign } from "../../tool/result.ts";
import { workDirectory } from "../repository.ts";
import type { MissionRun } from "../run.ts";

/**
 * What earlier phases left, and how the phase is accepted: the service's message to the squad, in addition to the
 * agent's brief. Those that the phase starts from are told in full, the others that have delivered in their beginnings.
 */

/** Longest beginning of what a phase left that this one does not start from, and how many of the newest are told. */
const shortWords = 600;
const mostOthers = 40;

/** `commits`: what a failed attempt left, by its branch. The branch itself has no name in the repository of a Task. */
export const handoverOf = (
  state: MissionState,
  phase: PlannedPhase,
  note: string | null,
  commits: ReadonlyMap<string, string>,
): string => {
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
    const commit = end?.branch == null ? undefined : commits.get(end.branch);
    const left = commit === undefined ? "" : `\n${leftBehind(commit.slice(0, 12))}`;
    return `- Attempt ${at + 1} (${task.taskID}) failed: ${end?.error ?? "no reason given"}${left}`;
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

const leftBehind = (commit: string): string =>
  `What it left is commit ${commit}: \`git diff HEAD...${commit}\` shows it. Take over what is right of it, all of it with \`git diff HEAD...${commit} | git apply\`.`;

/** The commits of what failed attempts at the phase left; a branch that is gone has none. */
export const commitsLeft = async (run: MissionRun, phase: PlannedPhase): Promise<Map<string, string>> => {
  const left = failuresOf(run.state(), phase.id).flatMap(({ ends }) => ends.at(-1)?.branch ?? []);
  if (left.length === 0) return new Map();
  const { project } = await run.workspaces.inspect(workDirectory(run));
  const branches = run.workspaces.branches(project);
  const found = await Promise.all(
    left.map(async (branch) => [branch, await branches.headOf(fullName(branch))] as const),
  );
  return new Map(found.flatMap(([branch, commit]) => (commit === null ? [] : [[branch, commit] as const])));
};

const fullName = (branch: string): string => (branch.startsWith("refs/") ? branch : `refs/heads/${branch}`);

const leftText = ({ id, title }: PlannedPhase, last: EventData["task.ended"], longest: number): string => {
  const landed = last.landedCommit === null ? "" : ` It landed as ${last.landedCommit}, which your copy has.`;
  const { report } = readEnd(last.summary);
  const words = report.length > longest ? `${report.slice(0, longest)}…` : report;
  return `## ${title} (phase ${id}, ${last.taskID})\n${outcomeText(last.outcome)}.${landed}\n\n${words === "" ? "" : markForeign(last.taskID, words)}`.trim();
};
