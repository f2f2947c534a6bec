import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Ellipsis } from "lucide-react";
import { DropdownMenu } from "radix-ui";
import { useState } from "react";
import type { TaskBoard } from "../../../../src/protocol/task/board.ts";
import { ask, client, wordsOf } from "../../api.ts";
import { copy, say } from "../../component/layout/toast.tsx";
import { keepDraft } from "../../settings.ts";
import { RemoveDialog, RenameDialog, RetryDialog, RevertDialog } from "./dialogs.tsx";

const curlOf = ({ taskID }: { taskID: string }): string => `curl -sN ${window.location.origin}/task/${taskID}/events`;

type Opened = "rename" | "retry" | "revert" | "remove";

/** What can be done with a Task besides a cancel. */
export const More = ({ board }: { board: TaskBoard }) => {
  const { task } = board;
  const [opened, setOpened] = useState<Opened | undefined>();
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
  const given = (which: Opened) => ({ task, open: opened === which, onClose: () => setOpened(undefined) });
  return (
    <>
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
            <DropdownMenu.Item className={item} onSelect={() => setOpened("rename")}>
              Rename
            </DropdownMenu.Item>
            <DropdownMenu.Item
              className={item}
              disabled={!task.availableActions.includes("retry")}
              onSelect={() => setOpened("retry")}
            >
              Retry
            </DropdownMenu.Item>
            <DropdownMenu.Item
              className={item}
              disabled={!task.availableActions.includes("revert")}
              onSelect={() => setOpened("revert")}
            >
              Revert
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
              onSelect={() => setOpened("remove")}
            >
              Delete
            </DropdownMenu.Item>
          </DropdownMenu.Content>
        </DropdownMenu.Portal>
      </DropdownMenu.Root>
      <RenameDialog {...given("rename")} />
      <RetryDialog {...given("retry")} />
      <RevertDialog {...given("revert")} />
      <RemoveDialog {...given("remove")} />
    </>
  );
};
