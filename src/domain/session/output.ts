import type { EventData } from "../../protocol/event/event.ts";
import type { TaskState } from "../state/task.ts";

/** The JSON output that a Task's caller requires: whether it is there, and how often the agent is asked for it. */

/** How often the agent is asked again in one attempt. */
export const askedAgain = 3;

/** How many refused outputs are left before the last try; below 0: no further output is accepted. */
export const refusalsLeft = ({ output }: TaskState): number => askedAgain - (output?.refused ?? 0);

/** Whether the output is required and missing, or older than the newest change of files. */
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

/** Each attempt gives its own output. */
export const outputAnew = ({ output }: TaskState): Pick<TaskState, "output"> => ({
  output: output && { ...output, value: null, refused: 0, reason: null },
});
