import type { TaskSummary } from "../../../../src/protocol/task/status.ts";
import { Inline } from "./inline.tsx";
import { Elapsed } from "./time.tsx";

/**
 * What is being done or waited for, and for how long. A question is shown where it can be answered. `more`: how far it
 * has come.
 */
export const NowLine = ({ now, more = "" }: { now: TaskSummary["now"]; more?: string }) =>
  now === null || now.kind === "ask" ? null : (
    <span className="flex min-w-0 items-baseline gap-2 text-sm text-soft">
      <span className="truncate" dir="auto" title={now.text}>
        <Inline text={now.text} />
      </span>
      {more !== "" && <span className="tabular shrink-0">{more}</span>}
      <Elapsed from={now.since} to={null} />
    </span>
  );
