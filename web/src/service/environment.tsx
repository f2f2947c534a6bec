import { useQuery } from "@tanstack/react-query";
import { Ban, CircleAlert, CircleCheck, CircleX, FileLock2, type LucideIcon } from "lucide-react";
import type { ProjectGrant } from "../../../src/protocol/task/grant.ts";
import { grantsOf, wordsOf } from "../api.ts";
import { Empty, Failure, Waiting } from "../component/layout/empty.tsx";
import { Screen } from "../component/layout/screen.tsx";
import { copy } from "../component/layout/toast.tsx";
import { Inline } from "../component/text/inline.tsx";
import { nameOf } from "../place.ts";
import { useProject } from "../project.ts";

/**
 * What a project requests for its Tasks, and whether it was granted. Only the command line grants requests, on the
 * service's machine.
 */

const states: Record<ProjectGrant["state"], { icon: LucideIcon; tone: string; words: string; about: string }> = {
  granted: {
    icon: CircleCheck,
    tone: "text-done",
    words: "Granted",
    about: "Tasks get it. A change of the file ends the grant.",
  },
  requested: {
    icon: CircleAlert,
    tone: "text-need",
    words: "Not granted",
    about: "Tasks run without it. To grant this version of the file, run on the service's machine:",
  },
  unusable: { icon: CircleX, tone: "text-fail", words: "Cannot be granted", about: "Tasks run without it." },
  overridden: {
    icon: Ban,
    tone: "text-soft",
    words: "Overridden",
    about: "The configuration of the service has an environment for this project, so the file is ignored.",
  },
};

const titles: Record<ProjectGrant["file"], string> = {
  ".mcp.json": "MCP servers",
  ".sortie/environment.jsonc": "Environment",
  ".devcontainer/devcontainer.json": "Container",
};

const quoted = (path: string): string => `'${path.replaceAll("'", String.raw`'\''`)}'`;

const File = ({ grant, directory }: { grant: ProjectGrant; directory: string }) => {
  const { icon: Icon, tone, words, about } = states[grant.state];
  const command = `sortie trust -C ${quoted(directory)} --digest ${grant.digest}`;
  return (
    <section aria-label={titles[grant.file]} className="card flex min-w-0 flex-col gap-3 p-5">
      <header className="flex flex-wrap items-center justify-between gap-x-4 gap-y-1">
        <h2 className="text-md font-semibold">{titles[grant.file]}</h2>
        <span className={`inline-flex items-center gap-1 text-sm font-medium ${tone}`}>
          <Icon size={15} aria-hidden="true" />
          {words}
        </span>
      </header>
      <p className="font-mono text-xs wrap-anywhere text-faint">
        {grant.file} · SHA-256 {grant.digest}
      </p>
      {grant.requests.length > 0 && (
        <ul aria-label="Requested" className="list-disc pl-5 wrap-anywhere" dir="auto">
          {grant.requests.map((request) => (
            <li key={request}>{request}</li>
          ))}
        </ul>
      )}
      {grant.problems.length > 0 && (
        <ul aria-label="Problems" className="list-disc pl-5 wrap-anywhere text-fail" dir="auto">
          {grant.problems.map((problem) => (
            <li key={problem}>{problem}</li>
          ))}
        </ul>
      )}
      <p className="text-sm text-soft">{about}</p>
      {grant.state === "requested" && (
        <div className="flex flex-wrap items-center gap-2">
          <code className="min-w-0 flex-1 rounded-lg bg-sunk px-3 py-2 font-mono text-xs wrap-anywhere">{command}</code>
          <button type="button" className="button" onClick={() => void copy(command, "The command")}>
            Copy
          </button>
        </div>
      )}
    </section>
  );
};

const nothing =
  "A project can request MCP servers with `.mcp.json`, and a setup, network access, variables and secrets with `.sortie/environment.jsonc`. See /ui/manual/configuration";

export const Environment = () => {
  const project = useProject();
  const { data, error, refetch } = useQuery({ ...grantsOf(project ?? ""), enabled: project !== undefined });
  return (
    <Screen
      title="Environment"
      about={
        project === undefined
          ? "What a project requests for its Tasks. Choose a project first."
          : `What ${nameOf(project)} requests for its Tasks, and whether it is granted.`
      }
    >
      {error !== null && data === undefined && <Failure words={wordsOf(error)} onRetry={() => void refetch()} />}
      {project !== undefined && data === undefined && error === null && <Waiting lines={4} />}
      {data?.length === 0 && (
        <Empty icon={FileLock2} title="Nothing requested">
          <p>
            <Inline text={nothing} />
          </p>
        </Empty>
      )}
      {project !== undefined && data?.map((grant) => <File key={grant.file} grant={grant} directory={project} />)}
    </Screen>
  );
};
