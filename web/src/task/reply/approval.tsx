import { useQuery } from "@tanstack/react-query";
import type { Goal, PendingAsk } from "../../../../src/protocol/task/status.ts";
import { ask, client, wordsOf } from "../../api.ts";
import { DiffText } from "../../component/text/diff.tsx";
import { Inline } from "../../component/text/inline.tsx";
import { Markdown } from "../../component/text/markdown.tsx";

/** Shows everything that would be approved, because the answer applies to exactly that; any change asks anew. */

/** The commit that would land, with its diff. */
const Landing = ({
  taskID,
  pending,
  onChanges,
}: {
  taskID: string;
  pending: PendingAsk;
  /** Shows the changes file by file. */
  onChanges: () => void;
}) => {
  const { subject = "", commit = null, branch = null } = pending.would ?? {};
  const { data, error } = useQuery({
    queryKey: ["diff", taskID, subject],
    queryFn: async ({ signal }): Promise<string> =>
      ask(client.task.diff({ path: { taskID }, query: {}, signal, parseAs: "text" })),
  });
  const words = `Commit ${(commit ?? "").slice(0, 12)} would land on ${branch ?? "its branch"}`;
  return (
    <div className="mt-2 flex flex-col gap-2">
      <p className="text-sm [overflow-wrap:anywhere] text-soft">
        {words}.{" "}
        <button type="button" className="underline" onClick={onChanges}>
          See it file by file
        </button>
      </p>
      {error !== null && (
        <p role="alert" className="text-sm text-fail">
          {wordsOf(error)}
        </p>
      )}
      {data !== undefined && (
        <pre
          className="code max-h-[min(16rem,18dvh)] sm:max-h-[min(16rem,28dvh)] overflow-auto rounded-lg bg-card p-2 whitespace-pre-wrap"
          tabIndex={0}
          aria-label={words}
          role="region"
        >
          <DiffText text={data} />
        </pre>
      )}
    </div>
  );
};

/** The parts of the plan, each with its purpose and the criteria for its result. */
const Plan = ({ goals }: { goals: readonly Goal[] }) => (
  <ol
    aria-label="The plan"
    tabIndex={0}
    className="mt-2 flex max-h-[min(16rem,18dvh)] sm:max-h-[min(16rem,28dvh)] flex-col gap-3 overflow-auto rounded-lg bg-card p-3"
  >
    {goals
      .filter(({ settlement }) => settlement.state !== "dropped")
      .map(({ sliceID, weight, contract }) => (
        <li key={sliceID} className="flex flex-col gap-1">
          <span className="font-medium" dir="auto">
            {contract.title}
            {weight === "advisory" && <span className="ml-2 text-sm font-normal text-faint">advisory</span>}
          </span>
          <Markdown text={contract.objective} />
          {contract.acceptance.length > 0 && (
            <ul className="list-disc pl-5 text-sm text-soft">
              {contract.acceptance.map((line) => (
                <li key={line} dir="auto">
                  <Inline text={line} />
                </li>
              ))}
            </ul>
          )}
        </li>
      ))}
  </ol>
);

/** The package of a squad, with all its handbooks. */
const Package = ({ taskID, pending }: { taskID: string; pending: PendingAsk }) => {
  const { artifactID = "", subject = "" } = pending.would ?? {};
  const { data, error } = useQuery({
    queryKey: ["package", taskID, artifactID],
    queryFn: async ({ signal }): Promise<string> =>
      (await ask(client.task.artifact({ path: { taskID, artifactID }, signal, parseAs: "blob" }))).text(),
  });
  return (
    <div className="mt-2 flex flex-col gap-2">
      <p className="text-sm [overflow-wrap:anywhere] text-soft">Digest {subject}</p>
      {error !== null && (
        <p role="alert" className="text-sm text-fail">
          {wordsOf(error)}
        </p>
      )}
      {data !== undefined && (
        <pre
          className="code max-h-[min(16rem,18dvh)] sm:max-h-[min(16rem,28dvh)] overflow-auto rounded-lg bg-card p-2 whitespace-pre-wrap"
          tabIndex={0}
          aria-label="The package"
          role="region"
        >
          {data}
        </pre>
      )}
    </div>
  );
};

export const Approval = ({
  taskID,
  pending,
  goals,
  onChanges,
}: {
  taskID: string;
  pending: PendingAsk;
  goals: readonly Goal[];
  onChanges: () => void;
}) =>
  pending.of === "plan" ? (
    <Plan goals={goals} />
  ) : pending.of === "squad" ? (
    <Package taskID={taskID} pending={pending} />
  ) : (
    <Landing taskID={taskID} pending={pending} onChanges={onChanges} />
  );
