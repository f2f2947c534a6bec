import { answersIn, oneLine } from "../../agent/loop/compaction.ts";
import { createPrompts } from "../../agent/prompt/message.ts";
import { estimate, planRenewal } from "../../domain/conversation/compaction.ts";
import { isRead } from "../../domain/state/stream.ts";
import type { Conversation } from "../../domain/conversation/message.ts";
import { handsOn } from "../../domain/mission/hand-on.ts";
import { phaseState, workOf } from "../../domain/mission/plan.ts";
import { planOf } from "../../domain/mission/status.ts";
import { readEnd } from "../../domain/task/commit-text.ts";
import { deliveredBy, isRunning, type MissionState } from "../../domain/state/mission.ts";
import { noUsage, type PromptMessage } from "../../model/model.ts";
import type { EventData } from "../../protocol/event/event.ts";
import type { MissionPhase } from "../../protocol/mission/status.ts";
import { keepText, requireText } from "../../store/blob/text.ts";
import type { MissionRun } from "../run.ts";

/**
 * Between two wakes a Mission's agent forgets what the log knows better. When something new came in after its turn was over,
 * everything before is replaced by the state of the Mission as facts tell it, and by what it had said and looked at, in a
 * line each. What people wrote stays word for word, and so does its note. Within a wake the conversation only grows, so that
 * providers can cache it.
 */

/** A renewal that frees fewer characters is not worth a new prefix. */
const worth = 4_000;

export const renew = async (run: MissionRun, overhead: number): Promise<void> => {
  const { chat, store } = run;
  const state = run.state();
  if (isRead(state) || !isOver(chat)) return;
  const cut = planRenewal(chat);
  if (cut === undefined || cut.leaves < worth) return;
  const started = performance.now();
  const gone = await createPrompts(store.blobs, Number.POSITIVE_INFINITY, false).all(cut.gone);
  const summary = await stateText(run, gone);
  if (cut.leaves - summary.length < worth) return;
  await run.record([
    {
      type: "conversation.compacted",
      data: {
        sessionID: run.stream,
        through: cut.through,
        kept: cut.kept,
        carried: cut.carried,
        summary: await keepText(store.blobs, summary),
        note: chat.note,
        before: estimate(chat, overhead),
        after: Math.ceil((overhead + cut.stays + summary.length + (chat.note?.length ?? 0)) / 4),
        by: "service",
        usage: noUsage,
        durationMs: Math.round(performance.now() - started),
      },
    },
  ]);
};

/** Its newest reply made no call whose result it still has to read. */
const isOver = ({ said, turn }: Conversation): boolean => {
  if (turn !== undefined) return false;
  const newest = said.findLast(({ role }) => role !== "user");
  if (newest === undefined) return false;
  return newest.role === "assistant"
    ? newest.calls.length === 0
    : newest.role === "tool" &&
        newest.results.every((result) => handsOn(result) || (result.tool === "finish" && result.outcome === "ok"));
};

const headings = { said: "## What you said", looked: "## What you looked at", told: "## What you told Tasks" };

const most = { phases: 60, ends: 40, said: 12, looked: 30, told: 20 };
const longest = { words: 300, objective: 200, brief: 800, call: 200 };

const stateText = async (run: MissionRun, gone: readonly PromptMessage[]): Promise<string> => {
  const state = run.state();
  const steps = stepsIn(gone);
  const section = (heading: string, lines: readonly string[]) =>
    lines.length === 0 ? [] : [`${heading}\n${lines.join("\n")}`];
  return [
    ...section("## The plan now (`task_status` has all its words)", planLines(state)),
    ...section("## What became of Tasks", endLines(state)),
    ...section("## Briefs of what is not done", await briefLines(run)),
    ...section(headings.told, steps.told.slice(-most.told)),
    ...section(headings.said, steps.said.slice(-most.said)),
    ...section(headings.looked, steps.looked.slice(-most.looked)),
    answersIn(gone),
  ]
    .filter((part) => part !== "")
    .join("\n\n");
};

const planLines = (state: MissionState): string[] => {
  const phases = planOf(state);
  const open = phases.filter((phase) => phase.state !== "done");
  const done = phases.filter((phase) => phase.state === "done");
  const rest = open.length > most.phases ? [`- and ${open.length - most.phases} more`] : [];
  return [
    ...(done.length === 0 ? [] : [`- done: ${done.map(({ id }) => id).join(", ")}`]),
    ...open.slice(0, most.phases).map((phase) => `- ${phaseLine(phase)}`),
    ...rest,
  ];
};

const phaseLine = ({ id, title, phase, state, after, squad, objective }: MissionPhase): string =>
  [
    `${id} ${JSON.stringify(title)} (${phase}): ${state}`,
    ...(after.length === 0 ? [] : [`after ${after.join(", ")}`]),
    ...(squad === null ? [] : [`squad ${squad.id}`]),
    oneLine(objective, longest.objective),
  ].join("; ");

const endLines = (state: MissionState): string[] => {
  const lines = state.tasks.flatMap((task) => {
    const end = task.ends.at(-1);
    const now = isRunning(task) ? ["runs"] : end === undefined ? [] : [endLine(end)];
    const landed = deliveredBy(task)?.landedCommit;
    return [
      `- ${task.taskID} of ${task.phase}: ${[...now, ...(landed == null ? [] : [`landed ${landed}`])].join("; ")}`,
    ];
  });
  const dropped = lines.length - most.ends;
  return dropped <= 0 ? lines : [`- ${dropped} older ones are left out`, ...lines.slice(-most.ends)];
};

const endLine = ({ outcome, code, error, summary, evidence }: EventData["task.ended"]): string =>
  [
    `${outcome}${code === undefined ? "" : ` (${code})`}`,
    ...(error === undefined ? [] : [oneLine(error, longest.words)]),
    ...(evidence?.diffStat == null
      ? []
      : [`${evidence.diffStat.files} files +${evidence.diffStat.insertions} -${evidence.diffStat.deletions}`]),
    ...(summary.trim() === "" ? [] : [`it said: ${JSON.stringify(oneLine(readEnd(summary).report, longest.words))}`]),
  ].join("; ");

/** Whoever has to brief a phase anew wants to know how it was briefed. */
const briefLines = async (run: MissionRun): Promise<string[]> => {
  const state = run.state();
  const open = state.plan.flatMap((phase) =>
    phaseState(state, phase) === "done" ? [] : workOf(state, phase.id).slice(-1),
  );
  return Promise.all(
    open.slice(0, most.told).map(async ({ taskID, phase }) => {
      const request = (await run.store.state(taskID))?.request;
      const text = request === undefined ? "" : await requireText(run.store.blobs, request);
      return `- ${phase}: ${oneLine(text, longest.brief)}`;
    }),
  );
};

/** What it said and did, a line each; first what an earlier renewal had kept of it. */
const stepsIn = (gone: readonly PromptMessage[]): Record<"said" | "looked" | "told", string[]> => {
  const steps = { said: [] as string[], looked: [] as string[], told: [] as string[] };
  const results = new Map(
    gone.flatMap((message) => (message.role === "tool" ? message.results : [])).map((one) => [one.callID, one]),
  );
  for (const message of gone) {
    if (message.role === "user" && message.source === "service")
      for (const [name, heading] of Object.entries(headings))
        steps[name as keyof typeof steps].push(...linesUnder(message.text, heading));
    if (message.role !== "assistant") continue;
    if (message.text.trim() !== "") steps.said.push(`- ${oneLine(message.text, longest.words)}`);
    for (const { callID, tool, input } of message.calls) {
      if (known.has(tool)) continue;
      const { outcome, output } = results.get(callID) ?? { outcome: "interrupted", output: "" };
      const call = `${tool} ${oneLine(JSON.stringify(input), longest.call)}`;
      if (tool === "task_message" || tool === "task_answer" || tool === "task_cancel")
        steps.told.push(`- ${tool} ${oneLine(JSON.stringify(input), longest.words)}: ${outcome}`);
      else
        steps.looked.push(`- ${call}: ${outcome === "ok" && !tells.has(tool) ? "ok" : oneLine(output, longest.words)}`);
    }
  }
  return steps;
};

/** What these did is in the state itself, in the note, or among the answers. */
const known: ReadonlySet<string> = new Set([
  "plan",
  "phase",
  "dispatch",
  "remember",
  "ask",
  "produce_squad",
  "task_status",
]);

/** What these say is short, and is decided by later. */
const tells: ReadonlySet<string> = new Set(["verify", "recommend", "finish"]);

const linesUnder = (text: string, heading: string): string[] => {
  const [, after = ""] = text.split(`${heading}\n`);
  const [lines = ""] = after.split("\n\n");
  return lines.split("\n").filter((line) => line.startsWith("- "));
};
