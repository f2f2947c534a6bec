import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Milestone } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import type { MissionSummary } from "../../../src/protocol/mission/status.ts";
import { ask, client, wordsOf } from "../api.ts";
import { useFollow } from "../live.ts";
import { Empty, Failure, Waiting } from "../component/layout/empty.tsx";
import { Screen } from "../component/layout/screen.tsx";
import { StateMark } from "../component/text/state.tsx";
import { Ago, useDebounced } from "../component/text/time.tsx";
import { useRows } from "../component/row-keys.ts";
import { useNamedProject } from "../project.ts";
import { count } from "../format.ts";
import { nameOf, whereOf } from "../place.ts";
import { missionState } from "./state.ts";
import { Wake } from "./wake.tsx";

/** The Missions of a project, below the form for new ones. */

const pageSize = 50;
const refreshMs = 500;

const Row = ({ mission }: { mission: MissionSummary }) => {
  const { taskStats: stats } = mission;
  return (
    <Link
      to="/ui/mission/$missionID"
      params={{ missionID: mission.missionID }}
      search={{ project: mission.directory }}
      data-row={mission.missionID}
      className="flex flex-col gap-2 px-4 py-3 sm:px-5 -outline-offset-2 transition-colors hover:bg-hover"
    >
      <span className="flex items-start justify-between gap-4">
        <span className="line-clamp-2 min-w-0 font-semibold" dir="auto">
          {mission.title}
        </span>
        <StateMark {...missionState(mission)} />
      </span>
      <span className="tabular flex flex-wrap gap-x-4 text-sm text-soft">
        <span>{count(stats.total, "Task")}</span>
        {stats.running > 0 && <span className="text-run">{stats.running} running</span>}
        {stats.completed > 0 && <span className="text-done">{stats.completed} completed</span>}
        {stats.failed > 0 && <span className="text-fail">{stats.failed} failed</span>}
        {stats.cancelled > 0 && <span>{stats.cancelled} cancelled</span>}
        {mission.priority !== "normal" && <span className="capitalize">{mission.priority}</span>}
        {mission.archived && <span>Archived</span>}
        <span className="ml-auto text-faint">
          <Ago at={mission.updated} />
        </span>
      </span>
    </Link>
  );
};

export const Missions = () => {
  const project = useNamedProject();
  const queries = useQueryClient();
  const [text, setText] = useState("");
  const [archived, setArchived] = useState(false);
  const search = useDebounced(text.trim(), 250);
  const { data, error, refetch, hasNextPage, fetchNextPage } = useInfiniteQuery({
    queryKey: ["missions", project ?? "", search, archived],
    enabled: project !== undefined,
    initialPageParam: {},
    queryFn: ({ pageParam, signal }) =>
      ask(
        client.mission.list({
          query: {
            ...whereOf(project ?? ""),
            limit: pageSize,
            ...(search === "" ? {} : { search }),
            ...(archived ? { archived } : {}),
            ...pageParam,
          },
          signal,
        }),
      ),
    getNextPageParam: (page) => {
      const last = page.length < pageSize ? undefined : page.at(-1);
      return last === undefined ? undefined : { cursorUpdated: String(last.updated), cursorSessionID: last.sessionID };
    },
  });
  const due = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const refresh = () => {
    due.current ??= setTimeout(() => {
      due.current = undefined;
      void queries.invalidateQueries({ queryKey: ["missions"] });
    }, refreshMs);
  };
  useEffect(() => () => clearTimeout(due.current), []);
  useFollow({
    url: `/events?${new URLSearchParams(whereOf(project ?? "")).toString()}`,
    ready: project !== undefined,
    after: undefined,
    onFrames: refresh,
    onOpen: refresh,
  });
  const missions = data?.pages.flat() ?? [];
  const list = useRows();
  if (project === undefined)
    return (
      <Screen title="Missions">
        <Empty title="No project yet">
          <Link to="/" className="button">
            Choose one
          </Link>
        </Empty>
      </Screen>
    );
  return (
    <Screen
      title="Missions"
      about={`Long goals in ${nameOf(project)}, planned in phases and carried out by Tasks. A Mission writes no code itself.`}
    >
      <Wake project={project} />
      {(missions.length > 0 || search !== "" || archived) && (
        <div className="grid grid-cols-[1fr_auto] items-center gap-2 sm:flex">
          <input
            type="search"
            aria-label="Search the Missions"
            placeholder="Search"
            className="field w-full text-sm sm:w-56"
            value={text}
            onChange={({ target }) => setText(target.value)}
          />
          <label className="field flex w-auto items-center gap-2 text-sm">
            <input
              type="checkbox"
              className="accent-accent"
              checked={archived}
              onChange={({ target }) => setArchived(target.checked)}
            />
            Archived
          </label>
        </div>
      )}
      {error !== null && data === undefined && <Failure words={wordsOf(error)} onRetry={() => void refetch()} />}
      {error === null && data === undefined && <Waiting lines={4} label="Loading the Missions" />}
      {data !== undefined && missions.length === 0 && (
        <Empty icon={Milestone} title={search === "" ? "No Missions yet" : "No Mission with that name"}>
          {search === "" && (
            <p>
              Write a goal above. Its agent plans phases, assigns each to a squad as a Task, reads the result, and
              continues until the goal is reached. A Mission needs a language model.
            </p>
          )}
        </Empty>
      )}
      {missions.length > 0 && (
        <div ref={list}>
          <ul className="card divide-y divide-line overflow-hidden">
            {missions.map((mission) => (
              <li key={mission.sessionID}>
                <Row mission={mission} />
              </li>
            ))}
          </ul>
        </div>
      )}
      {hasNextPage && (
        <button type="button" className="button self-center" onClick={() => void fetchNextPage()}>
          Show older Missions
        </button>
      )}
    </Screen>
  );
};
