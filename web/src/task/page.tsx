import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { ask, boardOf, client, wordsOf } from "../api.ts";
import { useFollow } from "../live.ts";
import { Failure, Waiting } from "../parts/empty.tsx";
import { type Tab, tabs } from "../router.tsx";
import { useKeys } from "../shell/keys.ts";
import { stateWord } from "../words.ts";
import { Asks } from "./asks.tsx";
import { Checks } from "./checks.tsx";
import { Conversation } from "./conversation-tab.tsx";
import { Events } from "./events.tsx";
import { FollowUp } from "./follow-up.tsx";
import { Header } from "./header.tsx";
import { createLog } from "./log.ts";
import { Slices } from "./slices.tsx";
import { TabBar, TabPanel } from "./tabs.tsx";

/** One Task: the board first, then its events from where the board stood. */

const Changes = lazy(() => import("./changes.tsx").then(({ Changes }) => ({ default: Changes })));
const Topology = lazy(() => import("./topology.tsx").then(({ Topology }) => ({ default: Topology })));

/** A burst of events asks for the board once. */
const refreshMs = 350;

export const TaskPage = () => {
  const { taskID } = useParams({ from: "/ui/task/$taskID" });
  return <TaskScreen key={taskID} taskID={taskID} />;
};

const useLog = (taskID: string, lastEventID: number | undefined) => {
  const queries = useQueryClient();
  const [log] = useState(() =>
    createLog((after, limit) => ask(client.task.eventPage({ path: { taskID }, query: { after, limit } }))),
  );
  useSyncExternalStore(log.subscribe, log.version);
  const ready = lastEventID !== undefined;
  const began = useRef(false);
  useEffect(() => {
    if (lastEventID === undefined || began.current) return;
    began.current = true;
    void log.load(lastEventID);
  }, [log, lastEventID]);
  const due = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const refresh = () => {
    due.current ??= setTimeout(() => {
      due.current = undefined;
      void queries.invalidateQueries({ queryKey: ["board", taskID] });
    }, refreshMs);
  };
  useEffect(() => () => clearTimeout(due.current), []);
  useFollow({
    url: `/task/${taskID}/events?follow=1`,
    ready,
    after: lastEventID,
    onFrames: (frames) => {
      log.add(frames);
      if (frames.some((frame) => "id" in frame)) refresh();
    },
    onOpen: refresh,
  });
  return log;
};

const TaskScreen = ({ taskID }: { taskID: string }) => {
  const search = useSearch({ from: "/ui/task/$taskID" });
  const navigate = useNavigate({ from: "/ui/task/$taskID" });
  const { data: board, error, refetch } = useQuery(boardOf(taskID));
  const log = useLog(taskID, board?.lastEventID);
  const tab = search.tab ?? "conversation";
  const go = (next: Tab, session?: string) =>
    void navigate({
      search: ({ project }) => ({
        ...(project === undefined ? {} : { project }),
        ...(next === "conversation" ? {} : { tab: next }),
        ...(session === undefined ? {} : { session }),
      }),
      replace: true,
    });
  useKeys({
    ...Object.fromEntries(tabs.map((name, index) => [String(index + 1), () => go(name)])),
    m: (event) => {
      event.preventDefault();
      document.getElementById("message")?.focus();
    },
  });
  const task = board?.task;
  const word = task === undefined ? "" : stateWord(task);
  useEffect(() => {
    if (task !== undefined) document.title = `${word}: ${task.title} · Sortie`;
  }, [task, word]);
  const errors = useMemo(
    () => board?.checks.filter(({ state }) => state === "failed" || state === "error").length ?? 0,
    [board],
  );

  if (board === undefined || task === undefined)
    return (
      <div className="mx-auto max-w-5xl px-4 py-10 sm:px-8">
        {error === null ? (
          <Waiting lines={6} label="Loading the Task" />
        ) : (
          <Failure words={wordsOf(error)} onRetry={() => void refetch()} />
        )}
      </div>
    );
  const session = task.sessionInvocationTopology.nodes.find(({ sessionID }) => sessionID === search.session);
  return (
    <div className="flex h-full min-h-0 flex-col">
      {/* The state is read out as it changes; the log is not. */}
      <p role="status" className="sr-only">
        {`Task: ${word}`}
      </p>
      <Header board={board} />
      <div className="flex min-h-0 flex-1 flex-col xl:flex-row">
        <Slices task={task} />
        <div className="flex min-h-0 min-w-0 flex-1 flex-col">
          <TabBar
            tab={tab}
            onTab={go}
            counts={{
              changes: board.git.diffStat?.files ?? 0,
              checks: board.checks.length,
              topology: board.sessions.length > 1 ? board.sessions.length : 0,
            }}
            alarms={{ checks: errors }}
          />
          <TabPanel tab={tab}>
            {tab === "conversation" && (
              <Conversation
                log={log}
                taskID={taskID}
                session={session}
                onAll={() => go("conversation")}
                active={task.lifecycleStatus === "active"}
              />
            )}
            {tab === "checks" && <Checks board={board} log={log} />}
            {tab === "events" && <Events log={log} />}
            <Suspense fallback={<Waiting lines={5} />}>
              {tab === "changes" && <Changes board={board} log={log} />}
              {tab === "topology" && (
                <Topology
                  topology={task.sessionInvocationTopology}
                  goals={task.goals}
                  onOpen={(sessionID) => go("conversation", sessionID)}
                />
              )}
            </Suspense>
          </TabPanel>
          <div className="shrink-0 border-t border-line bg-page px-4 py-3 sm:px-6">
            <Asks task={task} />
            <FollowUp task={task} log={log} />
          </div>
        </div>
      </div>
    </div>
  );
};
