import type { EventData } from "../../protocol/event/event.ts";
import type { Usage } from "../../protocol/task/status.ts";
import type { DomainEvent } from "../event.ts";
import { readEnd } from "../task/commit-text.ts";
import { pausedText } from "./budget.ts";

/** A Mission's events in words: as messages of the service for its agent, and in one line for people. */

const quoted = (title: string): string => `"${title}"`;

/** The message that the agent gets about an event; undefined if it gets none, or gets it in another way. */
export const agentNotice = (event: DomainEvent): string | undefined => {
  switch (event.type) {
    case "task.ended":
      return verdictText(event.data) ?? endedText(event.data);
    case "task.asked":
      return askedText(event.data);
    case "task.overdue":
      return overdueText(event.data);
    case "squad.reconciled":
      return `The squad ${event.data.squad.id} ${event.data.squad.version} (digest ${event.data.squad.digest}) was made for phase ${event.data.phase} and found in the catalog as it was staged. Dispatch the phase to it when it is ready.`;
    case "squad.refused":
      return `The squad made for phase ${event.data.phase} cannot be used: ${event.data.reason}`;
    case "mission.woken":
      if (event.data.by !== "time") return undefined;
      return `The time that you set is over.${event.data.reason === undefined ? "" : ` You had said: ${event.data.reason}`}`;
    case "phase.written": {
      const { id, ...words } = event.data.phase;
      return event.data.callID === null
        ? `The user wrote phase ${id} of the plan. It is now:\n${JSON.stringify(words)}`
        : undefined;
    }
    case "phase.dropped":
      return event.data.callID === null ? `The user dropped phase ${event.data.phase} from the plan.` : undefined;
    case "plan.ordered":
      return event.data.callID === null
        ? `The user put the phases of the plan into this order: ${event.data.phases.join(", ")}.`
        : undefined;
    case "mission.reminded":
      return "You stopped, and nothing is under way that would wake you, but you have not called `finish`. Dispatch what is ready, change the plan, ask the user, or call `finish` and say how the Mission ends.";
    default:
      return undefined;
  }
};

/**
 * Tells the agent what a person answered to one of the Tasks. A person's words to a Task stay in force like those to
 * the Mission itself. undefined: no person answered.
 */
export const answerNotice = ({
  data: { taskID, said },
}: DomainEvent & { type: "task.answered" }): string | undefined =>
  said === undefined
    ? undefined
    : [
        `The user answered Task ${taskID} of phase ${said.phase}, ${quoted(said.title)}, which had asked:`,
        material(taskID, said.question),
        `The answer, which the Task has: ${said.answer}`,
      ].join("\n");

/** Tells the agent what a person wrote to a Task that had asked nothing. */
export const messagedNotice = ({
  data: { taskID, phase, title, text, disposition },
}: DomainEvent & { type: "task.messaged" }): string =>
  `The user wrote to Task ${taskID} of phase ${phase}, ${quoted(title)}, which ${
    disposition === "restarted" ? "had ended, and goes on with it" : "has it"
  }: ${text}`;

/** Tells the agent of the verdict on the whole and what is missing; undefined: the Task gave no verdict. */
const verdictText = ({ taskID, verdict }: EventData["task.ended"]): string | undefined => {
  if (verdict === undefined) return undefined;
  const notes = material(`${taskID} verdict`, verdict.notes);
  return verdict.verdict === "rejected"
    ? `You said that it is done. A session that did not plan looked at the whole (Task ${taskID}), and rejects it:\n${notes}\n\nWhat is right in that, have mended by a Task, as a phase of its own or with \`task_message\` to the Task whose work it is; then call \`finish\` again, and the whole is judged again. Where it is wrong, say so in the summary of \`finish\`. What only the user can decide, ask.`
    : `A session that did not plan looked at the whole (Task ${taskID}): ${verdict.verdict}.\n${notes}`;
};

const endedText = ({
  taskID,
  phase,
  title,
  outcome,
  attempt,
  error,
  cancelledByUser,
  summary,
  landedCommit,
  branch,
  usage,
  evidence,
  plan,
}: EventData["task.ended"]): string => {
  const again = attempt > 1 ? ` (attempt ${attempt})` : "";
  const where =
    landedCommit !== null
      ? ` It landed as ${landedCommit}.`
      : outcome === "completed"
        ? " It changed no files of the project."
        : branch === null
          ? ""
          : ` Nothing landed; its work is on ${branch}.`;
  const by = cancelledByUser === undefined ? "" : ": the user cancelled it";
  const why =
    cancelledByUser === undefined
      ? error === undefined
        ? ""
        : `\n\nWhy:\n${material(`${taskID} error`, error)}`
      : `\n\n${cancelledByUser.reason === "" ? "The user gave no reason." : `The user's reason, in their words: ${cancelledByUser.reason}`}`;
  const words = readEnd(summary).report.trim();
  const said = words === "" ? "" : `\n\nIts last words:\n${material(taskID, words)}`;
  const seen = evidence === undefined ? "" : `\n\n${evidenceText(taskID, outcome, evidence, usage)}`;
  const next = plan === undefined ? "" : `\n\n${planText(plan)}`;
  return `Task ${taskID} of phase ${phase}, ${quoted(title)}, ended ${outcome}${again}${by}.${where}${seen}${why}${said}${next}`;
};

const askedText = ({
  taskID,
  phase,
  title,
  askID,
  prompt,
  options,
  default: fallback,
  passesAt,
}: EventData["task.asked"]): string =>
  [
    `Task ${taskID} of phase ${phase}, ${quoted(title)}, asks (${askID}), and waits:`,
    material(taskID, prompt),
    ...(options.length === 0 ? [] : [`It proposes: ${options.map((option) => JSON.stringify(option)).join(", ")}.`]),
    ...(fallback === null ? [] : [`Without an answer it goes on with: ${JSON.stringify(fallback)}.`]),
    `Answer with \`task_answer\` what the goal, the plan or the project decides; what only the user can say, pass on with it. If you do neither, the user is asked when your turn ends, and at ${passesAt.slice(11, 16)} UTC at the latest.`,
  ].join("\n");

const overdueText = ({ taskID, phase, title, doing, usage }: EventData["task.overdue"]): string =>
  [
    `Task ${taskID} of phase ${phase}, ${quoted(title)}, has not ended by the time at which you wanted to hear of it.`,
    ...(doing === null ? [] : [`Now:\n${material(taskID, doing)}`]),
    `So far ${spentText(usage)}. Leave it alone, say a new time with \`task_status\`, message it, or cancel it.`,
  ].join("\n");

const spentText = ({ modelCalls, inputTokens, outputTokens, costUSD }: Usage): string =>
  `${modelCalls} model ${modelCalls === 1 ? "call" : "calls"}, ${inputTokens + outputTokens} tokens${costUSD === null ? "" : `, ${costUSD.toFixed(2)} USD`}`;

const evidenceText = (
  taskID: string,
  outcome: EventData["task.ended"]["outcome"],
  { diffStat, files = [], diff, checks, contrast, reviews }: NonNullable<EventData["task.ended"]["evidence"]>,
  usage: Usage,
): string =>
  [
    // For a completed Task, this was said before.
    ...(diffStat !== null
      ? [
          `Files changed: ${diffStat.files} (+${diffStat.insertions} -${diffStat.deletions})${filesText(files, diffStat.files)}.`,
        ]
      : outcome === "completed"
        ? []
        : ["It changed no files."]),
    ...(diff === undefined ? [] : [material(`${taskID} diff`, diff.trimEnd())]),
    ...checksText(taskID, checks),
    ...(contrast === null ? [] : [`Contrast: ${contrast}.`]),
    `It used ${spentText(usage)}.`,
    ...reviews.map(
      ({ title, verdict, notes }) =>
        `Review of ${quoted(title)}: ${verdict}${notes.trim() === "" ? "." : `.\n${material(`${taskID} reviewer`, notes)}`}`,
    ),
  ].join("\n");

type Evidence = NonNullable<EventData["task.ended"]["evidence"]>;

const filesText = (files: NonNullable<Evidence["files"]>, count: number): string => {
  if (files.length === 0) return "";
  const named = files.map(({ path, how, insertions, deletions }) => {
    const lines = [...(insertions > 0 ? [`+${insertions}`] : []), ...(deletions > 0 ? [`-${deletions}`] : [])].join(
      " ",
    );
    return `${how === "changed" ? "" : `${how} `}${JSON.stringify(path)}${lines === "" ? "" : ` ${lines}`}`;
  });
  const rest = count > files.length ? ` and ${count - files.length} more` : "";
  return `: ${named.join(", ")}${rest}`;
};

/** How many checks passed, and the output of those that did not. */
const checksText = (taskID: string, checks: Evidence["checks"]): string[] => {
  if (checks.length === 0) return ["It had no checks."];
  const green = checks.filter(({ state }) => state === "passed").length;
  return [
    green === checks.length
      ? `Checks, all passed: ${greenText(checks)}.`
      : `Checks: ${green} of ${checks.length} passed.`,
    ...checks
      .filter(({ state }) => state !== "passed")
      .map(({ name, state, required, tail }) => {
        const line = `${name}: ${state}${required ? "" : " (not required)"}`;
        return tail === undefined ? `${line}.` : `${line}, at the end:\n${material(`${taskID} check`, tail)}`;
      }),
  ];
};

/** The number of checks that are named if all passed. */
const mostNamed = 6;

const greenText = (checks: Evidence["checks"]): string => {
  const names = checks.slice(0, mostNamed).map(({ name }) => name);
  return `${names.join(", ")}${checks.length > mostNamed ? ` and ${checks.length - mostNamed} more` : ""}`;
};

const planText = ({ ready, running, left, unapproved }: NonNullable<EventData["task.ended"]["plan"]>): string => {
  if (left === 0) return "Every phase of the plan is done.";
  const named = (words: string, ids: readonly string[]) => (ids.length === 0 ? [] : [`${words}: ${ids.join(", ")}`]);
  return `${[...named(unapproved === true ? "Ready, once the user has approved the plan" : "Ready", ready), ...named("Under way", running), `Not done: ${left}`].join(". ")}.`;
};

/** Marks a Task's own words with their origin: they inform the agent and are no instructions. */
const material = (origin: string, text: string): string =>
  `<data from=${JSON.stringify(origin)}>\n${text.replaceAll(/<(\/?data\b)/gi, "<\u200B$1")}\n</data>`;

/** A Mission's event in a few words, for people. */
export const missionSentence = (
  event: Extract<
    DomainEvent,
    {
      type:
        | `mission.${string}`
        | `plan.${string}`
        | `phase.${string}`
        | `squad.${string}`
        | "task.dispatched"
        | "task.asked"
        | "task.answered"
        | "task.messaged"
        | "task.watched"
        | "task.overdue"
        | "task.reopened"
        | "task.reserved"
        | "task.ended";
    }
  >,
): string => {
  switch (event.type) {
    case "mission.created":
      return `Mission: ${event.data.title}`;
    case "mission.woken":
      return event.data.by === "user" ? "Woken" : "Woken by time";
    case "mission.updated":
      return `Changed ${Object.keys(event.data)
        .filter((name) => name !== "sessionID")
        .join(", ")}`;
    case "mission.aborted":
      return `Aborted by ${event.data.surface}${event.data.reason === "" ? "" : `: ${event.data.reason}`}${event.data.cascade ? ", with its Tasks" : ""}`;
    case "mission.finished":
      return `${{ done: "Done", blocked: "Blocked", waiting: "Waits" }[event.data.outcome]}${event.data.verified === false ? " (not verified)" : ""}: ${event.data.summary}`;
    case "mission.verified": {
      const { of, commit, results } = event.data;
      const red = results.filter(({ state }) => state !== "passed").map(({ name }) => name);
      const what = of === "acceptance" ? "The checks of the whole" : "Checks of its agent";
      return `${what} on ${commit.slice(0, 10)}: ${red.length === 0 ? "all passed" : `${red.length} of ${results.length} did not pass (${red.slice(0, 5).join(", ")})`}`;
    }
    case "mission.judging":
      return `Its agent says that it is done; the whole is judged at ${event.data.commit.slice(0, 10)}: ${event.data.summary}`;
    case "mission.proposed": {
      const { pullRequest, reason } = event.data;
      return pullRequest === null
        ? `No pull request: ${reason}`
        : `Pull request ${pullRequest.number} ${pullRequest.state}: ${pullRequest.url}`;
    }
    case "mission.branched":
      return `Its branch is ${event.data.branch}, from ${event.data.commit.slice(0, 10)}`;
    case "mission.unmerged":
      return event.data.reason === null
        ? "Nothing is left to merge"
        : `Its branch was not merged: ${event.data.reason}`;
    case "mission.reminded":
      return "Reminded its agent to report how the Mission ends";
    case "mission.paused":
      return pausedText(event.data);
    case "mission.stalled":
      return `Stalled: ${event.data.reason}`;
    case "mission.waiting":
      return `Waiting until ${event.data.until.slice(0, 16).replace("T", " ")} UTC: ${event.data.reason}`;
    case "phase.written":
      return event.data.callID === null
        ? `The user wrote phase ${quoted(event.data.phase.title)} of the plan`
        : `Phase ${quoted(event.data.phase.title)} was added to the plan`;
    case "phase.dropped":
      return event.data.callID === null
        ? `The user dropped phase ${event.data.phase} from the plan`
        : `Phase ${event.data.phase} was removed from the plan`;
    case "plan.ordered":
      return event.data.callID === null ? "The user reordered the plan" : "The plan was reordered";
    case "plan.written":
      return `Plan: ${event.data.phases.map(({ title }) => title).join("; ")}`;
    case "task.dispatched":
      if (event.data.judges !== undefined) return `Judging the whole at ${event.data.judges.commit.slice(0, 10)}`;
      if (event.data.merge !== undefined) return `Merging ${event.data.merge.branch} into ${event.data.merge.into}`;
      return event.data.production === null
        ? `Dispatched ${quoted(event.data.title)} to ${event.data.squad.id}${event.data.general === undefined ? "" : ` (a general squad: ${event.data.general})`}`
        : `Creating the squad ${event.data.production.squad}`;
    case "task.asked":
      return `Task ${quoted(event.data.title)} asks: ${event.data.prompt}`;
    case "task.watched":
      return `Looks at a Task again at ${event.data.lookAt.slice(11, 16)} UTC`;
    case "task.overdue":
      return `Task ${quoted(event.data.title)} still runs`;
    case "task.answered": {
      const { how, said } = event.data;
      if (said !== undefined) return `The user answered Task ${quoted(said.title)}: ${said.answer}`;
      return how === "passed" ? "A Task's question is passed on to a person" : "A Task's question is closed";
    }
    case "task.messaged":
      return `The user wrote to Task ${quoted(event.data.title)}: ${event.data.text}`;
    case "task.reopened":
      return "An ended Task continues";
    case "task.reserved":
      return "A Task's budget was changed";
    case "task.ended":
      if (event.data.verdict !== undefined)
        return `Verdict on the whole: ${event.data.verdict.verdict}. ${event.data.verdict.notes}`;
      return `Task ${quoted(event.data.title)} ${event.data.outcome}${event.data.error === undefined ? "" : `: ${event.data.error}`}`;
    case "squad.reconciled":
      return `Squad ${event.data.squad.id} ${event.data.squad.version} is in the catalog, exactly as created`;
    case "squad.refused":
      return `Squad of phase ${event.data.phase} was not used: ${event.data.reason}`;
    case "squad.staged":
      return `Staged the squad ${event.data.squad.id} ${event.data.squad.version}`;
    case "squad.installing":
      return `Installing the squad ${event.data.squad.id} ${event.data.squad.version}`;
    case "squad.installed":
      return `Installed the squad ${event.data.squad.id} ${event.data.squad.version} (${event.data.squad.scope})`;
  }
};
