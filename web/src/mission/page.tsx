import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { ChevronLeft, Download, GitMerge } from "lucide-react";
import { useCallback, useEffect, useState } from "react";
import type { MissionStatus } from "../../../src/protocol/mission/status.ts";
import { ask, client, wordsOf } from "../api.ts";
import { Gone, Waiting } from "../component/layout/empty.tsx";
import { Menu, MenuItem } from "../component/layout/menu.tsx";
import { RenameDialog } from "../component/layout/rename-dialog.tsx";
import { StateMark } from "../component/text/state.tsx";
import { copy, say } from "../component/layout/toast.tsx";
import { useNamedProject } from "../project.ts";
import { setTitle } from "../title.ts";
import { Conversation } from "../task/conversation/tab.tsx";
import { Reply } from "../task/reply/reply.tsx";
import { PlanApproval } from "./approval.tsx";
import { useLog } from "../task/conversation/use-log.ts";
import { cost, tokens } from "../format.ts";
import { allProjects, nameOf, projectOf, whereOf } from "../place.ts";
import { AbortDialog, MergeDialog, RemoveDialog } from "./actions.tsx";
import { BudgetDialog, spentWords } from "./budget.tsx";
import { Plan } from "./plan.tsx";
import { isMergeable, missionState } from "./state.ts";

/** One Mission: its conversation, its plan, and its total cost. */

export const MissionPage = () => {
  const { missionID } = useParams({ from: "/ui/mission/$missionID" });
  const { project } = useSearch({ from: "__root__" });
  const isNamed = project !== undefined && project !== allProjects;
  const known = useNamedProject();
  // A link has its id alone: the service knows the project. The id may be in several: then the newest that was looked
  // at.
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

const Fact = ({ label, children }: { label: string; children: React.ReactNode }) => (
  <div className="flex items-center gap-2">
    <dt className="label">{label}</dt>
    <dd className="tabular text-sm text-soft">{children}</dd>
  </div>
);

const mergeWords = { running: "being merged into", merged: "merged into", failed: "not merged into" };

const Header = ({ mission, onChanged }: { mission: MissionStatus; onChanged: () => void }) => {
  const { missionID, directory, taskCounts, usage } = mission;
  const spent = spentWords(mission);
  const [dialog, setDialog] = useState<"abort" | "budget" | "merge" | "rename" | "remove" | undefined>();
  const awake = mission.agentStatus === "running" || mission.status === "running" || !mission.aborted;
  const at = (name: "abort" | "budget" | "merge" | "remove") => ({
    mission,
    open: dialog === name,
    onClose: () => setDialog(undefined),
    onDone: onChanged,
  });
  return (
    <section aria-label="The Mission" className="shrink-0 border-b border-line px-4 pt-3 pb-3 sm:px-6 lg:pt-5">
      <div className="mb-1 flex items-center gap-2">
        <Link
          to="/ui/missions"
          search={{ project: projectOf(mission) }}
          className="mr-auto inline-flex min-w-0 items-center gap-1 rounded text-sm text-faint hover:text-ink"
        >
          <ChevronLeft size={15} aria-hidden="true" className="shrink-0" />
          <span className="truncate">Missions in {nameOf(projectOf(mission))}</span>
        </Link>
        {isMergeable(mission) && (
          <button type="button" className="button button-primary" onClick={() => setDialog("merge")}>
            <GitMerge size={16} aria-hidden="true" />
            Merge
          </button>
        )}
        {mission.state === "paused" && (
          <button type="button" className="button button-primary" onClick={() => setDialog("budget")}>
            Raise budget
          </button>
        )}
        {awake && (
          <button type="button" className="button button-danger" onClick={() => setDialog("abort")}>
            Abort
          </button>
        )}
        <a
          className="button"
          href={`/mission/${missionID}/project-archive?directory=${encodeURIComponent(directory)}`}
          download
          title="The project's files and the history of the Mission and its Tasks, as a ZIP"
        >
          <Download size={16} aria-hidden="true" />
          <span className="max-sm:sr-only">Download archive</span>
        </a>
        <Menu>
          <MenuItem onSelect={() => setDialog("rename")}>Rename</MenuItem>
          <MenuItem onSelect={() => setDialog("budget")}>Set budget</MenuItem>
          <MenuItem onSelect={() => void copy(missionID, "The id")}>Copy id</MenuItem>
          <MenuItem
            onSelect={() => {
              const body = { archived: !mission.archived };
              void ask(client.mission.archive({ path: { missionID }, query: { directory }, body })).then(
                onChanged,
                (error: unknown) => say(wordsOf(error)),
              );
            }}
          >
            {mission.archived ? "Unarchive" : "Archive"}
          </MenuItem>
          <MenuItem danger onSelect={() => setDialog("remove")}>
            Delete
          </MenuItem>
        </Menu>
      </div>
      <h1 className="line-clamp-2 text-lg font-semibold tracking-tight text-balance" dir="auto" title={mission.title}>
        {mission.title}
      </h1>
      <div className="mt-2 flex flex-wrap items-center gap-x-5 gap-y-2">
        <StateMark {...missionState(mission)} />
        <dl className="contents">
          <Fact label="Tasks">
            {taskCounts.total}, {taskCounts.running} running
          </Fact>
          <Fact label="Cost">
            {cost(usage)}, {tokens(usage.inputTokens + usage.outputTokens)} tokens
          </Fact>
          {spent !== null && <Fact label="Budget">{spent}</Fact>}
          {mission.checks.length > 0 && <Fact label="Checks">{mission.checks.map(({ name }) => name).join("; ")}</Fact>}
          {mission.judging !== null && (
            <Fact label="Verdict">
              {mission.judging.taskID === null ? (
                "about to be judged"
              ) : (
                <Link
                  to="/ui/task/$taskID"
                  params={{ taskID: mission.judging.taskID }}
                  className="link"
                  title="By a session that did not plan it"
                >
                  being judged
                </Link>
              )}
            </Fact>
          )}
          {mission.verdict !== null && mission.judging === null && (
            <Fact label="Verdict">
              <Link
                to="/ui/task/$taskID"
                params={{ taskID: mission.verdict.taskID }}
                className="link"
                title={mission.verdict.notes}
              >
                {mission.verdict.verdict}
              </Link>
            </Fact>
          )}
          {mission.landingBranch !== null && <Fact label="Branch">{mission.landingBranch}</Fact>}
          {mission.merged !== null && (
            <Fact label="Merge">
              <Link to="/ui/task/$taskID" params={{ taskID: mission.merged.taskID }} className="link">
                {mergeWords[mission.merged.state]} {mission.merged.branch}
              </Link>
            </Fact>
          )}
          {mission.pullRequest !== null && (
            <Fact label="Pull request">
              <a className="link" href={mission.pullRequest.url} target="_blank" rel="noreferrer">
                #{mission.pullRequest.number}
              </a>{" "}
              {mission.pullRequest.state}
            </Fact>
          )}
          {mission.priority !== "normal" && (
            <Fact label="Priority">
              <span className="capitalize">{mission.priority}</span>
            </Fact>
          )}
          {mission.squads.length > 0 && <Fact label="Squads">{mission.squads.join(", ")}</Fact>}
          {mission.squadProduction === "authorised" && <Fact label="New squads">allowed</Fact>}
        </dl>
      </div>
      {mission.error !== undefined && (
        <p
          className="mt-3 line-clamp-4 rounded-lg bg-fail-tint px-3 py-2 text-sm text-fail"
          dir="auto"
          title={mission.error}
        >
          {mission.error}
        </p>
      )}
      {(mission.state === "paused" || mission.state === "stalled" || mission.merged?.state === "failed") &&
        mission.error === undefined && (
          <p className="mt-3 rounded-lg bg-need-tint px-3 py-2 text-sm text-need" dir="auto">
            {mission.stateReason}
          </p>
        )}
      <AbortDialog {...at("abort")} />
      {dialog === "budget" && <BudgetDialog {...at("budget")} />}
      <MergeDialog {...at("merge")} />
      <RenameDialog
        what="Mission"
        title={mission.title}
        open={dialog === "rename"}
        onClose={() => setDialog(undefined)}
        onRename={async (title) => {
          await ask(client.mission.rename({ path: { missionID }, query: { directory }, body: { title } }));
          onChanged();
        }}
      />
      <RemoveDialog {...at("remove")} />
    </section>
  );
};

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
    // The events of its Tasks are on the Tasks' own pages.
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
        <Plan mission={mission} />
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
            approvalOf={() => <PlanApproval plan={mission.plan} change={mission.planChange} />}
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
    </div>
  );
};
