import type { TaskStatus } from "../../../../src/protocol/task/status.ts";
import { NowLine } from "../../component/text/now.tsx";
import type { Log, NowFrame } from "../conversation/log.ts";

/** What the Task does now, with how far it has come as the live frames tell it. */

/** What was told before that began is of something else. */
const withFrame = (now: NonNullable<TaskStatus["now"]>, frame: NowFrame | undefined) =>
  frame === undefined || frame.at < now.since
    ? now
    : { ...now, text: frame.data.text ?? now.text, soFar: frame.data.soFar };

export const LiveLine = ({ task, log }: { task: TaskStatus; log: Log }) =>
  task.now === null ? null : <NowLine now={withFrame(task.now, log.now())} queue={task.queue} />;
