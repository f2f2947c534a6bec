import type { TaskSummary } from "../../protocol/task/status.ts";
import type { Store } from "../../store/store.ts";
import { usualOf } from "../usual-duration.ts";

/**
 * How far the current activity of a Task has come, and how long it usually takes. No fold knows this, and a restart
 * forgets it.
 */

/** Activities that report their own progress. */
const counted: ReadonlySet<string> = new Set(["model", "tool", "check", "review", "work", "setup"]);

type Now = TaskSummary["now"];
/** For a Mission, `taskID` is its session's id. */
type Whose = { taskID: string; project: string };

export const soFarOf = (live: Store["live"], { taskID: stream, project }: Whose, now: Now): Now => {
  if (now === null) return null;
  const usualMs = usualOf(project, now);
  const usual = usualMs === undefined ? now : { ...now, usualMs };
  const told = counted.has(now.kind) ? live.now(stream) : undefined;
  // Progress reported before this activity began belongs to another one.
  if (told === undefined || told.at < now.since) return usual;
  return { ...usual, text: told.data.text ?? now.text, soFar: told.data.soFar };
};

export const withSoFar = <T extends Pick<TaskSummary, "taskID" | "now">>(
  live: Store["live"],
  project: string,
  tasks: readonly T[],
): T[] => tasks.map((task) => ({ ...task, now: soFarOf(live, { taskID: task.taskID, project }, task.now) }));
