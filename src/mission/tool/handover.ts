import { failuresOf, outcomeText, workOf } from "../../domain/mission/plan.ts";
import type { MissionState } from "../../domain/state/mission.ts";
import type { EventData } from "../../protocol/event/event.ts";
import type { PlannedPhase } from "../../protocol/mission/status.ts";
import { readEnd } from "../../domain/task/commit-text.ts";
import { markForeign } from "../../tool/result.ts";
import { changeOf, deliveriesOf, sharedAmong } from "../delivery.ts";
import { taskDirectory } from "../repository.ts";
import type { MissionRun } from "../run.ts";

/**
 * The service's message to the squad, in addition to the agent's brief: how the phase is accepted, and what earlier
 * phases left. Phases that this one starts from are told in full; of other phases that delivered, only the beginning is
 * told.
 */

/**
 * Characters for what one phase left, corrections included: `longWords` for a phase that this one starts from,
 * `shortWords` for another. Of the others the newest `mostOthers` are told.
 */
const longWords = 12_000;
const shortWords = 600;
const mostOthers = 40;

/**
 * `commits`: what failed attempts left, by branch. The branch name itself does not exist in the repository of a Task.
 */
export const handoverOf = (
  state: MissionState,
  phase: PlannedPhase,
  note: string | null,
  commits: ReadonlyMap<string, string>,
): string => {
  const before = phase.after.flatMap((id) => {
    const other = state.plan.find((one) => one.id === id);
    const delivered = deliveriesOf(state, id);
    const ends = delivered.length > 0 ? delivered : (workOf(state, id).at(-1)?.ends.slice(-1) ?? []);
    return other === undefined || ends.length === 0 ? [] : [leftText(other, ends, longWords)];
  });
  const others = state.plan.flatMap((other) => {
    if (other.id === phase.id || phase.after.includes(other.id)) return [];
    const ends = deliveriesOf(state, other.id);
    return ends.length === 0 ? [] : [{ other, ends }];
  });
  const told = others.slice(-mostOthers).map(({ other, ends }) => leftText(other, ends, shortWords));
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

type End = EventData["task.ended"];

const leftBehind = (commit: string): string =>
  `What it left is commit ${commit}: \`git diff HEAD...${commit}\` shows it. Take over what is right of it, all of it with \`git diff HEAD...${commit} | git apply\`.`;

/** The commits that failed attempts at the phase left, by branch; a branch that is gone is missing. */
export const commitsLeft = async (run: MissionRun, phase: PlannedPhase): Promise<Map<string, string>> => {
  const left = failuresOf(run.state(), phase.id).flatMap(({ ends }) => ends.at(-1)?.branch ?? []);
  if (left.length === 0) return new Map();
  const { project } = await run.workspaces.inspect(taskDirectory(run));
  const branches = run.workspaces.branches(project);
  const found = await Promise.all(
    left.map(async (branch) => [branch, await branches.headOf(fullName(branch))] as const),
  );
  return new Map(found.flatMap(([branch, commit]) => (commit === null ? [] : [[branch, commit] as const])));
};

const fullName = (branch: string): string => (branch.startsWith("refs/") ? branch : `refs/heads/${branch}`);

const leftText = ({ id, title }: PlannedPhase, ends: readonly End[], longest: number): string => {
  const reports = ends.map(({ summary }) => readEnd(summary).report);
  const rooms = sharedAmong(reports, longest);
  const told = ends.flatMap(({ taskID, landedCommit, outcome }, at) => {
    const [report, length] = [reports[at] ?? "", rooms[at] ?? 0];
    if (report !== "" && length === 0) return [];
    const words = report.length > length ? `${report.slice(0, length)}…` : report;
    return [{ landedCommit, outcome, words: words === "" ? "" : markForeign(taskID, words) }];
  });
  const tasks = [...new Set(ends.map(({ taskID }) => taskID))].join(", ");
  const heading = `## ${title} (phase ${id}, ${tasks})`;
  const [only] = told;
  if (only !== undefined && ends.length === 1)
    return `${heading}\n${outcomeText(only.outcome)}.${only.landedCommit === null ? "" : ` It landed as ${only.landedCommit}, which your copy has.`}\n\n${only.words}`.trim();
  const change = changeOf(ends);
  return [
    `${heading}\nIt was completed in ${ends.length} steps${change === undefined ? "" : `, together ${change}`}. Your copy has all of them; where their reports contradict each other, the later one holds.`,
    ...told.map(({ landedCommit, words }) =>
      `### ${landedCommit === null ? "Without a commit" : `Landed as ${landedCommit}`}\n${words}`.trim(),
    ),
  ].join("\n\n");
};
