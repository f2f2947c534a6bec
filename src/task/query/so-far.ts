import type { TaskSummary } from "../../protocol/task/status.ts";
import type { Store } from "../../store/store.ts";

/** How far what a Task does now has come: no fold knows it, and a restart forgets it. */

/** What has a number of its own. */
const counted: ReadonlySet<string> = new Set(["model", "tool", "check", "review", "work", "setup"]);

type Now = TaskSummary["now"];

export const soFarOf = (live: Store["live"], stream: string, now: Now): Now => {
  const told = now === null || !counted.has(now.kind) ? undefined : live.now(stream);
  // What was told before that began is of something else.
  if (now === null || told === undefined || told.at < now.since) return now;
  return { ...now, text: told.data.text ?? now.text, soFar: told.data.soFar };
};

export const withSoFar = <T extends Pick<TaskSummary, "taskID" | "now">>(
  live: Store["live"],
  tasks: readonly T[],
): T[] => tasks.map((task) => ({ ...task, now: soFarOf(live, task.taskID, task.now) }));
