import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useCallback, useEffect, useMemo } from "react";
import { ask, boardOf, client } from "../api.ts";
import { Gone, Waiting } from "../component/layout/empty.tsx";
import { type Tab, tabs } from "../search.ts";
import { useKeys } from "../component/keyboard.ts";
import { stateWord } from "../format.ts";
import { setTitle } from "../title.ts";
import { Checks } from "./checks.tsx";
import { Conversation } from "./conversation/tab.tsx";
import { Events } from "./events.tsx";
import type { Message } from "./reply/message-box.tsx";
import { Approval } from "./reply/approval.tsx";
import { Reply } from "./reply/reply.tsx";
import { Header } from "./header.tsx";
import { useLog } from "./conversation/use-log.ts";
import { Result } from "./result/result.tsx";
import { Slices } from "./slices.tsx";
import { TabBar, TabPanel } from "./tabs.tsx";

/** The screen of one Task: it loads the board first, and then follows the events after it. */

const sent = {
  steered: "Sent; the agent reads it at its next step",
  queued: "Sent; the agent reads it once it has finished its current work",
  interrupted: "Sent; the current step was interrupted",
  restarted: "Sent; the Task continues",
};

const Changes = lazy(() => import("./change/changes.tsx").then(({ Changes }) => ({ default: Changes })));
const Topology = lazy(() => import("./topology.tsx").then(({ Topology }) => ({ default: Topology })));

export const TaskPage = () => {
  const { taskID } = useParams({ from: "/ui/task/$taskID" });
  return <TaskScreen key={taskID} taskID={taskID} />;
};

const TaskScreen = ({ taskID }: { taskID: string }) => {
  const search = useSearch({ from: "/ui/task/$taskID" });
  const navigate = useNavigate({ from: "/ui/task/$taskID" });
  const { data: board, error, refetch } = useQuery(boardOf(taskID));
  const queries = useQueryClient();
  const refresh = () => void queries.invalidateQueries({ queryKey: ["board", taskID] });
  const log = useLog({
    page: (after, limit) => ask(client.task.eventPage({ path: { taskID }, query: { after, limit } })),
    url: `/task/${taskID}/events?follow=1`,
    last: board?.lastEventID,
    onFacts: refresh,
  });
  const read = useCallback(
    async (eventID: number) => {
      const { messages } = await ask(
        client.task.messages({ path: { taskID }, query: { after: eventID - 1, limit: 1 } }),
      );
      if (messages[0] === undefined) throw new Error("gone");
      return messages[0];
    },
    [taskID],
  );
  const ended = board !== undefined && board.task.lifecycleStatus !== "active";
  // An ended Task opens on its result; a tab that the user chose stays open.
  const first: Tab = ended && search.session === undefined ? "result" : "conversation";
  const tab = search.tab === undefined || (search.tab === "result" && !ended) ? first : search.tab;
  const go = (next: Tab, session?: string) =>
    void navigate({
      search: ({ project }) => ({
        ...(project === undefined ? {} : { project }),
        ...(next === (ended ? "result" : "conversation") ? {} : { tab: next }),
        ...(session === undefined ? {} : { session }),
      }),
      replace: true,
    });
  useKeys({
    ...Object.fromEntries(tabs.slice(1).map((name, index) => [String(index + 1), () => go(name)])),
    r: () => {
      if (ended) go("result");
    },
  });
  const task = board?.task;
  const word = task === undefined ? "" : stateWord(task);
  useEffect(() => {
    if (task !== undefined) setTitle(`${word}: ${task.title}`);
  }, [task, word]);
  const errors = useMemo(
    () => board?.checks.filter(({ state }) => state === "failed" || state === "error").length ?? 0,
    [board],
  );

  if (board === undefined || task === undefined)
    return error === null ? (
      <div className="mx-auto max-w-5xl px-4 py-10 sm:px-8">
        <Waiting lines={6} label="Loading the Task" />
      </div>
    ) : (
      <Gone what="Task" error={error} onRetry={() => void refetch()} />
    );
  const active = task.lifecycleStatus === "active";
  const send = async (message: Message): Promise<string> => {
    const query = { directory: task.directory };
    const { disposition, readers } = await ask(
      client.task.message({ path: { taskID }, query, body: { source: "web", ...message } }),
    );
    refresh();
    const also = readers.slice(1).map(({ agent }) => agent);
    return also.length === 0 ? sent[disposition] : `${sent[disposition]}, by ${also.join(", ")} too`;
  };
  const session = task.sessionInvocationTopology.nodes.find(({ sessionID }) => sessionID === search.session);
  return (
    <div className="flex h-full min-h-0 flex-col">
      {/* Changes of the state are announced to screen readers; the log is not. */}
      <p role="status" className="sr-only">
        {`Task: ${word}`}
      </p>
      <Header board={board} log={log} told={tab === "result"} />
      <div className="flex min-h-0 flex-1 flex-col xl:flex-row">
        {/* For a single slice, the result already shows its outcome. */}
        {(tab !== "result" || task.goals.length > 1) && (
          <Slices task={task} folded={tab === "changes" || tab === "topology"} />
        )}
        <div className="flex min-h-0 min-w-0 flex-1 flex-col max-xl:peer-data-[open=true]:hidden">
          <TabBar
            tab={tab}
            ended={ended}
            onTab={go}
            counts={{
              changes: board.git.diffStat?.files ?? 0,
              checks: board.checks.length,
              topology: board.sessions.length > 1 ? board.sessions.length : 0,
            }}
            alarms={{ checks: errors }}
          />
          <TabPanel tab={tab}>
            {tab === "result" && <Result board={board} onTab={go} />}
            {tab === "conversation" && (
              <Conversation
                log={log}
                read={read}
                session={session}
                onAll={() => go("conversation")}
                active={active}
                pending={task.pending}
              />
            )}
            {tab === "checks" && <Checks board={board} log={log} />}
            {tab === "events" && <Events log={log} />}
            <Suspense fallback={<Waiting lines={5} />}>
              {tab === "changes" && <Changes board={board} log={log} onSend={(text) => send({ text })} />}
              {tab === "topology" && (
                <Topology
                  topology={task.sessionInvocationTopology}
                  goals={task.goals}
                  log={log}
                  onOpen={(sessionID) => go("conversation", sessionID)}
                />
              )}
            </Suspense>
          </TabPanel>
          <Reply
            whose="Task"
            id={taskID}
            pending={task.pending}
            log={log}
            read={read}
            onAnswer={async (askID, body) => {
              const query = { directory: task.directory };
              await ask(client.task.answer({ path: { taskID, askID }, query, body: { ...body, source: "web" } }));
              refresh();
            }}
            approvalOf={(pending) => (
              <Approval taskID={taskID} pending={pending} goals={task.goals} onChanges={() => go("changes")} />
            )}
            label={active ? "Send a message to this Task" : "Send a message to continue this Task"}
            action={active ? "Send" : "Continue"}
            active={active}
            onSend={send}
          />
        </div>
      </div>
    </div>
  );
};
