import { describeEvent } from "../../../../src/domain/view/timeline.ts";
import type { Recorded } from "../../../../src/domain/event.ts";
import type { TurnFailure } from "../../../../src/protocol/event/conversation.ts";
import type { AttachmentRef } from "../../../../src/protocol/text.ts";
import type { LongText } from "../../../../src/protocol/text.ts";
import type { Frame } from "../../../../src/protocol/event/frame.ts";

/** Folds a log into a conversation: who said what, the calls of each turn, and notable events in between. */

export type Call = {
  callID: string;
  tool: string;
  input: unknown;
  state: "running" | "ok" | "error" | "interrupted";
  output: LongText | null;
  exitCode: number | null;
  durationMs: number | null;
  /** Id of the event that recorded the call's message. */
  eventID: number;
};

export type Tone = "plain" | "good" | "bad" | "warn";

export type Item =
  | {
      kind: "said";
      id: number;
      at: string;
      sessionID: string;
      source: string;
      text: LongText;
      attachments: readonly AttachmentRef[];
    }
  | {
      kind: "turn";
      id: number;
      at: string;
      sessionID: string;
      agent: string;
      model: string;
      text: LongText;
      calls: Call[];
      failure: TurnFailure | null;
      durationMs: number;
    }
  | {
      kind: "fact";
      id: number;
      at: string;
      sessionID: string | undefined;
      tone: Tone;
      words: string;
      /** How often the same event occurred in a row. */
      times: number;
      /** Whether this event ended the Task or Mission. */
      end: boolean;
      /** The question that the event is about. */
      askID?: string;
      detail?: LongText;
    };

export type Turn = Extract<Item, { kind: "turn" }>;

/** Lines shown of a failed check's output; all of it is on the Checks tab. */
const tailLines = 12;

export const headOf = (text: LongText): string => (typeof text === "string" ? text : text.head);

/** Whether a call, or the command it ran, failed. */
export const isBad = ({ state, exitCode }: Pick<Call, "state" | "exitCode">): boolean =>
  state === "error" || state === "interrupted" || (exitCode !== null && exitCode !== 0);

export const isError = (item: Item): boolean => {
  switch (item.kind) {
    case "said":
      return false;
    case "turn":
      return item.failure !== null || item.calls.some(isBad);
    case "fact":
      return item.tone === "bad";
  }
};

/** The tone of an event that belongs in the conversation; undefined: it is shown on the Events tab only. */
const toneOf = (frame: Frame): Tone | undefined => {
  switch (frame.type) {
    case "check.finished":
      if (frame.data.state === "passed") return "good";
      return frame.data.on === "base" ? "plain" : "bad";
    case "setup.finished":
      return frame.data.state === "passed" ? undefined : "bad";
    case "review.finished":
      return frame.data.verdict === "accepted" ? "good" : "warn";
    case "permission.decided":
      return frame.data.decision === "deny" ? "warn" : undefined;
    case "session.ended":
      return frame.data.outcome === "finished" ? undefined : "warn";
    case "task.ended":
      if (frame.data.verdict !== undefined) return frame.data.verdict.verdict === "accepted" ? "good" : "warn";
      return frame.data.outcome === "completed" ? "good" : "bad";
    case "mission.finished":
      return frame.data.outcome === "blocked" ? "warn" : "good";
    case "mission.verified":
      return frame.data.results.every(({ state }) => state === "passed") ? "good" : "bad";
    case "mission.proposed":
      return frame.data.pullRequest === null ? "warn" : "good";
    case "task.answered":
      return frame.data.said === undefined ? undefined : "plain";
    case "mission.unmerged":
      return frame.data.reason === null ? undefined : "warn";
    case "landing.finished":
    case "landing.proposed":
    case "slice.settled":
    case "squad.reconciled":
    case "squad.installed":
      return "good";
    case "run.stopped":
    case "reply.retried":
    case "task.deferred":
    case "model.switched":
    case "budget.warned":
    case "change.denied":
    case "landing.conflicted":
    case "landing.withdrawn":
    case "cancel.requested":
    case "ask.opened":
      return "warn";
    case "mission.aborted":
    case "mission.paused":
    case "mission.stalled":
    case "mission.waiting":
    case "squad.refused":
      return "warn";
    case "git.tampered":
      return "bad";
    case "mission.reminded":
    case "phase.written":
    case "phase.dropped":
    case "plan.ordered":
    case "plan.written":
    case "task.dispatched":
    case "task.messaged":
    case "task.reopened":
    case "task.reserved":
    case "squad.staged":
    case "workspace.prepared":
    case "checkpoint.kept":
    case "workspace.moved":
    case "workspace.rebased":
    case "tree.committed":
    case "artifact.recorded":
    case "slice.defined":
    case "slice.revised":
    case "slice.dropped":
    case "session.started":
    case "conversation.compacted":
    case "ask.answered":
      return "plain";
    case "contrast.finished":
      return { proves: "good", same: "warn", "cannot-run": "plain" }[frame.data.result] as Tone;
    case "task.settled":
      return { completed: "good", failed: "bad", cancelled: "warn" }[frame.data.lifecycleStatus] as Tone;
    default:
      return undefined;
  }
};

/** The event's text in the service's own timeline; the event's type if this page is too old to know it. */
export const wordsFor = (frame: Frame): string =>
  // oxlint-disable-next-line typescript/no-unnecessary-type-assertion, typescript/no-unnecessary-condition
  (describeEvent(frame as unknown as Recorded) as string | undefined) ?? frame.type;

export const createConversation = () => {
  const items: Item[] = [];
  /** The array that was returned last; it must not be modified any more. */
  let shown: readonly Item[] | undefined;
  const calls = new Map<string, { call: Call; at: number }>();
  /** Names of checks by id, because events name checks by id only. */
  const checkNames = new Map<string, string>();
  let turn = -1;

  const add = (frame: Frame): void => {
    shown = undefined;
    const base = { id: frame.id, at: frame.at };
    if (frame.type === "task.created" || frame.type === "checks.found")
      for (const { id, name } of frame.data.checks) checkNames.set(id, name);
    switch (frame.type) {
      case "task.created": {
        const { request, source, sessionID, attachments } = frame.data;
        items.push({ kind: "said", ...base, sessionID, source, text: request, attachments });
        return;
      }
      case "message.received": {
        const { text, source, sessionID, attachments } = frame.data;
        items.push({ kind: "said", ...base, sessionID, source, text, attachments });
        return;
      }
      case "reply.finished": {
        const { sessionID, agent, model, text, failure, durationMs } = frame.data;
        turn = items.length;
        items.push({ kind: "turn", ...base, sessionID, agent, model, text, calls: [], failure, durationMs });
        return;
      }
      case "tool.started": {
        const { callID, tool, input } = frame.data;
        const owner = items[turn];
        if (owner?.kind !== "turn") return;
        const call: Call = {
          callID,
          tool,
          input,
          state: "running",
          output: null,
          exitCode: null,
          durationMs: null,
          eventID: owner.id,
        };
        calls.set(callID, { call, at: turn });
        items[turn] = { ...owner, calls: [...owner.calls, call] };
        return;
      }
      case "tool.finished": {
        const { callID, outcome, output, exitCode, durationMs } = frame.data;
        const known = calls.get(callID);
        const owner = known === undefined ? undefined : items[known.at];
        if (known === undefined || owner?.kind !== "turn") return;
        const done: Call = { ...known.call, state: outcome, output, exitCode, durationMs };
        calls.set(callID, { call: done, at: known.at });
        items[known.at] = { ...owner, calls: owner.calls.map((call) => (call.callID === callID ? done : call)) };
        return;
      }
      default: {
        const tone = toneOf(frame);
        if (tone === undefined) return;
        const detail =
          frame.type === "task.settled" || frame.type === "mission.finished"
            ? { detail: frame.data.summary }
            : frame.type === "check.finished" && tone === "bad" && frame.data.tail !== ""
              ? { detail: `\`\`\`\n${frame.data.tail.trimEnd().split("\n").slice(-tailLines).join("\n")}\n\`\`\`` }
              : {};
        const checkID = frame.type === "check.finished" ? frame.data.checkID : "";
        const said = wordsFor(frame).replace(`Check ${checkID} `, () => `Check ${checkNames.get(checkID) ?? checkID} `);
        // The report follows below in its own words.
        const words = frame.type === "mission.finished" ? said.slice(0, said.indexOf(": ")) : said;
        const end = frame.type === "task.settled" || frame.type === "mission.finished";
        const last = items.at(-1);
        if (
          last?.kind === "fact" &&
          last.words === words &&
          !end &&
          last.askID === undefined &&
          !("detail" in detail)
        ) {
          items[items.length - 1] = { ...last, times: last.times + 1 };
          return;
        }
        const asks = frame.type === "ask.opened" ? { askID: frame.data.askID } : {};
        items.push({
          kind: "fact",
          ...base,
          sessionID: frame.sessionID,
          tone,
          words,
          times: 1,
          end,
          ...asks,
          ...detail,
        });
      }
    }
  };
  return { add, items: (): readonly Item[] => (shown ??= [...items]) };
};
