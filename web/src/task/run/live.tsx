import type { TaskStatus } from "../../../../src/protocol/task/status.ts";
import { NowLine } from "../../component/text/now.tsx";
import type { Log, NowFrame } from "../conversation/log.ts";

/** What the Task does now, with the progress from the live frames. */

/** Ignores a frame from before the present activity began, because it is about another one. */
const withFrame = (now: NonNullable<TaskStatus["now"]>, frame: NowFrame | undefined) =>
  frame === undefined || frame.at < now.since
    ? now
    : { ...now, text: frame.data.text ?? now.text, soFar: frame.data.soFar };

export const LiveLine = ({ task, log }: { task: TaskStatus; log: Log }) =>
  task.now === null ? null : <NowLine now={withFrame(task.now, log.now())} queue={task.queue} />;
