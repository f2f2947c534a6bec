import { ChevronDown, CircleCheck, CircleDashed, CircleSlash, LoaderCircle, type LucideIcon } from "lucide-react";
import { useState } from "react";
import type { Goal, TaskStatus } from "../../../src/protocol/task/status.ts";
import { Aside } from "../component/layout/aside.tsx";
import { Inline } from "../component/text/inline.tsx";
import { count, short } from "../format.ts";

/** The slices: what agents claim, the evidence, and the service's decision, kept apart. */

type Stand = "accepted" | "dropped" | "running" | "finished" | "waiting";

/** The objective without its code blocks, which the conversation shows. */
const wordsIn = (objective: string): string =>
  objective.replaceAll(/^(`{3,}|~{3,}).*?^\1.*?$|^(`{3,}|~{3,})[^]*$/gms, "").trim();

const standOf = ({ settlement, execution }: Goal): Stand =>
  settlement.state === "open" ? execution.state : settlement.state;

const stands: Record<Stand, { icon: LucideIcon; tone: string; words: string }> = {
  accepted: { icon: CircleCheck, tone: "text-done", words: "Accepted" },
  dropped: { icon: CircleSlash, tone: "text-soft", words: "Dropped" },
  running: { icon: LoaderCircle, tone: "text-run", words: "In progress" },
  finished: { icon: CircleDashed, tone: "text-need", words: "Not accepted yet" },
  waiting: { icon: CircleDashed, tone: "text-faint", words: "Not started" },
};

const Stale = () => <span className="rounded bg-need-tint px-1 text-xs text-need">stale</span>;

/** The colour of a proof by contrast shows its result. */
const toneOf = ({ contrast }: Goal["evidence"][number]): string =>
  contrast === null
    ? "text-faint"
    : { proves: "text-done", same: "text-need", "cannot-run": "text-faint" }[contrast.result];

const Part = ({ label, children }: { label: string; children: React.ReactNode }) => (
  <div className="flex flex-col gap-1">
    <h3 className="label">{label}</h3>
    {children}
  </div>
);

const Slice = ({ goal, alone }: { goal: Goal; alone: boolean }) => {
  const { contract, execution, evidence, review, settlement, weight } = goal;
  const objective = wordsIn(contract.objective);
  const told = objective !== "" && objective !== contract.title;
  const { icon: Icon, tone, words } = stands[standOf(goal)];
  return (
    <li>
      <details className="group" open={alone}>
        <summary className="flex list-none items-start gap-2 rounded-lg px-2 py-2 hover:bg-hover">
          <Icon
            size={17}
            aria-hidden="true"
            className={`mt-0.5 shrink-0 ${tone} ${standOf(goal) === "running" ? "animate-turn" : ""}`}
          />
          <span className="min-w-0 flex-1">
            <span className="line-clamp-3 font-medium group-open:line-clamp-none" dir="auto">
              {contract.title}
            </span>
            <span className="block text-xs text-soft">
              {words}
              {settlement.state !== "open" && settlement.commit !== null && (
                <>
                  {" "}
                  on <code className="font-mono">{short(settlement.commit)}</code>
                </>
              )}
              {execution.attempts > 1 && `, ${count(execution.attempts, "attempt")}`}
              {weight === "advisory" && ", advisory"}
              {contract.revision > 1 && `, revision ${contract.revision}`}
            </span>
          </span>
          <ChevronDown
            size={15}
            aria-hidden="true"
            className="mt-1 shrink-0 text-faint transition-transform group-open:rotate-180"
          />
        </summary>
        <div className="flex flex-col gap-3 pt-1 pr-2 pb-3 pl-9 text-sm">
          {(told || contract.acceptance.length > 0) && (
            <Part label="Contract">
              {told && (
                <p className="line-clamp-6 whitespace-pre-wrap text-soft" dir="auto" title={contract.objective}>
                  {objective}
                </p>
              )}
              {contract.acceptance.length > 0 && (
                <ul className="list-disc pl-4 text-soft">
                  {contract.acceptance.map((line) => (
                    <li key={line} dir="auto">
                      <Inline text={line} />
                    </li>
                  ))}
                </ul>
              )}
            </Part>
          )}
          <Part label="Evidence">
            {evidence.length === 0 ? (
              <p className="text-faint">None yet</p>
            ) : (
              <ul className="flex flex-col gap-2">
                {evidence.map((piece) => (
                  <li key={piece.id} className={piece.stale ? "text-faint" : "text-soft"}>
                    <span className={`mr-1 text-xs capitalize ${toneOf(piece)}`}>{piece.kind}</span>
                    <span dir="auto" title={piece.contrast?.firstLines ?? piece.lastLines ?? undefined}>
                      <Inline text={piece.summary} />
                    </span>{" "}
                    {piece.stale && <Stale />}
                  </li>
                ))}
              </ul>
            )}
          </Part>
          {(review.verdict !== null || !alone) && (
            <Part label="Review">
              {review.verdict === null ? (
                <p className="text-faint">Not reviewed</p>
              ) : (
                <p className="text-soft">
                  <span className="font-medium capitalize">{review.verdict}</span> by {review.reviewer}{" "}
                  {review.stale && <Stale />}
                  {review.notes !== null && review.notes !== "" && (
                    <span className="mt-0.5 line-clamp-5 block" dir="auto" title={review.notes}>
                      {review.notes}
                    </span>
                  )}
                </p>
              )}
            </Part>
          )}
        </div>
      </details>
    </li>
  );
};

/** How many slices are shown at first; a plan may have hundreds, so the others appear on request. */
const shown = 40;

/** `folded`: the content beside them needs the width. */
export const Slices = ({ task, folded }: { task: TaskStatus; folded: boolean }) => {
  const { goals } = task;
  const [all, setAll] = useState(false);
  if (goals.length === 0) return null;
  const accepted = goals.filter(({ settlement }) => settlement.state === "accepted").length;
  const visible = all ? goals : goals.slice(0, shown);
  const list = (
    <>
      <ul className="flex flex-col gap-1">
        {visible.map((goal) => (
          <Slice key={goal.sliceID} goal={goal} alone={goals.length === 1} />
        ))}
      </ul>
      {visible.length < goals.length && (
        <button type="button" className="button mx-2 mt-2" onClick={() => setAll(true)}>
          Show all {goals.length}
        </button>
      )}
    </>
  );
  const title = (
    <>
      {goals.length === 1 ? "Delivery" : "Slices"}
      <span className="tabular font-normal text-faint">
        {accepted} of {goals.length} accepted
      </span>
    </>
  );
  return (
    <Aside label="Slices" title={title} folded={folded}>
      {list}
    </Aside>
  );
};
