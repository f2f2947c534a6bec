import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ChartNoAxesColumn } from "lucide-react";
import type { TaskSummary } from "../../../src/protocol/task/status.ts";
import { ask, client, wordsOf } from "../api.ts";
import { Empty, Failure, Waiting } from "../component/layout/empty.tsx";
import { Fact, Screen } from "../component/layout/screen.tsx";
import { useProject } from "../project.ts";
import { cost, count, tokens } from "../format.ts";
import { nameOf } from "../place.ts";

/** The usage of a project's Tasks, summed over their records. */

const most = 2000;

const everyTask = async (directory: string, signal: AbortSignal): Promise<TaskSummary[]> => {
  const found: TaskSummary[] = [];
  for (;;) {
    const last = found.at(-1);
    const cursor = last === undefined ? {} : { cursorUpdated: String(last.updated), cursorTaskID: last.taskID };
    const page = (await ask(
      client.task.list({ query: { directory, limit: 200, archived: true, ...cursor }, signal }),
    )) as TaskSummary[];
    found.push(...page);
    if (page.length < 200 || found.length >= most) return found;
  }
};

type Sum = {
  name: string;
  tasks: number;
  calls: number;
  input: number;
  output: number;
  cached: number;
  costUSD: number;
  unknown: number;
};

const sumOf = (name: string, tasks: readonly TaskSummary[]): Sum =>
  tasks.reduce(
    (sum, { usage }) => ({
      ...sum,
      tasks: sum.tasks + 1,
      calls: sum.calls + usage.modelCalls,
      input: sum.input + usage.inputTokens,
      output: sum.output + usage.outputTokens,
      cached: sum.cached + usage.cacheReadTokens,
      costUSD: sum.costUSD + (usage.costUSD ?? 0),
      unknown: sum.unknown + (usage.costUSD === null ? 1 : 0),
    }),
    { name, tasks: 0, calls: 0, input: 0, output: 0, cached: 0, costUSD: 0, unknown: 0 },
  );

/** The cost of a sum; it says so when parts of it are unknown. */
const Money = ({ sum: { costUSD, unknown, calls, tasks } }: { sum: Sum }) => {
  if (unknown === tasks && tasks > 0) return <>unknown</>;
  return (
    <>
      {cost({ costUSD, modelCalls: Math.max(1, calls) })}
      {unknown > 0 && (
        <span className="block text-xs font-normal text-faint">and {count(unknown, "Task")} unknown</span>
      )}
    </>
  );
};

/** Columns that small screens hide. */
const minor = new Set(["Calls", "Output"]);

const Table = ({ label, sums }: { label: string; sums: readonly Sum[] }) => {
  const widest = Math.max(1, ...sums.map(({ input, output }) => input + output));
  return (
    <section aria-label={label} className="flex flex-col gap-3">
      <h2 className="font-semibold">{label}</h2>
      <div className="card overflow-x-auto" tabIndex={0} role="region" aria-label={`Table: ${label}`}>
        <table className="w-full text-left [overflow-wrap:normal] sm:min-w-140">
          <thead className="text-xs text-faint">
            <tr className="border-b border-line">
              <th scope="col" className="px-3 py-2 font-medium">
                {label.replace(/^By /, "").replace(/^./, (first) => first.toUpperCase())}
              </th>
              {["Tasks", "Calls", "Input", "Output", "Cost"].map((name) => (
                <th
                  key={name}
                  scope="col"
                  className={`px-3 py-2 text-right font-medium ${minor.has(name) ? "max-sm:hidden" : ""}`}
                >
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {sums.map((sum) => (
              <tr key={sum.name} className="tabular border-b border-line last:border-0">
                <th scope="row" className="min-w-22 px-3 py-2 font-normal [overflow-wrap:anywhere]">
                  {sum.name}
                  <span aria-hidden="true" className="mt-1 block h-1 rounded-full bg-hover">
                    <span
                      className="block h-1 rounded-full bg-accent"
                      style={{ width: `${Math.round((100 * (sum.input + sum.output)) / widest)}%` }}
                    />
                  </span>
                </th>
                <td className="px-3 py-2 text-right">{sum.tasks}</td>
                <td className="px-3 py-2 text-right max-sm:hidden">{sum.calls.toLocaleString("en")}</td>
                <td className="px-3 py-2 text-right">{tokens(sum.input)}</td>
                <td className="px-3 py-2 text-right max-sm:hidden">{tokens(sum.output)}</td>
                <td className="px-3 py-2 text-right">
                  <Money sum={sum} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
};

const byDay = (at: string): string => at.slice(0, 10);

export const Usage = () => {
  const project = useProject();
  const { data, error, refetch } = useQuery({
    queryKey: ["usage", project ?? ""],
    queryFn: ({ signal }) => everyTask(project ?? "", signal),
    enabled: project !== undefined,
  });
  const groups = (of: (task: TaskSummary) => string): Sum[] =>
    [...Map.groupBy(data ?? [], of)]
      .map(([name, tasks]) => sumOf(name, tasks))
      .toSorted((a, b) => b.input + b.output - a.input - a.output);
  const total = sumOf("", data ?? []);
  return (
    <Screen
      title="Usage"
      about={
        project === undefined
          ? undefined
          : `Tokens, calls and cost of the Tasks in ${nameOf(project)}. The cost does not include models without a known price.`
      }
    >
      {project === undefined && (
        <Empty title="No project yet">
          <Link to="/" className="button">
            Choose one
          </Link>
        </Empty>
      )}
      {error !== null && data === undefined && <Failure words={wordsOf(error)} onRetry={() => void refetch()} />}
      {project !== undefined && data === undefined && error === null && <Waiting lines={6} />}
      {data?.length === 0 && (
        <Empty icon={ChartNoAxesColumn} title="No Tasks have run here yet">
          <p>Tokens and cost appear here by model, squad and day.</p>
          <Link to="/" hash="new" className="button">
            New Task
          </Link>
        </Empty>
      )}
      {data !== undefined && data.length > 0 && (
        <>
          <dl className="card tabular grid grid-cols-2 gap-5 p-5 sm:grid-cols-5">
            {(
              [
                ["Tasks", data.length >= most ? `${most}+` : String(total.tasks)],
                ["Model calls", total.calls.toLocaleString("en")],
                ["Input tokens", tokens(total.input)],
                ["Output tokens", tokens(total.output)],
                ["Cost", <Money key="cost" sum={total} />],
              ] as const
            ).map(([label, value]) => (
              <Fact key={label} label={label}>
                <span className="text-lg font-semibold">{value}</span>
              </Fact>
            ))}
          </dl>
          <Table label="By model" sums={groups(({ model }) => model)} />
          <Table label="By squad" sums={groups(({ squad }) => squad.id)} />
          <Table
            label="By day"
            sums={groups(({ createdAt }) => byDay(createdAt))
              .toSorted((a, b) => b.name.localeCompare(a.name))
              .slice(0, 60)}
          />
        </>
      )}
    </Screen>
  );
};
