import type { MissionPhase } from "../../../src/protocol/mission/status.ts";
import { Inline } from "../component/text/inline.tsx";
import { Markdown } from "../component/text/markdown.tsx";

/** The plan that would be approved: each phase with what is true when it is done, and how that is seen. */
export const PlanApproval = ({ plan }: { plan: readonly MissionPhase[] }) => (
  <ol
    aria-label="The plan"
    tabIndex={0}
    className="mt-2 flex max-h-[min(16rem,18dvh)] sm:max-h-[min(16rem,28dvh)] flex-col gap-3 overflow-auto rounded-lg bg-card p-3"
  >
    {plan.map(({ id, title, phase, objective, acceptance, after }) => (
      <li key={id} className="flex flex-col gap-1">
        <span className="font-medium" dir="auto">
          {title} <span className="text-sm font-normal text-faint">{phase}</span>
        </span>
        <Markdown text={objective} />
        {acceptance.length > 0 && (
          <ul className="list-disc pl-5 text-sm text-soft">
            {acceptance.map((line) => (
              <li key={line} dir="auto">
                <Inline text={line} />
              </li>
            ))}
          </ul>
        )}
        {after.length > 0 && (
          <span className="text-sm text-faint">
            After {after.map((one) => plan.find((other) => other.id === one)?.title ?? one).join(", ")}
          </span>
        )}
      </li>
    ))}
  </ol>
);
