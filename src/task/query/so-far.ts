import type { TaskSummary } from "../../protocol/task/status.ts";
import type { Store } from "../../store/store.ts";
import { usualOf } from "../usual-duration.ts";

/** How far what a Task does now has come, and how long it usually takes: no fold knows it, and a restart forgets it. */

/** What has a number of its own. */
const counted: ReadonlySet<string> = new Set(["model", "tool", "check", "review", "work", "setup"]);

type Now = TaskSummary["now"];
/** Of a Mission its session stands for the Task. */
type Whose = { taskID: string; project: string };

export const soFarOf = (live: Store["live"], { taskID: stream, project }: Whose, now: Now): Now => {
  if (now === null) return null;
  const usualMs = usualOf(project, now);
  const usual = usualMs === undefined ? now : { ...now, usualMs };
  const told = counted.has(now.kind) ? live.now(stream) : undefined;
  // What was told before that began is of something else.
  if (told === undefined || told.at < now.since) return usual;
  return { ...usual, text: told.data.text ?? now.text, soFar: told.data.soFar };
};

export const withSoFar = <T extends Pick<TaskSummary, "taskID" | "now">>(
  live: Store["live"],
  project: string,
  tasks: readonly T[],
): T[] => tasks.map((task) => ({ ...task, now: soFarOf(live, { taskID: task.taskID, project }, task.now) }));
