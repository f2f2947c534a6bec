import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { ChevronDown, ChevronLeft } from "lucide-react";
import { ask, client, wordsOf } from "../api.ts";
import { Failure, Waiting } from "../component/layout/empty.tsx";
import { Markdown } from "../component/text/markdown.tsx";
import { Fact, Screen } from "../component/layout/screen.tsx";
import { copy } from "../component/layout/toast.tsx";
import { bytes } from "../format.ts";
import { useProject } from "../project.ts";

const Text = ({ name, about, text, more }: { name: string; about: string; text: string; more?: string }) => (
  <li>
    <details className="group card">
      <summary className="flex list-none items-start gap-3 px-4 py-3 hover:bg-hover">
        <span className="min-w-0 flex-1">
          <span className="font-medium">{name}</span>
          <span className="block text-soft" dir="auto">
            {about}
          </span>
          {more !== undefined && more !== "" && <span className="block text-xs text-faint">{more}</span>}
        </span>
        <ChevronDown
          size={16}
          aria-hidden="true"
          className="mt-1 shrink-0 text-faint transition-transform group-open:rotate-180"
        />
      </summary>
      <div className="border-t border-line px-4 py-4">
        <Markdown text={text} />
      </div>
    </details>
  </li>
);

export const SquadPage = () => {
  const { id } = useParams({ from: "/ui/squad/$id" });
  const project = useProject();
  const { data, error, refetch } = useQuery({
    queryKey: ["squad", id, project ?? ""],
    queryFn: ({ signal }) =>
      ask(client.squad.get({ path: { id }, query: project === undefined ? {} : { directory: project }, signal })),
  });
  if (data === undefined)
    return (
      <Screen title={id}>
        {error === null ? <Waiting lines={8} /> : <Failure words={wordsOf(error)} onRetry={() => void refetch()} />}
      </Screen>
    );
  return (
    <Screen
      title={data.name}
      about={data.summary}
      aside={
        <Link to="/ui/squads" className="button">
          <ChevronLeft size={16} aria-hidden="true" />
          All squads
        </Link>
      }
    >
      <dl className="grid grid-cols-2 gap-4 sm:grid-cols-4">
        <Fact label="Id">
          <code className="font-mono text-sm">{data.id}</code>
        </Fact>
        <Fact label="Version">{data.version}</Fact>
        <Fact label="Scope">{data.scope}</Fact>
        <Fact label="Digest">
          <button
            type="button"
            className="rounded font-mono text-sm hover:text-accent"
            title={data.digest}
            onClick={() => void copy(data.digest, "The digest")}
          >
            {data.digest.slice(0, 12)}
          </button>
        </Fact>
        {data.owns.domains.length > 0 && <Fact label="Domains">{data.owns.domains.join(", ")}</Fact>}
        {data.owns.phases.length > 0 && <Fact label="Phases">{data.owns.phases.join(", ")}</Fact>}
        {data.notFor !== "" && (
          <Fact label="Not for" wide>
            {data.notFor}
          </Fact>
        )}
      </dl>
      <section aria-label="Agents" className="flex flex-col gap-3">
        <h2 className="font-semibold">Agents</h2>
        <ul className="flex flex-col gap-2">
          {data.agents.map((agent) => (
            <Text
              key={agent.name}
              name={agent.name}
              about={agent.description}
              text={agent.instructions}
              more={[
                agent.runtime ?? agent.model ?? "",
                `tools: ${agent.tools.join(", ") || "none"}`,
                agent.delegates.length > 0 ? `leads ${agent.delegates.join(", ")}` : "",
              ]
                .filter((part) => part !== "")
                .join(" · ")}
            />
          ))}
        </ul>
      </section>
      {data.skills.length > 0 && (
        <section aria-label="Skills" className="flex flex-col gap-3">
          <h2 className="font-semibold">Skills</h2>
          <ul className="flex flex-col gap-2">
            {data.skills.map((skill) => (
              <Text key={skill.name} name={skill.name} about={skill.description} text={skill.text} />
            ))}
          </ul>
        </section>
      )}
      {data.readme !== null && (
        <section aria-label="README" className="card px-5 py-4">
          <Markdown text={data.readme} />
        </section>
      )}
      <section aria-label="Files" className="flex flex-col gap-2">
        <h2 className="font-semibold">Files</h2>
        <ul className="columns-1 text-sm text-soft sm:columns-2">
          {data.files.map((file) => (
            <li key={file.path} className="font-mono text-xs leading-6">
              {file.path} <span className="text-faint">{bytes(file.bytes)}</span>
            </li>
          ))}
        </ul>
      </section>
    </Screen>
  );
};
