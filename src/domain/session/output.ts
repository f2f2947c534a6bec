import type { EventData } from "../../protocol/event/event.ts";
import type { TaskState } from "../state/task.ts";

/** What a Task's caller wants as JSON: when it is there, and how often it is asked for. */

/** How often it is asked for again in one attempt. */
export const askedAgain = 3;

/** How often it may be given wrongly before the last time; below 0 none is taken any more. */
export const refusalsLeft = ({ output }: TaskState): number => askedAgain - (output?.refused ?? 0);

/** None was given, or files were changed since. */
export const isOutputDue = ({ output, writes }: TaskState): boolean =>
  output !== null && (output.value === null || output.writes !== writes);

export const outputGiven = (state: TaskState, { output }: EventData["output.given"]): Pick<TaskState, "output"> => ({
  output: state.output && { ...state.output, value: output, writes: state.writes, reason: null },
});

export const outputRefused = (
  state: TaskState,
  { reason }: EventData["output.refused"],
): Pick<TaskState, "output"> => ({
  output: state.output && { ...state.output, refused: state.output.refused + 1, reason },
});

/** Each attempt gives its own. */
export const outputAnew = ({ output }: TaskState): Pick<TaskState, "output"> => ({
  output: output && { ...output, value: null, refused: 0, reason: null },
});
