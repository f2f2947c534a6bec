import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { FolderX } from "lucide-react";
import { useEffect, useMemo, useRef, useState } from "react";
import { type Filters, overview, projects, tasksOf, wordsOf } from "../api.ts";
import { useFollow } from "../live.ts";
import { Empty, Failure, Waiting } from "../component/layout/empty.tsx";
import { useKeys } from "../component/keyboard.ts";
import { useRows } from "../component/row-keys.ts";
import { recentProjects, rememberProject } from "../settings.ts";
import { nameOf } from "../format.ts";
import { Board } from "./board.tsx";
import { Composer } from "./composer.tsx";
import { FilterBar } from "./filters.tsx";
import { TaskList } from "./list.tsx";
import { NeedsYou } from "./needs-you.tsx";
import { NothingFound, Welcome } from "./welcome.tsx";

/** The Tasks of one project, and the form for new ones. */

/** A burst of events reloads the list once, after this many milliseconds. */
const refreshMs = 400;

export const Home = () => {
  const search = useSearch({ from: "/" });
  const navigate = useNavigate({ from: "/" });
  const [remembered] = useState(() => recentProjects()[0]);
  const { data: known } = useQuery({ ...projects });
  const project = search.project ?? remembered ?? known?.find(({ tasks }) => tasks > 0)?.directory;
  const [draft, setDraft] = useState<string | undefined>();
  const filters: Filters = {
    search: search.q,
    lifecycleStatus: search.state,
    productPillar: search.pillar,
    priority: search.priority,
    promptProfile: search.squad,
    archived: search.archived,
  };
  const narrowed = Object.values(filters).some((value) => value !== undefined);
  const queries = useQueryClient();
  const { data, error, isPending, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery({
    ...tasksOf(project ?? "", filters),
    enabled: project !== undefined,
  });
  const tasks = useMemo(() => data?.pages.flat() ?? [], [data]);
  const works = data !== undefined;
  const { data: all } = useQuery(overview);
  const waiting = all?.total.needsYou ?? 0;
  useEffect(() => {
    const title = project === undefined ? "Sortie" : `${nameOf(project)} · Sortie`;
    document.title = waiting === 0 ? title : `(${waiting}) ${title}`;
  }, [project, waiting]);
  useEffect(() => {
    if (works && project !== undefined) rememberProject(project);
  }, [works, project]);

  const due = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const refresh = () => {
    due.current ??= setTimeout(() => {
      due.current = undefined;
      void queries.invalidateQueries({ queryKey: ["tasks"] });
      void queries.invalidateQueries({ queryKey: ["overview"] });
    }, refreshMs);
  };
  useEffect(() => () => clearTimeout(due.current), []);
  useFollow({
    // Of all projects: what asks in another one is told here, too.
    url: "/events",
    ready: project !== undefined,
    after: undefined,
    onFrames: (frames) => {
      if (frames.some((frame) => "id" in frame)) refresh();
    },
    onOpen: refresh,
  });

  const list = useRows();
  useKeys({
    f: (event) => {
      event.preventDefault();
      document.getElementById("filter")?.focus();
    },
  });

  const setProject = (directory: string) =>
    void navigate({ search: (now) => ({ ...now, project: directory }), replace: project === undefined });
  const elsewhere = known?.find(({ directory }) => directory !== project)?.directory;
  const unreachable = project !== undefined && error !== null && !works;
  return (
    <div
      className={`mx-auto flex w-full flex-col gap-8 px-4 py-6 sm:px-8 sm:py-10 ${search.view === "board" ? "max-w-[1680px]" : "max-w-5xl"}`}
    >
      <Composer
        project={project}
        onProject={setProject}
        draft={draft}
        onDraftTaken={() => setDraft(undefined)}
        projectError={unreachable ? wordsOf(error) : undefined}
      />
      {all !== undefined && <NeedsYou asks={all.pending} />}
      {project === undefined || (works && tasks.length === 0 && !narrowed) ? (
        <Welcome project={project} onTry={setDraft} />
      ) : unreachable ? (
        <Empty icon={FolderX} title="No Tasks to show" first>
          <p>
            Give the absolute path of a Git project on the machine that the service runs on. A folder becomes one by{" "}
            <code className="typed">git init</code>.
          </p>
          {elsewhere !== undefined && (
            <button type="button" className="button" onClick={() => setProject(elsewhere)}>
              Go to {nameOf(elsewhere)}
            </button>
          )}
        </Empty>
      ) : (
        <section aria-label="Tasks" className="flex flex-col gap-4">
          <FilterBar search={search} total={works ? tasks.length : undefined} more={hasNextPage} />
          {error !== null && works && <Failure words={wordsOf(error)} onRetry={() => void refetch()} />}
          <div ref={list}>
            {isPending ? (
              <Waiting lines={6} label="Loading the Tasks" />
            ) : tasks.length === 0 ? (
              <NothingFound onClear={() => void navigate({ search: project === undefined ? {} : { project } })} />
            ) : search.view === "board" ? (
              <Board tasks={tasks} counts={all?.projects.find(({ directory }) => directory === project)} />
            ) : (
              <TaskList tasks={tasks} />
            )}
          </div>
          {hasNextPage && (
            <button
              type="button"
              className="button self-center"
              disabled={isFetchingNextPage}
              onClick={() => void fetchNextPage()}
            >
              {isFetchingNextPage ? "Loading" : "Show older Tasks"}
            </button>
          )}
        </section>
      )}
    </div>
  );
};
