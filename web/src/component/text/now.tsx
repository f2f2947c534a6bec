import type { TaskSummary } from "../../../../src/protocol/task/status.ts";
import { isSlow } from "../../../../src/protocol/slow.ts";
import { count, duration } from "../../format.ts";
import { Inline } from "./inline.tsx";
import { Elapsed, useNow } from "./time.tsx";

const placeIn = ({ kind }: NonNullable<TaskSummary["now"]>, queue: TaskSummary["queue"]): string => {
  if (queue === null || kind !== "queue") return "";
  return queue.position === 1 ? "next in line" : `${queue.position - 1} ahead`;
};

/**
 * What a Task does or waits for now, for how long, and its amount so far; in amber when it takes much longer than
 * usual. Questions are left out, because they are shown where the user answers them.
 */
export const NowLine = ({ now, queue }: Pick<TaskSummary, "now" | "queue">) => {
  const present = useNow(now !== null);
  if (now === null || now.kind === "ask") return null;
  const amount = now.soFar === undefined ? placeIn(now, queue) : count(now.soFar.count, now.soFar.unit);
  const slow = isSlow(now, present);
  return (
    <span className={`flex max-w-full min-w-0 items-baseline gap-2 text-sm ${slow ? "text-need" : "text-soft"}`}>
      <span className="truncate" dir="auto" title={now.text}>
        <Inline text={now.text} />
      </span>
      {amount !== "" && <span className="tabular shrink-0">{amount}</span>}
      <Elapsed from={now.since} to={null} />
      {slow && now.usualMs !== undefined && <span className="tabular shrink-0">usually {duration(now.usualMs)}</span>}
    </span>
  );
};
