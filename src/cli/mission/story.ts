import { serviceSourceOf } from "../../protocol/event/source.ts";
import type { Frame } from "../../protocol/event/frame.ts";
import { firstLine, line, textOf } from "../terminal/format.ts";

/** One line: `lead` says what happened, `rest` what was said or why. `tone`: whether the outcome is good. */
export type Told = { lead: string; rest: string; tone: Tone };
type Tone = "plain" | "good" | "bad" | "need" | "quiet";

/**
 * Tells a Mission's log as a story: what was said, planned, dispatched, ended, approved, refused and verified. Phases
 * and Tasks are named by their titles. Events must be passed in order from the first one, because later events refer to
 * earlier ones only by id. Of the Tasks' events, only those that ask a person something are part of it. undefined: the
 * event is not part of the story.
 */
export const createStory = (): ((event: Frame) => Told | undefined) => {
  const phases = new Map<string, { title: string; text: string }>();
  const tasks = new Map<string, string>();
  /** The subject of each ask, by its id. */
  const asks = new Map<string, Opened["kind"] | NonNullable<Opened["of"]>>();
  let wokenByUser = false;

  const phaseOf = (id: string): string => quoted(phases.get(id)?.title ?? id);
  const taskOf = (id: string): string => `Task ${quoted(tasks.get(id) ?? id)}`;

  const opened = ({ askID, kind, of, prompt, options, passesAt }: Opened, who: string): Told | undefined => {
    asks.set(askID, of ?? kind);
    // The Task's Mission is asked first, and the Mission's own log records that.
    if (passesAt !== undefined) return undefined;
    const choices = kind === "question" && options.length > 0 ? ` (${options.join(", ")})` : "";
    return told(`${who} ${asking[kind]}`, prompt + choices, "need");
  };

  const answered = ({ askID, decision, answer, by, source }: Answered, whose: string): Told | undefined => {
    const about = asks.get(askID);
    if (about === undefined) return undefined;
    const what = `The ${about}${whose}`;
    switch (by) {
      case "ended":
        return told(`${what} is asked about no more`, endings[source] ?? "", "quiet");
      case "timeout":
        return told(`${what} was not answered in time`, answer ?? decision ?? "", "quiet");
      case "caller": {
        const from = ` (${line(source, 40)})`;
        if (decision === undefined) return told(`${what} is answered${from}`, answer ?? "");
        return decision === "allow"
          ? told(`${what} is approved${from}`, answer ?? "", "good")
          : told(`${what} is refused${from}`, answer ?? "", "bad");
      }
    }
  };

  const dispatched = (data: Data<"task.dispatched">): Told => {
    const { taskID, title, phase, squad, production, merge, judges, general } = data;
    tasks.set(taskID, title);
    if (judges !== undefined) return told("A session that did not plan it judges the whole");
    if (merge !== undefined) return told(`Merges ${line(merge.branch, 100)} into ${line(merge.into, 100)}`);
    if (production !== null) return told(`Has the squad ${line(production.squad, 64)} made for ${phaseOf(phase)}`);
    const of = phases.get(phase)?.title === title ? "" : ` for ${phaseOf(phase)}`;
    const why = general === undefined ? "" : `a general one, because ${general}`;
    return told(`Dispatches ${quoted(title)}${of} to the squad ${line(squad.id, 64)}`, why);
  };

  const ended = ({ title, outcome, error, landedCommit, verdict, attempt }: Data<"task.ended">): Told => {
    if (verdict !== undefined)
      return told(`The whole is ${verdict.verdict}`, verdict.notes, verdict.verdict === "accepted" ? "good" : "need");
    const how = { completed: "is completed", failed: "failed", cancelled: "was cancelled", deleted: "was deleted" };
    const again = attempt > 1 ? ` in attempt ${attempt}` : "";
    const landed = landedCommit === null ? "" : `, landed as ${landedCommit.slice(0, 10)}`;
    const tone = outcome === "completed" ? "good" : outcome === "failed" ? "bad" : "quiet";
    return told(`Task ${quoted(title)} ${how[outcome]}${again}${landed}`, error ?? "", tone);
  };

  const written = ({ phase, callID }: Data<"phase.written">): Told | undefined => {
    const { id, title, after } = phase;
    const before = phases.get(id);
    const text = JSON.stringify(phase);
    phases.set(id, { title, text });
    if (before?.text === text) return undefined;
    const was = before === undefined || before.title === title ? "" : `, which was ${quoted(before.title)}`;
    if (callID === null) return told(`The user ${before === undefined ? "adds" : "changes"} ${quoted(title)}${was}`);
    if (before !== undefined) return told(`Changes ${quoted(title)}${was}`);
    return told(`Plans ${quoted(title)}${after.length === 0 ? "" : ` after ${after.map(phaseOf).join(", ")}`}`);
  };

  const said = ({ source, text, ...data }: Data<"message.received">): Told | undefined => {
    const woken = wokenByUser;
    wokenByUser = false;
    if (source === "service" || serviceSourceOf({ source, ...data }) !== undefined)
      return woken ? told("Woken without a text") : undefined;
    const words = firstLine(textOf(text));
    // The reason of a refusal, which the refusal's own line already has.
    return words.startsWith(refusalWords) ? undefined : told(capital(line(source, 40)), words);
  };

  return (event) => {
    if ("taskID" in event && event.taskID !== undefined) {
      // An event of a Task's own log; the Mission's events name Tasks in their data.
      const who = taskOf(event.taskID);
      if (event.type === "ask.opened") return opened(event.data, who);
      return event.type === "ask.answered" ? answered(event.data, ` of ${who}`) : undefined;
    }
    switch (event.type) {
      case "mission.created":
        return told("Begins", event.data.title);
      case "mission.woken": {
        const { by, reason = "" } = event.data;
        wokenByUser = by === "user";
        return wokenByUser ? undefined : told("Wakes at the time that it set", reason);
      }
      case "mission.updated":
        return event.data.title === undefined ? undefined : told("Has another title", event.data.title);
      case "message.received":
        return said(event.data);
      case "reply.finished": {
        const { text, failure } = event.data;
        if (failure !== null) return told("Its agent stopped", failure.message, "bad");
        const words = firstLine(textOf(text));
        return words === "" ? undefined : told("Its agent", words);
      }
      case "task.deferred":
        return told(`Waits until ${minute(event.data.until)}`, event.data.reason, "need");
      case "model.switched":
        return told(`Goes on with ${line(event.data.to, 80)}`, event.data.reason, "need");
      case "tool.finished": {
        const { tool, outcome, output } = event.data;
        return outcome === "ok"
          ? undefined
          : told(`Its ${line(tool, 40)} was refused`, firstLine(textOf(output)), "need");
      }
      case "phase.written":
        return written(event.data);
      case "phase.dropped":
        return told(
          `${event.data.callID === null ? "The user drops" : "Drops"} ${phaseOf(event.data.phase)} from the plan`,
        );
      case "plan.ordered":
        return told(`${event.data.callID === null ? "The user puts" : "Puts"} the plan into another order`);
      case "plan.written":
        for (const phase of event.data.phases)
          phases.set(phase.id, { title: phase.title, text: JSON.stringify(phase) });
        return told("Plans", event.data.phases.map(({ title }) => quoted(title)).join(", "));
      case "task.dispatched":
        return dispatched(event.data);
      case "task.ended":
        return ended(event.data);
      case "task.asked":
        return told(`Task ${quoted(event.data.title)} asks its Mission`, event.data.prompt);
      case "task.answered":
        return event.data.how === "passed"
          ? told(`Passes the question of ${taskOf(event.data.taskID)} on to you`, "", "need")
          : undefined;
      case "task.messaged":
        return told(`A message to ${taskOf(event.data.taskID)}`, firstLine(event.data.text));
      case "task.overdue":
        return told(`Task ${quoted(event.data.title)} still runs`, event.data.doing ?? "", "quiet");
      case "task.reopened":
        return told(`${taskOf(event.data.taskID)} goes on`);
      case "ask.opened":
        return opened(event.data, "The Mission");
      case "ask.answered":
        return answered(event.data, "");
      case "squad.reconciled":
        return told(`The squad ${line(event.data.squad.id, 64)} is there as it was made`, "", "good");
      case "squad.refused":
        return told(`The squad made for ${phaseOf(event.data.phase)} is refused`, event.data.reason, "bad");
      case "mission.verified": {
        const { of, commit, results } = event.data;
        const red = results.filter(({ state }) => state !== "passed").map(({ name }) => name);
        const whose = of === "acceptance" ? "of the whole" : "of its agent";
        return red.length === 0
          ? told(`The checks ${whose} passed on ${commit.slice(0, 10)}`, "", "good")
          : told(
              `${red.length} of ${results.length} checks ${whose} did not pass on ${commit.slice(0, 10)}`,
              red.join(", "),
              "bad",
            );
      }
      case "mission.judging":
        return told("Reports that it is done, and is judged first", event.data.summary);
      case "mission.finished": {
        const { outcome, summary, wakeAt, verified } = event.data;
        const until = wakeAt === null ? "" : ` until ${minute(wakeAt)}`;
        const checked = verified === undefined || outcome !== "done" ? "" : verified ? ", verified" : ", not verified";
        const word = { done: "Done", blocked: "Blocked", waiting: "Waits" }[outcome];
        return told(`${word}${until}${checked}`, summary, outcome === "done" ? "good" : "need");
      }
      case "mission.proposed": {
        const { pullRequest, reason = "" } = event.data;
        return pullRequest === null
          ? told("No pull request", reason, "need")
          : told(`Pull request ${pullRequest.number} is ${pullRequest.state}`, pullRequest.url, "good");
      }
      case "mission.branched":
        return told(`Works on the branch ${line(event.data.branch, 100)}`);
      case "mission.unmerged": {
        const { reason } = event.data;
        return reason === null ? told("Nothing is left to merge") : told("Its branch was not merged", reason, "need");
      }
      case "mission.paused":
        return told(`The budget is used up`, `${event.data.used} of ${event.data.cap} (${event.data.name})`, "need");
      case "mission.stalled":
        return told("Stands still", event.data.reason, "need");
      case "mission.waiting":
        return told(`Waits until ${minute(event.data.until)}`, event.data.reason);
      case "mission.aborted": {
        const { surface, reason, cascade } = event.data;
        return told(`Aborted by ${line(surface, 40)}${cascade ? ", with its Tasks" : ""}`, reason, "need");
      }
      case "mission.reminded":
        return told("Its agent stopped without saying how the Mission ends, and is asked", "", "quiet");
      default:
        return undefined;
    }
  };
};

type Data<T extends Frame["type"]> = Extract<Frame, { type: T }>["data"];
type Opened = Data<"ask.opened">;
type Answered = Data<"ask.answered">;

const asking: Record<Opened["kind"], string> = {
  approval: "asks for your approval",
  permission: "asks for a permission",
  question: "asks you",
};

/** Why nobody answered, by the source that closed the ask. */
const endings: Readonly<Record<string, string>> = {
  void: "what it was about has changed",
  message: "a message came first",
};

/** The beginning of the service's message about a plan that was refused. */
const refusalWords = "The plan was not approved: ";

const told = (lead: string, rest = "", tone: Tone = "plain"): Told => ({ lead, rest: line(rest, most), tone });

/** The longest quotation, in characters. */
const most = 600;

const quoted = (title: string): string => `"${line(title, 120)}"`;

const capital = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1);

/** The date and the minute, because the date may differ from the line's. */
const minute = (at: string): string => `${line(at.slice(0, 16)).replace("T", " ")} UTC`;
