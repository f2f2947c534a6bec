import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useParams, useSearch } from "@tanstack/react-router";
import { useCallback, useEffect, useState } from "react";
import { ask, client } from "../api.ts";
import { Gone, Waiting } from "../component/layout/empty.tsx";
import { useNamedProject } from "../project.ts";
import { setTitle } from "../title.ts";
import { Conversation } from "../task/conversation/tab.tsx";
import { Reply } from "../task/reply/reply.tsx";
import { PlanApproval } from "./approval.tsx";
import { useLog } from "../task/conversation/use-log.ts";
import { allProjects, projectOf, whereOf } from "../place.ts";
import { EditPlan } from "./edit.tsx";
import { Header } from "./header.tsx";
import { Plan } from "./plan.tsx";
import { missionState } from "./state.ts";

/** The screen of one Mission: its conversation, its plan, and its total cost. */

export const MissionPage = () => {
  const { missionID } = useParams({ from: "/ui/mission/$missionID" });
  const { project } = useSearch({ from: "__root__" });
  const isNamed = project !== undefined && project !== allProjects;
  const known = useNamedProject();
  // A link may contain only the Mission's id: then the service finds the project. If several projects have the id, it
  // takes the project that the user looked at last.
  const { data: found, isPending } = useQuery({
    queryKey: ["mission", missionID],
    queryFn: ({ signal }) => ask(client.mission.get({ path: { missionID }, signal })),
    enabled: !isNamed,
    retry: false,
  });
  if (!isNamed && isPending) return <Loading />;
  const directory = isNamed ? project : found === undefined ? (known ?? "") : projectOf(found);
  return <MissionScreen key={`${directory} ${missionID}`} missionID={missionID} directory={directory} />;
};

const Loading = () => (
  <div className="mx-auto max-w-5xl px-4 py-10 sm:px-8">
    <Waiting lines={6} label="Loading the Mission" />
  </div>
);

const MissionScreen = ({ missionID, directory }: { missionID: string; directory: string }) => {
  const queries = useQueryClient();
  const where = whereOf(directory);
  const key = ["mission", directory, missionID];
  const {
    data: mission,
    error,
    refetch,
  } = useQuery({
    queryKey: key,
    queryFn: ({ signal }) => ask(client.mission.status({ path: { missionID }, query: where, signal })),
  });
  const refresh = () => void queries.invalidateQueries({ queryKey: key });
  const log = useLog({
    page: (after, limit) => ask(client.mission.eventPage({ path: { missionID }, query: { ...where, after, limit } })),
    url: `/mission/${missionID}/events?${new URLSearchParams(where).toString()}`,
    last: mission?.lastEventID,
    onFacts: refresh,
    // The events of its Tasks are shown on the Tasks' own pages.
    own: ({ taskID }) => taskID === undefined,
  });
  const read = useCallback(
    async (eventID: number) => {
      const query = { ...where, after: eventID - 1, limit: 1 };
      const { messages } = await ask(client.mission.messages({ path: { missionID }, query }));
      if (messages[0] === undefined) throw new Error("gone");
      return messages[0];
    },
    [missionID, directory],
  );
  const [editing, setEditing] = useState(false);
  const words = mission === undefined ? "" : missionState(mission).words;
  useEffect(() => {
    if (mission !== undefined) setTitle(`${words}: ${mission.title}`);
  }, [mission, words]);
  if (mission === undefined)
    return error === null ? <Loading /> : <Gone what="Mission" error={error} onRetry={() => void refetch()} />;
  const running = mission.agentStatus === "running";
  return (
    <div className="flex h-full min-h-0 flex-col">
      <p role="status" className="sr-only">{`Mission: ${words}`}</p>
      <Header mission={mission} onChanged={refresh} />
      <div className="flex min-h-0 flex-1 flex-col xl:flex-row">
        <Plan mission={mission} onEdit={() => setEditing(true)} />
        <div className="flex min-h-0 min-w-0 flex-1 flex-col max-xl:peer-data-[open=true]:hidden">
          <div className="min-h-24 flex-1 overflow-hidden">
            <Conversation log={log} read={read} active={running} pending={mission.pending} />
          </div>
          <Reply
            whose="Mission"
            id={missionID}
            pending={mission.pending}
            log={log}
            read={read}
            onAnswer={async (askID, body) => {
              await ask(
                client.mission.answer({ path: { missionID, askID }, query: where, body: { ...body, source: "web" } }),
              );
              refresh();
            }}
            approvalOf={() => (
              <PlanApproval plan={mission.plan} change={mission.planChange} onEdit={() => setEditing(true)} />
            )}
            label={running ? "Give the Mission more instructions" : "Send instructions to this Mission"}
            action={running ? "Send" : "Wake"}
            active={running}
            onSend={async (message) => {
              await ask(client.mission.wake({ query: where, body: { missionID, ...message } }));
              refresh();
              return "The Mission is running";
            }}
          />
        </div>
      </div>
      {editing && <EditPlan mission={mission} where={where} onClose={() => setEditing(false)} onDone={refresh} />}
    </div>
  );
};
