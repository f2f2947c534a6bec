import { Link } from "@tanstack/react-router";
import { FileDiff, GitPullRequest, KeyRound, RotateCcw, Undo2 } from "lucide-react";
import { useState } from "react";
import type { TaskBoard } from "../../../../src/protocol/task/board.ts";
import type { TaskStatus } from "../../../../src/protocol/task/status.ts";
import { Progress } from "../../component/layout/progress.tsx";
import { Inline } from "../../component/text/inline.tsx";
import { StateIcon, tones } from "../../component/text/state.tsx";
import { count, stateOf } from "../../format.ts";
import type { Tab } from "../../search.ts";
import { RetryDialog, RevertDialog } from "../action/dialogs.tsx";
import { outcomeOf } from "./outcome.ts";

/** The outcome of an ended Task, the size of its change, and the actions on it. */

const Stat = ({ board }: { board: TaskBoard }) => {
  const stat = board.git.diffStat;
  if (stat === null || stat.files === 0) return null;
  const shares = [
    { words: "added", count: stat.insertions, tone: "bg-done" },
    { words: "removed", count: stat.deletions, tone: "bg-fail" },
  ];
  return (
    <span className="tabular flex items-center gap-2 px-2 text-sm text-soft">
      {count(stat.files, "file")}
      <span className="text-done">+{stat.insertions}</span>
      <span className="text-fail">−{stat.deletions}</span>
      <span className="w-20">
        <Progress label="Changed lines" shares={shares} />
      </span>
    </span>
  );
};

/** Links to the pull request. The forge chose the address, so anything but a web address is refused. */
const PullRequest = ({ task: { pullRequest } }: { task: TaskStatus }) =>
  pullRequest === null || !/^https?:\/\//.test(pullRequest.url) ? null : (
    <a className="button" href={pullRequest.url} target="_blank" rel="noreferrer">
      <GitPullRequest size={15} aria-hidden="true" />
      Pull request #{pullRequest.number}
      <span className={pullRequest.state === "closed" ? "text-fail" : "text-done"}>{pullRequest.state}</span>
    </a>
  );

/** The actions on an ended Task: retry it, or revert what it landed. */
const Again = ({ task }: { task: TaskStatus }) => {
  const [opened, setOpened] = useState<"retry" | "revert" | undefined>();
  const onClose = () => setOpened(undefined);
  const may = (action: "retry" | "revert") => task.availableActions.includes(action);
  return (
    <>
      {task.lifecycleStatus !== "completed" && may("retry") && (
        <button type="button" className="button" onClick={() => setOpened("retry")}>
          <RotateCcw size={15} aria-hidden="true" />
          Retry
        </button>
      )}
      {task.errorInfo?.code === "needs_model" && (
        <Link to="/ui/models" className="button button-primary">
          <KeyRound size={15} aria-hidden="true" />
          Connect a model
        </Link>
      )}
      {may("revert") && (
        <button type="button" className="button" onClick={() => setOpened("revert")}>
          <Undo2 size={15} aria-hidden="true" />
          Revert
        </button>
      )}
      <RetryDialog task={task} open={opened === "retry"} onClose={onClose} />
      <RevertDialog task={task} open={opened === "revert"} onClose={onClose} />
    </>
  );
};

export const Headline = ({ board, onTab }: { board: TaskBoard; onTab: (tab: Tab) => void }) => {
  const { task, git } = board;
  const state = stateOf(task);
  const { words, more } = outcomeOf(board);
  return (
    <div className="flex flex-col gap-3">
      <div className="flex items-start gap-2">
        <span className="mt-1">
          <StateIcon state={state} size={18} />
        </span>
        <h2 className={`min-w-0 flex-1 text-md font-semibold wrap-anywhere ${tones[state].text}`} dir="auto">
          <Inline text={words} />
        </h2>
      </div>
      {more !== "" && (
        <p
          className="max-h-60 overflow-y-auto text-sm wrap-anywhere whitespace-pre-wrap text-soft"
          dir="auto"
          tabIndex={0}
        >
          <Inline text={more} />
        </p>
      )}
      <div className="flex flex-wrap items-center gap-x-2 gap-y-2">
        {(git.diffStat?.files ?? 0) > 0 && (
          <button type="button" className="button" onClick={() => onTab("changes")}>
            <FileDiff size={15} aria-hidden="true" />
            View changes
          </button>
        )}
        <PullRequest task={task} />
        <Again task={task} />
        <Stat board={board} />
      </div>
      {task.revertOf !== null && (
        <p className="text-sm text-soft">
          Reverts what{" "}
          <Link to="/ui/task/$taskID" params={{ taskID: task.revertOf }} className="link">
            another Task
          </Link>{" "}
          landed.
        </p>
      )}
    </div>
  );
};
