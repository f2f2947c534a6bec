import { z } from "zod";
import { answersIn, oneLine } from "../../agent/loop/compaction.ts";
import { createPrompts } from "../../agent/prompt/message.ts";
import { estimate, planRenewal } from "../../domain/conversation/compaction.ts";
import { isRead } from "../../domain/state/stream.ts";
import type { Conversation } from "../../domain/conversation/message.ts";
import { waitsIn } from "../../domain/mission/now.ts";
import { handsOffWork } from "../../domain/mission/hand-on.ts";
import { noUsage, type PromptMessage } from "../../model/model.ts";
import { keepText } from "../../store/blob/text.ts";
import type { MissionRun } from "../run.ts";
import { approvalLines, briefLines, cancelLines, doneLines, endLines, planLines } from "./state-text.ts";
import { wholeLines } from "./whole-text.ts";

/**
 * Between two wakes a Mission's agent forgets what the log knows better. When something new comes in after its turn is
 * over, everything before is replaced by the state of the Mission according to the log, and by one line for each thing
 * that the agent said or looked at. What people wrote and the agent's note stay word for word. Within a wake the
 * conversation only grows, so that providers can cache it.
 */

/** Characters; a renewal that frees fewer is not worth a new prefix. */
const worth = 4_000;

export const compactBetweenWakes = async (run: MissionRun, overhead: number): Promise<void> => {
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

/** Whether the newest reply made no call whose result the agent still has to read. */
const isOver = ({ said, turn }: Conversation): boolean => {
  if (turn !== undefined) return false;
  const newest = said.findLast(({ role }) => role !== "user");
  if (newest === undefined) return false;
  return newest.role === "assistant"
    ? newest.calls.length === 0
    : newest.role === "tool" &&
        (handsOffWork(newest.results) ||
          newest.results.every(({ tool, outcome }) => tool === "finish" && outcome === "ok"));
};

const headings = { said: "## What you said", looked: "## What you looked at", told: "## What you told Tasks" };

const most = { said: 6, looked: 20, told: 12 };
const longest = { words: 300, call: 200, report: 1000 };

const stateText = async (run: MissionRun, gone: readonly PromptMessage[]): Promise<string> => {
  const state = run.state();
  const waits = waitsIn(await run.store.dispatched(run.stream));
  const steps = stepsIn(gone);
  const unread = await run.store.read(run.stream, { after: state.reply?.read ?? 0, types: ["task.ended"] });
  const fresh = new Set(unread.flatMap((event) => (event.type === "task.ended" ? event.data.taskID : [])));
  const section = (heading: string, lines: readonly string[]) =>
    lines.length === 0 ? [] : [`${heading}\n${lines.join("\n")}`];
  return [
    ...section("## Phases that are done", doneLines(state, fresh)),
    ...section("## Phases that are not (`task_status` has all their words)", planLines(state, waits)),
    ...section("## The plan's approval", approvalLines(state)),
    ...section("## Tasks whose phase is not done", endLines(state, waits, fresh)),
    ...section("## The whole", wholeLines(state, waits, fresh)),
    ...section("## Why the user cancelled Tasks, in their words", cancelLines(state, fresh)),
    ...section("## Briefs of what is not done", await briefLines(run)),
    ...section(headings.told, newestOf(steps.told, most.told)),
    ...section(headings.said, newestOf(steps.said, most.said)),
    ...section(headings.looked, newestOf(steps.looked, most.looked)),
    answersIn(gone),
  ]
    .filter((part) => part !== "")
    .join("\n\n");
};

/** The newest distinct lines, each where it occurs last. */
const newestOf = (lines: readonly string[], count: number): string[] =>
  [...new Set(lines.toReversed())].slice(0, count).toReversed();

/** What the agent said and did, one line each; first the lines that an earlier renewal kept. */
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
      if (tool === "task_message" || tool === "task_answer" || tool === "task_cancel")
        steps.told.push(`- ${tool} ${oneLine(JSON.stringify(input), longest.words)}: ${outcome}`);
      else if (outcome !== "ok" || tells.has(tool))
        steps.looked.push(
          `- ${tool} ${callText(input, tool === "finish" ? longest.report : longest.call)}: ${oneLine(output, longest.words)}`,
        );
      else if (tool === "recommend") steps.looked.push(`- recommend ${callText(input)}: ${ownersIn(output)}`);
      else if (tool !== "task_evidence") steps.looked.push(`- ${tool} ${callText(input)}`);
    }
  }
  return steps;
};

/** Tools whose effect is in the state itself, in the note, or among the answers. */
const known: ReadonlySet<string> = new Set([
  "plan",
  "phase",
  "dispatch",
  "remember",
  "ask",
  "produce_squad",
  "task_status",
]);

/** Tools whose results are short, and decide what comes later. */
const tells: ReadonlySet<string> = new Set(["verify", "finish"]);

/** The only argument of a call if it is a string, otherwise all of its arguments as JSON. */
const callText = (input: unknown, length = longest.call): string => {
  const values = typeof input === "object" && input !== null ? Object.values(input) : [];
  const [only] = values;
  return oneLine(values.length === 1 && typeof only === "string" ? only : JSON.stringify(input), length);
};

/** The owners of a phase, as `recommend` answered. */
const ownersIn = (output: string): string => {
  try {
    const { owners } = recommended.parse(JSON.parse(output));
    return owners.length === 0 ? "no squad owns it" : `owned by ${owners.map(({ id }) => id).join(", ")}`;
  } catch {
    return oneLine(output, longest.words);
  }
};

const recommended = z.object({ owners: z.array(z.object({ id: z.string() })) });

const linesUnder = (text: string, heading: string): string[] => {
  const [, after = ""] = text.split(`${heading}\n`);
  const [lines = ""] = after.split("\n\n");
  return lines.split("\n").filter((line) => line.startsWith("- "));
};
