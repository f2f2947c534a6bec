import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { ChevronLeft, Download, Ellipsis, GitBranch, GitCommitHorizontal } from "lucide-react";
import { DropdownMenu } from "radix-ui";
import { useState } from "react";
import type { TaskBoard } from "../../../src/protocol/task/board.ts";
import { ask, client, wordsOf } from "../api.ts";
import { Dialog } from "../component/layout/dialog.tsx";
import { Inline } from "../component/text/inline.tsx";
import { StateBadge } from "../component/text/state.tsx";
import { Elapsed } from "../component/text/time.tsx";
import { copy, say } from "../component/layout/toast.tsx";
import { cost, count, short, tokens } from "../format.ts";
import { nameOf, projectOf } from "../place.ts";
import { keepDraft } from "../settings.ts";
import { CancelDialog } from "./cancel.tsx";
import type { Log } from "./conversation/log.ts";
import { LiveLine } from "./run/live.tsx";
import { Stages } from "./run/progress.tsx";

const Fact = ({ label, minor = false, children }: { label: string; minor?: boolean; children: React.ReactNode }) => (
  <div className={`flex min-w-0 items-center gap-1.5 ${minor ? "max-sm:hidden" : ""}`}>
    <dt className="label shrink-0">{label}</dt>
    <dd className="flex min-w-0 items-center truncate text-sm text-soft">{children}</dd>
  </div>
);

const archiveURL = ({ taskID, directory }: { taskID: string; directory: string }): string =>
  `/task/${taskID}/project-archive?directory=${encodeURIComponent(directory)}`;

const curlOf = ({ taskID }: { taskID: string }): string => `curl -sN ${window.location.origin}/task/${taskID}/events`;

const More = ({ board, onDelete }: { board: TaskBoard; onDelete: () => void }) => {
  const { task } = board;
  const navigate = useNavigate();
  const queries = useQueryClient();
  const update = useMutation({
    mutationFn: (body: { archived?: boolean; priority?: typeof task.priority }) =>
      ask(client.task.update({ path: { taskID: task.taskID }, query: { directory: task.directory }, body })),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ["board", task.taskID] }),
    onError: (error) => say(wordsOf(error)),
  });
  const item =
    "cursor-pointer rounded-md px-3 py-1.5 outline-none data-[highlighted]:bg-hover data-[disabled]:opacity-50";
  return (
    <DropdownMenu.Root modal={false}>
      <DropdownMenu.Trigger className="button px-2" aria-label="More actions">
        <Ellipsis size={17} aria-hidden="true" />
      </DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content
          align="end"
          sideOffset={6}
          collisionPadding={12}
          className="z-40 min-w-48 rounded-xl border border-line bg-card p-1.5 shadow-float"
        >
          <DropdownMenu.Item className={item} onSelect={() => void copy(task.taskID, "The id")}>
            Copy id
          </DropdownMenu.Item>
          <DropdownMenu.Item className={item} onSelect={() => void copy(curlOf(task), "The command")}>
            Copy curl
          </DropdownMenu.Item>
          <DropdownMenu.Item className={item} onSelect={() => void copy(board.request, "The request")}>
            Copy request
          </DropdownMenu.Item>
          <DropdownMenu.Item
            className={item}
            onSelect={() => {
              keepDraft(board.request);
              void navigate({ to: "/", hash: "new" });
            }}
          >
            Duplicate
          </DropdownMenu.Item>
          <DropdownMenu.Separator className="my-1.5 h-px bg-line" />
          <DropdownMenu.Label className="label px-3 py-1">Priority</DropdownMenu.Label>
          <DropdownMenu.RadioGroup
            value={task.priority}
            onValueChange={(priority) => update.mutate({ priority: priority as typeof task.priority })}
          >
            {(["critical", "high", "normal", "low"] as const).map((priority) => (
              <DropdownMenu.RadioItem
                key={priority}
                value={priority}
                className={`${item} flex justify-between capitalize`}
              >
                {priority}
                <DropdownMenu.ItemIndicator>✓</DropdownMenu.ItemIndicator>
              </DropdownMenu.RadioItem>
            ))}
          </DropdownMenu.RadioGroup>
          <DropdownMenu.Separator className="my-1.5 h-px bg-line" />
          <DropdownMenu.Item className={item} onSelect={() => update.mutate({ archived: !task.archived })}>
            {task.archived ? "Unarchive" : "Archive"}
          </DropdownMenu.Item>
          <DropdownMenu.Item
            className={`${item} text-fail`}
            disabled={!task.availableActions.includes("delete")}
            onSelect={onDelete}
          >
            Delete
          </DropdownMenu.Item>
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
};

const DeleteDialog = ({ board, open, onClose }: { board: TaskBoard; open: boolean; onClose: () => void }) => {
  const { taskID, directory } = board.task;
  const navigate = useNavigate();
  const queries = useQueryClient();
  const remove = useMutation({
    mutationFn: () => ask(client.task.delete({ path: { taskID }, query: { directory }, body: { surface: "web" } })),
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ["tasks"] });
      say("Task deleted");
      void navigate({ to: "/" });
    },
  });
  return (
    <Dialog open={open} onClose={onClose} title="Delete this Task?">
      <p className="text-soft">
        Its conversation, evidence and workspace are removed. What it committed to the project stays.
      </p>
      {remove.error !== null && (
        <p role="alert" className="mt-3 text-fail">
          {wordsOf(remove.error)}
        </p>
      )}
      <div className="mt-5 flex justify-end gap-2">
        <button type="button" className="button" onClick={onClose}>
          Keep it
        </button>
        <button
          type="button"
          className="button button-danger"
          disabled={remove.isPending}
          onClick={() => remove.mutate()}
        >
          Delete
        </button>
      </div>
    </Dialog>
  );
};

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

/** `told`: the screen below tells how it ended, and where the result is. */
export const Header = ({ board, log, told }: { board: TaskBoard; log: Log; told: boolean }) => {
  const { task, git, usage } = board;
  const [cancelling, setCancelling] = useState(false);
  const [deleting, setDeleting] = useState(false);
  const active = task.lifecycleStatus === "active";
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
            title="The project's files and the whole execution flow, as a ZIP"
          >
            <Download size={16} aria-hidden="true" />
            <span className="max-sm:sr-only">Download archive</span>
          </a>
        )}
        <More board={board} onDelete={() => setDeleting(true)} />
      </div>
      <h1 className="line-clamp-2 text-lg font-semibold tracking-tight text-balance" dir="auto" title={task.title}>
        {task.title}
      </h1>
      <Stages task={task} log={log} />
      {active && (
        <div className="mt-2.5 flex min-w-0 items-center gap-3">
          <StateBadge task={task} />
          <LiveLine task={task} log={log} />
        </div>
      )}
      <div className="mt-2 flex flex-wrap items-center gap-x-5 gap-y-1.5">
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
                aria-label="Its Mission"
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
      <DeleteDialog board={board} open={deleting} onClose={() => setDeleting(false)} />
    </section>
  );
};
