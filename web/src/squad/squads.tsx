import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { CircleAlert, CircleCheck } from "lucide-react";
import { squadsOf, wordsOf } from "../api.ts";
import { Failure, Waiting } from "../component/layout/empty.tsx";
import { Screen } from "../component/layout/screen.tsx";
import { count } from "../format.ts";
import { nameOf } from "../place.ts";
import { useProject } from "../project.ts";

const scopes = { builtin: "Built in", user: "Yours", project: "Project" } as const;

export const Squads = () => {
  const project = useProject();
  const { data, error, refetch } = useQuery(squadsOf(project));
  return (
    <Screen
      title="Squads"
      about={
        project === undefined
          ? "Teams that carry out Tasks: an Orchestrator and the agents it leads."
          : `Teams that carry out Tasks in ${nameOf(project)}: an Orchestrator and the agents it leads.`
      }
      aside={
        data !== undefined && (
          <p
            className={`inline-flex items-center gap-2 rounded-full py-1 pr-3 pl-2 text-sm font-medium ${data.healthy ? "bg-done-tint text-done" : "bg-need-tint text-need"}`}
          >
            {data.healthy ? <CircleCheck size={15} aria-hidden="true" /> : <CircleAlert size={15} aria-hidden="true" />}
            {data.healthy ? "Catalog healthy" : data.complete ? count(data.issues.length, "issue") : "Partly read"}
          </p>
        )
      }
    >
      {error !== null && data === undefined && <Failure words={wordsOf(error)} onRetry={() => void refetch()} />}
      {data === undefined && error === null && <Waiting lines={6} />}
      {data !== undefined && [...data.issues, ...data.warnings].length > 0 && (
        <section aria-label="Issues" className="flex flex-col gap-2">
          <h2 className="font-semibold">Issues</h2>
          <ul className="card divide-y divide-line">
            {[
              ...data.issues.map((issue) => ({ ...issue, sort: "issue" })),
              ...data.warnings.map((issue) => ({ ...issue, sort: "warning" })),
            ].map((issue) => (
              <li key={`${issue.scope} ${issue.squad} ${issue.file} ${issue.line} ${issue.code}`} className="px-4 py-3">
                <p className={issue.sort === "issue" ? "text-fail" : "text-need"} dir="auto">
                  <span className="sr-only">{issue.sort}: </span>
                  {issue.message}
                </p>
                <p className="font-mono text-xs text-soft">
                  {issue.scope}/{issue.squad}
                  {issue.file !== "" && `/${issue.file}`}
                  {issue.line !== undefined && `:${issue.line}`} · {issue.code}
                </p>
              </li>
            ))}
          </ul>
        </section>
      )}
      {data !== undefined && (
        <ul className="grid gap-4 md:grid-cols-2">
          {data.squads.map((squad) => (
            <li key={squad.id}>
              <Link
                to="/ui/squad/$id"
                params={{ id: squad.id }}
                className="card flex h-full flex-col gap-3 p-5 transition-[border-color] hover:border-edge"
              >
                <span className="flex items-baseline justify-between gap-3">
                  <span className="text-md font-semibold">{squad.name}</span>
                  <span className="text-xs text-faint">{scopes[squad.scope]}</span>
                </span>
                <span className="line-clamp-3 text-soft" dir="auto">
                  {squad.summary}
                </span>
                <span className="mt-auto flex flex-wrap gap-2">
                  {squad.agents.map(({ name }, index) => (
                    <span
                      key={name}
                      className={`rounded-full px-2 py-1 text-xs ${index === 0 ? "bg-accent-tint text-accent" : "bg-hover text-soft"}`}
                    >
                      {name}
                    </span>
                  ))}
                </span>
                <span className="tabular flex gap-4 text-xs text-faint">
                  <span>{squad.id}</span>
                  <span>version {squad.version}</span>
                  <span title={squad.digest}>{squad.digest.slice(0, 10)}</span>
                  {squad.skills.length > 0 && <span>{count(squad.skills.length, "skill")}</span>}
                </span>
              </Link>
            </li>
          ))}
        </ul>
      )}
    </Screen>
  );
};
