import type { TaskStatus } from "../../../../src/protocol/task/status.ts";
import { NowLine } from "../../component/text/now.tsx";
import { count } from "../../format.ts";
import type { Log } from "../conversation/log.ts";

/** What the Task does now, with how far it has come as the live frames tell it. */

const wordsIn = (text: string): number => text.split(/\s+/).filter(Boolean).length;

/** The line as it stands, and a number of the operation's own that grows; empty: there is none. */
const progressOf = (task: TaskStatus, log: Log): { text?: string; more: string } => {
  if (task.queue !== null && task.now?.kind === "queue")
    return { more: task.queue.position === 1 ? "next in line" : `${task.queue.position - 1} ahead` };
  const lines = log.lines();
  if (lines > 0) return { more: count(lines, "new line") };
  const newest = [...log.saying().values()].at(-1);
  if (newest === undefined) return { more: "" };
  const { text, reasoning } = newest;
  return text === ""
    ? { text: "Thinking", more: count(wordsIn(reasoning), "word") }
    : { text: "Writing a reply", more: count(wordsIn(text), "word") };
};

export const LiveLine = ({ task, log }: { task: TaskStatus; log: Log }) => {
  if (task.now === null) return null;
  const { text = task.now.text, more } = progressOf(task, log);
  return <NowLine now={{ ...task.now, text }} more={more} />;
};
