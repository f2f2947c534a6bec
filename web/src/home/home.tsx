import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { FolderX } from "lucide-react";
import { useEffect, useMemo, useRef, useState } from "react";
import { type Filters, overview, projects, tasksEverywhere, tasksOf, wordsOf } from "../api.ts";
import { useFollow } from "../live.ts";
import { Empty, Failure, Waiting } from "../component/layout/empty.tsx";
import { useKeys } from "../component/keyboard.ts";
import { useRows } from "../component/row-keys.ts";
import { recentProjects, rememberProject } from "../settings.ts";
import { allProjects, nameOf } from "../place.ts";
import { setTitle } from "../title.ts";
import { Board } from "./board.tsx";
import { Composer } from "./composer.tsx";
import { useDoing } from "./doing.ts";
import { FilterBar } from "./filters.tsx";
import { TaskList } from "./list.tsx";
import { NeedsYou } from "./needs-you.tsx";
import { NothingFound, Welcome } from "./welcome.tsx";

/** The Tasks of one project, and the form for new ones. */

/** A burst of events reloads the list only once, after this many milliseconds. */
const refreshMs = 400;
/** Longer for all projects, because that takes a request for each of them. */
const refreshAllMs = 1500;

export const Home = () => {
  const search = useSearch({ from: "/" });
  const navigate = useNavigate({ from: "/" });
  const [remembered] = useState(() => recentProjects()[0]);
  const { data: known } = useQuery({ ...projects });
  const everything = search.project === allProjects;
  const project = everything
    ? undefined
    : (search.project ?? remembered ?? known?.find(({ tasks }) => tasks > 0)?.directory);
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
  const listed = useMemo(() => data?.pages.flat() ?? [], [data]);
  const works = data !== undefined;
  const { data: all } = useQuery(overview);
  const directories = useMemo(() => {
    const worked = (known ?? []).filter((each) => each.tasks > 0);
    return everything ? [...new Set([...worked, ...(all?.projects ?? [])].map(({ directory }) => directory))] : [];
  }, [everything, known, all]);
  const { data: everywhere } = useQuery({ ...tasksEverywhere(directories), enabled: directories.length > 0 });
  const busy = useMemo(() => {
    if (everything)
      return (all?.projects ?? []).flatMap(({ directory, running, queued }) =>
        running + queued > 0 ? [directory] : [],
      );
    return project !== undefined && listed.some(({ lifecycleStatus }) => lifecycleStatus === "active") ? [project] : [];
  }, [everything, all, project, listed]);
  const tasks = useDoing(everything ? (everywhere ?? []) : listed, busy);
  useEffect(
    () => setTitle(everything ? "All projects" : project === undefined ? "" : nameOf(project)),
    [everything, project],
  );
  useEffect(() => {
    if (works && project !== undefined) rememberProject(project);
  }, [works, project]);

  const due = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const refresh = () => {
    due.current ??= setTimeout(
      () => {
        due.current = undefined;
        for (const key of ["tasks", "everywhere", "overview"]) void queries.invalidateQueries({ queryKey: [key] });
      },
      everything ? refreshAllMs : refreshMs,
    );
  };
  useEffect(() => () => clearTimeout(due.current), []);
  useFollow({
    // The events of all projects, because asks of other projects are shown here as well.
    url: "/events",
    ready: project !== undefined || everything,
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
  const kept = tasks[0]?.repository == null ? project : tasks[0].directory;
  const counts = all?.projects.find(({ directory }) => directory === kept);
  // A card of the board shows its own question.
  const shown = new Set(search.view === "board" ? tasks.map(({ taskID }) => taskID) : []);
  const asksElsewhere = (all?.pending ?? []).filter(({ taskID }) => taskID === null || !shown.has(taskID));
  const unreachable = project !== undefined && error !== null && !works;
  return (
    <div
      className={`mx-auto flex w-full flex-col gap-6 px-4 py-5 sm:px-8 sm:py-7 ${search.view === "board" ? "max-w-[1680px]" : "max-w-5xl"}`}
    >
      <Composer
        project={project}
        onProject={setProject}
        draft={draft}
        onDraftTaken={() => setDraft(undefined)}
        alone={!everything}
        projectError={unreachable ? wordsOf(error) : undefined}
      />
      {all !== undefined && !everything && (search.view === "board" || narrowed) && <NeedsYou asks={asksElsewhere} />}
      {everything ? (
        <section aria-label="Tasks" className="flex flex-col gap-4">
          <h1 className="text-md font-semibold">All projects</h1>
          {known === undefined || (everywhere === undefined && directories.length > 0) ? (
            <Waiting lines={6} label="Loading the Tasks" />
          ) : directories.length === 0 ? (
            <Empty icon={FolderX} title="No Tasks yet">
              <p>Choose a project above and describe your first Task.</p>
            </Empty>
          ) : (
            <div ref={list}>
              <TaskList tasks={tasks} asks={all?.pending ?? []} counts={all?.total} named />
            </div>
          )}
        </section>
      ) : project === undefined || (works && tasks.length === 0 && !narrowed) ? (
        <Welcome project={project} onTry={setDraft} />
      ) : unreachable ? (
        <Empty icon={FolderX} title="No Tasks to show" first>
          <p>
            Enter the absolute path of a Git project on the service's machine, or the URL of a repository that the
            service may fetch.
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
              <Board tasks={tasks} counts={counts} />
            ) : (
              <TaskList
                tasks={tasks}
                asks={narrowed ? [] : (all?.pending ?? [])}
                counts={narrowed ? undefined : counts}
              />
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
