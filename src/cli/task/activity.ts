import type { StreamFrame } from "../../client/event-stream.ts";
import type { Now } from "../../protocol/field.ts";
import type { TaskStatus } from "../../protocol/task/status.ts";
import { isSlow } from "../../protocol/slow.ts";
import { duration, line } from "../terminal/format.ts";

/** What a Task does now, in words: the activity, its duration, and its amount so far. */

type Queue = Pick<NonNullable<TaskStatus["queue"]>, "position"> | null;

const units = { word: "words", line: "lines", test: "tests" };

const amount = ({ soFar }: Pick<Now, "soFar">): string[] =>
  soFar === undefined ? [] : [`${soFar.count} ${soFar.count === 1 ? soFar.unit : units[soFar.unit]}`];

/** The Task's place in the queue while it waits there. */
const placeOf = ({ kind }: Now, queue: Queue): string[] =>
  kind !== "queue" || queue == null ? [] : [queue.position === 1 ? "next in line" : `${queue.position - 1} ahead`];

/** `width`: the width of the text alone, so that the numbers behind it are never cut off. */
export const nowWords = (now: Now, at: number, width = 100, queue: Queue = null): string => {
  const { text, since, usualMs } = now;
  const usual = usualMs !== undefined && isSlow(now, at) ? ` (usually ${duration(usualMs)})` : "";
  const parts = [`${duration(Math.max(0, at - Date.parse(since)))}${usual}`, ...amount(now), ...placeOf(now, queue)];
  return `${line(text, width).replaceAll("`", "")} · ${parts.join(" · ")}`;
};

/** Keeps what a Task does now up to date from the frames of its stream. */
export const createActivity = () => {
  let now: Now | null = null;
  let queue: Queue = null;
  /** Ids of calls, checks and replies that are complete: late frames about them are ignored. */
  const done = new Set<string>();
  const checks = new Map<string, string>();
  const begin = (text: string, since: string, completed?: string): void => {
    now = { kind: "work", text, since };
    if (completed !== undefined) done.add(completed);
  };
  return {
    take(frame: StreamFrame): void {
      switch (frame.type) {
        case "task.snapshot":
          this.told(frame.data);
          return;
        case "task.created":
        case "checks.found":
        case "checks.replaced":
          for (const { id, name } of frame.data.checks) checks.set(id, name);
          return;
        case "now.delta": {
          const { id, text, soFar } = frame.data;
          if (now !== null && !done.has(id)) now = { ...now, text: text ?? now.text, soFar };
          return;
        }
        case "tool.started": {
          const { tool, input } = frame.data;
          const command = typeof input === "object" && input !== null && "command" in input ? input.command : undefined;
          return begin(typeof command === "string" ? `Running ${command}` : `Using ${tool}`, frame.at);
        }
        case "check.started":
          return begin(`Running ${checks.get(frame.data.checkID) ?? "a check"}`, frame.at);
        case "tool.finished":
          return begin("Working", frame.at, frame.data.callID);
        case "check.finished":
          return begin("Working", frame.at, frame.data.checkID);
        case "reply.finished":
          return begin("Working", frame.at, frame.data.messageID);
        case "run.started":
        case "message.received":
          return begin("Working", frame.at);
        case "session.started":
          return begin(frame.data.purpose === "review" ? "Reviewing" : "Working", frame.at);
        case "landing.started":
          return begin("Landing", frame.at);
        case "task.settled":
          now = null;
          return;
        default:
      }
    },
    /** Takes the state from a status record, because no event reports moves in the queue. */
    told(status: Pick<TaskStatus, "now" | "queue">): void {
      ({ now, queue } = status);
    },
    isQueued: (): boolean => now?.kind === "queue",
    words: (at: number): string => (now === null ? "" : nowWords(now, at, undefined, queue)),
  };
};
