import type { TaskSummary } from "../../../../src/protocol/task/status.ts";
import { count } from "../../format.ts";
import { Inline } from "./inline.tsx";
import { Elapsed } from "./time.tsx";

/**
 * What is being done or waited for, for how long, and how much there is of it by now. A question is shown where it can be
 * answered. `more`: what else says how far it is.
 */
export const NowLine = ({ now, more = "" }: { now: TaskSummary["now"]; more?: string }) => {
  if (now === null || now.kind === "ask") return null;
  const amount = now.soFar === undefined ? more : count(now.soFar.count, now.soFar.unit);
  return (
    <span className="flex min-w-0 items-baseline gap-2 text-sm text-soft">
      <span className="truncate" dir="auto" title={now.text}>
        <Inline text={now.text} />
      </span>
      {amount !== "" && <span className="tabular shrink-0">{amount}</span>}
      <Elapsed from={now.since} to={null} />
    </span>
  );
};
