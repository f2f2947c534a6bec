import { useQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { Folder, GitBranch, Layers } from "lucide-react";
import { useEffect, useState } from "react";
import { addressOf, overview, projects } from "../api.ts";
import { StateIcon } from "../component/text/state.tsx";
import { allProjects, mayBeKept, nameOf } from "../place.ts";
import { recentProjects } from "../settings.ts";
import { setWaiting } from "../title.ts";

/** The projects, each with the number of its Tasks that need the user and that run; "All projects" comes first. */

/** How many projects are shown at first. */
const shown = 6;
/**
 * How often the numbers are polled, in milliseconds, because most screens have no stream of all projects. A tab in the
 * background polls too, because its title shows a number.
 */
const everyMs = 10_000;

type Counts = { needsYou: number; running: number };

const Numbers = ({ needsYou, running }: Counts) => (
  <span className="tabular ml-auto flex shrink-0 items-center gap-2 text-xs">
    {needsYou > 0 && (
      <span className="inline-flex items-center gap-1 rounded-full bg-need-tint px-1 font-semibold text-need">
        <StateIcon state="need" size={12} />
        {needsYou}
        <span className="sr-only"> need you</span>
      </span>
    )}
    {running > 0 && (
      <span className="inline-flex items-center gap-1 text-run">
        <span aria-hidden="true" className="size-2 rounded-full bg-run" />
        {running}
        <span className="sr-only"> running</span>
      </span>
    )}
  </span>
);

const none: Counts = { needsYou: 0, running: 0 };
const look =
  "flex min-h-8 items-center gap-3 rounded-lg px-3 py-1 text-soft transition-colors hover:bg-hover hover:text-ink data-[current=true]:bg-hover data-[current=true]:font-medium data-[current=true]:text-ink";

/** One project. A directory in which the service keeps a repository is shown with the repository's address. */
const Row = ({
  path,
  current,
  counts,
  onClick,
}: {
  path: string;
  current: string | undefined;
  counts: Counts;
  onClick?: () => void;
}) => {
  const { data: address } = useQuery({ ...addressOf(path), enabled: mayBeKept(path) });
  const project = address ?? path;
  return (
    <Link
      to="/"
      search={{ project }}
      data-current={project === current}
      title={project}
      className={look}
      {...(onClick === undefined ? {} : { onClick })}
    >
      {address == null ? (
        <Folder size={16} aria-hidden="true" className="shrink-0" />
      ) : (
        <GitBranch size={16} aria-hidden="true" className="shrink-0" />
      )}
      <span className="min-w-0 truncate">{nameOf(project)}</span>
      <Numbers {...counts} />
    </Link>
  );
};

export const Projects = ({ onGo }: { onGo?: () => void }) => {
  const { project } = useSearch({ from: "__root__" });
  const { data: counted } = useQuery({ ...overview, refetchInterval: everyMs, refetchIntervalInBackground: true });
  const { data: known } = useQuery(projects);
  const [all, setAll] = useState(false);
  useEffect(() => setWaiting(counted?.total.needsYou ?? 0), [counted]);
  const counts = new Map(counted?.projects.map((each) => [each.directory, each]));
  const current = project ?? recentProjects()[0];
  // Projects that need the user come first, then the others by their last use.
  const busy = [...counts.values()].filter(({ needsYou }) => needsYou > 0).map(({ directory }) => directory);
  const found = [...new Set([...busy, ...(known ?? []).map(({ directory }) => directory), ...counts.keys()])];
  const paths = all ? found : found.slice(0, shown);
  const given = onGo === undefined ? {} : { onClick: onGo };
  return (
    <nav aria-label="Projects" className="flex flex-col gap-1">
      <Link to="/" search={{ project: allProjects }} data-current={project === allProjects} className={look} {...given}>
        <Layers size={16} aria-hidden="true" className="shrink-0" />
        All projects
        <Numbers {...(counted?.total ?? none)} />
      </Link>
      {paths.map((path) => (
        <Row key={path} path={path} current={current} counts={counts.get(path) ?? none} {...given} />
      ))}
      {found.length > paths.length && (
        <button type="button" className={`${look} text-sm`} onClick={() => setAll(true)}>
          {found.length - paths.length} more
        </button>
      )}
    </nav>
  );
};
