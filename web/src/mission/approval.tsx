import { Pencil } from "lucide-react";
import type { MissionPhase, MissionStatus, PlannedPhase } from "../../../src/protocol/mission/status.ts";
import { Inline } from "../component/text/inline.tsx";
import { Markdown } from "../component/text/markdown.tsx";

/**
 * The plan that would be approved: each phase with its acceptance criteria. If another plan was approved before, the
 * differences are marked.
 */

type Change = NonNullable<MissionStatus["planChange"]>;
type Words = Change["changed"][number]["was"];

const Phase = ({
  phase: { title, phase, objective, acceptance, after },
  titles,
}: {
  phase: PlannedPhase;
  titles: ReadonlyMap<string, string>;
}) => (
  <>
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
      <span className="text-sm text-faint">After {after.map((one) => titles.get(one) ?? one).join(", ")}</span>
    )}
  </>
);

/** The fields as they were approved; the phase above shows their present values. */
const Was = ({ was, titles }: { was: Words; titles: ReadonlyMap<string, string> }) => {
  const rows = [
    ["Title", was.title],
    ["Kind of work", was.phase],
    ["Objective", was.objective],
    ["Acceptance", was.acceptance?.join("\n")],
    ["After", was.after?.map((one) => titles.get(one) ?? one).join(", ")],
  ].flatMap(([name, text]) => (name === undefined || text === undefined ? [] : [{ name, text }]));
  return (
    <dl aria-label="As it was approved" className="rounded-lg bg-fail-tint p-2 text-sm">
      {rows.map(({ name, text }) => (
        <div key={name}>
          <dt className="text-fail">{name} was</dt>
          <dd className="whitespace-pre-wrap [overflow-wrap:anywhere]" dir="auto">
            {text === "" ? "nothing" : text}
          </dd>
        </div>
      ))}
    </dl>
  );
};

const Mark = ({ words, tone }: { words: string; tone: string }) => (
  <span className={`text-sm font-semibold ${tone}`}>{words}</span>
);

export const PlanApproval = ({
  plan,
  change,
  onEdit,
}: {
  plan: readonly MissionPhase[];
  change: Change | null;
  onEdit: () => void;
}) => {
  const { added = [], dropped = [], changed = [], reordered = false } = change ?? {};
  const titles = new Map([...dropped, ...plan].map(({ id, title }) => [id, title]));
  const isNew = new Set(added.map(({ id }) => id));
  const before = new Map(changed.map(({ id, was }) => [id, was]));
  return (
    <>
      <div
        role="group"
        aria-label="The plan"
        tabIndex={0}
        className="mt-2 flex max-h-[min(16rem,18dvh)] sm:max-h-[min(16rem,28dvh)] flex-col gap-3 overflow-auto rounded-lg bg-card p-3"
      >
        {reordered && <p className="text-sm text-soft">The phases stand in another order than the one you approved.</p>}
        <ol className="flex flex-col gap-3">
          {plan.map((phase) => {
            const was = before.get(phase.id);
            return (
              <li key={phase.id} className="flex flex-col gap-1">
                {isNew.has(phase.id) && <Mark words="New" tone="text-done" />}
                {was !== undefined && <Mark words="Changed" tone="text-need" />}
                <Phase phase={phase} titles={titles} />
                {was !== undefined && <Was was={was} titles={titles} />}
              </li>
            );
          })}
        </ol>
        {dropped.length > 0 && (
          <section aria-label="No longer in the plan" className="flex flex-col gap-3 border-t border-line pt-3">
            {dropped.map((phase) => (
              <div key={phase.id} className="flex flex-col gap-1 text-soft">
                <Mark words="Dropped" tone="text-fail" />
                <Phase phase={phase} titles={titles} />
              </div>
            ))}
          </section>
        )}
      </div>
      <button type="button" className="button mt-2" onClick={onEdit}>
        <Pencil size={15} aria-hidden="true" />
        Edit before approving
      </button>
    </>
  );
};
