import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { TaskBoard } from "../../../../src/protocol/task/board.ts";
import { ask, client, wordsOf } from "../../api.ts";
import { Menu, MenuChoice, MenuItem, MenuLine } from "../../component/layout/menu.tsx";
import { RenameDialog } from "../../component/layout/rename-dialog.tsx";
import { copy, say } from "../../component/layout/toast.tsx";
import { projectOf } from "../../place.ts";
import { keepDraft } from "../../settings.ts";
import { RemoveDialog, RetryDialog, RevertDialog } from "./dialogs.tsx";

const curlOf = ({ taskID }: { taskID: string }): string => `curl -sN ${window.location.origin}/task/${taskID}/events`;

type Opened = "rename" | "retry" | "revert" | "remove";

/** The actions on a Task other than cancelling it. */
export const More = ({ board }: { board: TaskBoard }) => {
  const { task } = board;
  const [opened, setOpened] = useState<Opened | undefined>();
  const navigate = useNavigate();
  const queries = useQueryClient();
  const changed = () => void queries.invalidateQueries({ queryKey: ["board", task.taskID] });
  const change = (body: { title?: string; archived?: boolean; priority?: typeof task.priority }) =>
    ask(client.task.update({ path: { taskID: task.taskID }, query: { directory: task.directory }, body }));
  const update = useMutation({ mutationFn: change, onSuccess: changed, onError: (error) => say(wordsOf(error)) });
  const given = (which: Opened) => ({ task, open: opened === which, onClose: () => setOpened(undefined) });
  return (
    <>
      <Menu>
        <MenuItem onSelect={() => void copy(task.taskID, "The id")}>Copy id</MenuItem>
        <MenuItem onSelect={() => void copy(curlOf(task), "The command")}>Copy curl</MenuItem>
        <MenuItem onSelect={() => void copy(board.request, "The request")}>Copy request</MenuItem>
        <MenuItem
          onSelect={() => {
            keepDraft(board.request);
            void navigate({ to: "/", search: { project: projectOf(task) }, hash: "new" });
          }}
        >
          Duplicate
        </MenuItem>
        <MenuLine />
        <MenuItem onSelect={() => setOpened("rename")}>Rename</MenuItem>
        <MenuItem disabled={!task.availableActions.includes("retry")} onSelect={() => setOpened("retry")}>
          Retry
        </MenuItem>
        <MenuItem disabled={!task.availableActions.includes("revert")} onSelect={() => setOpened("revert")}>
          Revert
        </MenuItem>
        <MenuLine />
        <MenuChoice
          label="Priority"
          value={task.priority}
          of={["critical", "high", "normal", "low"]}
          onChange={(priority) => update.mutate({ priority })}
        />
        <MenuLine />
        <MenuItem onSelect={() => update.mutate({ archived: !task.archived })}>
          {task.archived ? "Unarchive" : "Archive"}
        </MenuItem>
        <MenuItem danger disabled={!task.availableActions.includes("delete")} onSelect={() => setOpened("remove")}>
          Delete
        </MenuItem>
      </Menu>
      <RenameDialog
        what="Task"
        title={task.title}
        open={opened === "rename"}
        onClose={() => setOpened(undefined)}
        onRename={async (title) => {
          await change({ title });
          changed();
        }}
      />
      <RetryDialog {...given("retry")} />
      <RevertDialog {...given("revert")} />
      <RemoveDialog {...given("remove")} />
    </>
  );
};
