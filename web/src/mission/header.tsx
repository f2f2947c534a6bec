import { Link } from "@tanstack/react-router";
import { ChevronLeft, Download, GitMerge } from "lucide-react";
import { useState } from "react";
import type { MissionStatus } from "../../../src/protocol/mission/status.ts";
import { ask, client, wordsOf } from "../api.ts";
import { Menu, MenuItem } from "../component/layout/menu.tsx";
import { RenameDialog } from "../component/layout/rename-dialog.tsx";
import { copy, say } from "../component/layout/toast.tsx";
import { StateMark } from "../component/text/state.tsx";
import { cost, tokens } from "../format.ts";
import { nameOf, projectOf } from "../place.ts";
import { AbortDialog, MergeDialog, RemoveDialog } from "./actions.tsx";
import { BudgetDialog, spentWords } from "./budget.tsx";
import { isMergeable, missionState } from "./state.ts";

/** A Mission's title and state, and the actions on it as a whole. */

const Fact = ({ label, children }: { label: string; children: React.ReactNode }) => (
  <div className="flex items-center gap-2">
    <dt className="label">{label}</dt>
    <dd className="tabular text-sm text-soft">{children}</dd>
  </div>
);

const mergeWords = { running: "being merged into", merged: "merged into", failed: "not merged into" };

export const Header = ({ mission, onChanged }: { mission: MissionStatus; onChanged: () => void }) => {
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
