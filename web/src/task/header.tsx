import { Link, useLocation, useNavigate } from "@tanstack/react-router";
import { ChevronLeft, Download, GitBranch, GitCommitHorizontal } from "lucide-react";
import { useEffect, useState } from "react";
import type { TaskBoard } from "../../../src/protocol/task/board.ts";
import { Inline } from "../component/text/inline.tsx";
import { StateBadge } from "../component/text/state.tsx";
import { Elapsed } from "../component/text/time.tsx";
import { copy } from "../component/layout/toast.tsx";
import { cost, count, short, tokens } from "../format.ts";
import { nameOf, projectOf } from "../place.ts";
import { CancelDialog } from "./action/cancel.tsx";
import { More } from "./action/menu.tsx";
import type { Log } from "./conversation/log.ts";
import { LiveLine } from "./run/live.tsx";
import { Stages } from "./run/progress.tsx";

const Fact = ({ label, minor = false, children }: { label: string; minor?: boolean; children: React.ReactNode }) => (
  <div className={`flex min-w-0 items-center gap-2 ${minor ? "max-sm:hidden" : ""}`}>
    <dt className="label shrink-0">{label}</dt>
    <dd className="flex min-w-0 items-center truncate text-sm text-soft">{children}</dd>
  </div>
);

const archiveURL = ({ taskID, directory }: { taskID: string; directory: string }): string =>
  `/task/${taskID}/project-archive?directory=${encodeURIComponent(directory)}`;

/** Longer errors are shortened until opened, because some contain a page of advice. */
const longError = 220;

const Trouble = ({ task: { error = "", errorInfo, lifecycleStatus } }: { task: TaskBoard["task"] }) => {
  const [open, setOpen] = useState(false);
  const remedy = errorInfo?.remedy;
  const words = remedy == null || error.includes(remedy) ? error : `${error} ${remedy}`;
  return (
    <div
      className={`mt-3 rounded-lg px-3 py-2 text-sm ${lifecycleStatus === "cancelled" ? "bg-hover text-soft" : "bg-fail-tint text-fail"}`}
    >
      <p
        className={open ? "max-h-60 overflow-y-auto whitespace-pre-wrap" : "line-clamp-2"}
        dir="auto"
        tabIndex={open ? 0 : -1}
      >
        <Inline text={words} />
      </p>
      {words.length > longError && (
        <button
          type="button"
          aria-expanded={open}
          className="mt-1 rounded font-semibold"
          onClick={() => setOpen(!open)}
        >
          {open ? "Show less" : "Show all"}
        </button>
      )}
    </div>
  );
};

/** `told`: the screen below already says how the Task ended and where its result is. */
export const Header = ({ board, log, told }: { board: TaskBoard; log: Log; told: boolean }) => {
  const { task, git, usage } = board;
  const [cancelling, setCancelling] = useState(false);
  const active = task.lifecycleStatus === "active";
  const navigate = useNavigate();
  // The command palette opens the dialog with the URL's hash.
  const hash = useLocation({ select: (location) => location.hash });
  useEffect(() => {
    if (hash !== "cancel") return;
    setCancelling(task.availableActions.includes("cancel"));
    void navigate({ to: ".", search: (now) => now, hash: "", replace: true });
  }, [hash, navigate, task]);
  const used = usage.inputTokens + usage.outputTokens;
  return (
    <section aria-label="The Task" className="shrink-0 border-b border-line px-4 pt-3 pb-3 sm:px-6 lg:pt-5">
      <div className="mb-1 flex items-center gap-2">
        <Link
          to="/"
          className="mr-auto inline-flex min-w-0 items-center gap-1 rounded text-sm text-faint hover:text-ink"
        >
          <ChevronLeft size={15} aria-hidden="true" className="shrink-0" />
          <span className="truncate">{nameOf(projectOf(task))}</span>
        </Link>
        {task.availableActions.includes("cancel") && (
          <button type="button" className="button button-danger" onClick={() => setCancelling(true)}>
            Cancel
          </button>
        )}
        {task.availableActions.includes("archive") && (
          <a
            className="button"
            href={archiveURL(task)}
            download
            title="The project's files and the Task's full history, as a ZIP"
          >
            <Download size={16} aria-hidden="true" />
            <span className="max-sm:sr-only">Download archive</span>
          </a>
        )}
        <More board={board} />
      </div>
      <h1 className="line-clamp-2 text-lg font-semibold tracking-tight text-balance" dir="auto" title={task.title}>
        {task.title}
      </h1>
      <Stages task={task} log={log} />
      {active && (
        <div className="mt-2 flex min-w-0 items-center gap-x-3 gap-y-1 max-sm:flex-wrap">
          <StateBadge task={task} />
          <LiveLine task={task} log={log} />
        </div>
      )}
      <div className="mt-2 flex flex-wrap items-center gap-x-5 gap-y-2">
        {!active && <StateBadge task={task} />}
        <dl className="contents">
          <Fact label="Time">
            <Elapsed from={task.startedAt} to={active ? null : task.settledAt} />
          </Fact>
          <Fact label="Squad" minor>
            {task.squad.id}
          </Fact>
          <Fact label="Model" minor>
            <span title={task.model}>{task.model.startsWith("builtin/") ? "built-in rules" : task.model}</span>
          </Fact>
          {usage.modelCalls > 0 && (
            <Fact label="Cost">
              <span
                className="tabular"
                title={`${count(usage.modelCalls, "model call")}, ${count(usage.toolCalls, "tool call")}`}
              >
                {cost(usage)}
                {used > 0 && `, ${tokens(used)} tokens`}
              </span>
            </Fact>
          )}
          {task.repository !== null && (
            <Fact label="Repository">
              <span className="truncate" title={task.repository.url}>
                {task.repository.url.replace(/^\w+:\/\//, "")}
                {task.repository.ref !== null && `, ${task.repository.ref}`}
              </span>
            </Fact>
          )}
          {told ? null : git.landedCommit !== null ? (
            <Fact label="Landed" minor>
              <button
                type="button"
                className="inline-flex items-center gap-1 rounded font-mono text-xs hover:text-ink"
                onClick={() => void copy(git.landedCommit ?? "", "The commit")}
                title="Copy the commit"
              >
                <GitCommitHorizontal size={14} aria-hidden="true" />
                {short(git.landedCommit)}
              </button>
            </Fact>
          ) : (
            git.branch !== null && (
              <Fact label="Branch" minor>
                <button
                  type="button"
                  className="inline-flex max-w-52 items-center gap-1 rounded font-mono text-xs hover:text-ink"
                  onClick={() => void copy(git.branch ?? "", "The branch")}
                  title={`Copy ${git.branch}`}
                >
                  <GitBranch size={13} aria-hidden="true" className="shrink-0" />
                  <span className="truncate">{git.branch}</span>
                </button>
              </Fact>
            )
          )}
          {task.missionID !== undefined && (
            <Fact label="Mission">
              <Link
                to="/ui/mission/$missionID"
                params={{ missionID: task.missionID }}
                search={{ project: task.directory }}
                aria-label={`Its Mission ${task.missionID}`}
                className="link"
              >
                {task.missionID}
              </Link>
            </Fact>
          )}
        </dl>
      </div>
      {task.error !== undefined && !told && <Trouble task={task} />}
      <CancelDialog task={task} open={cancelling} onClose={() => setCancelling(false)} />
    </section>
  );
};
