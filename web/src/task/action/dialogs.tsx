import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import type { TaskStatus } from "../../../../src/protocol/task/status.ts";
import { ask, client } from "../../api.ts";
import { FormDialog } from "../../component/layout/form-dialog.tsx";
import { say } from "../../component/layout/toast.tsx";

/** The dialogs to retry a Task, to revert what it landed, and to delete it. */

type Props = { task: TaskStatus; open: boolean; onClose: () => void };

export const RetryDialog = ({ task: { taskID, directory, attempt, git }, open, onClose }: Props) => {
  const queries = useQueryClient();
  const navigate = useNavigate();
  return (
    <FormDialog
      title="Try again from the start?"
      keep="Not now"
      action="Retry"
      open={open}
      onClose={onClose}
      onSubmit={async () => {
        await ask(client.task.retry({ path: { taskID }, query: { directory }, body: { source: "web" } }));
        say(`Attempt ${attempt + 1} started`);
        await queries.invalidateQueries({ queryKey: ["board", taskID] });
        await navigate({ to: "/ui/task/$taskID", params: { taskID }, search: {} });
      }}
    >
      <p className="text-soft">
        Sends the first request again, on the project's files as they are now.{" "}
        {git.branch === null ? "" : "The changes of this attempt are kept on a separate branch. "}
        To continue from here instead, send a message.
      </p>
    </FormDialog>
  );
};

export const RevertDialog = ({ task: { taskID, directory, git }, open, onClose }: Props) => {
  const navigate = useNavigate();
  const landed = git.landings.length;
  return (
    <FormDialog
      title="Revert this Task?"
      keep="Keep it"
      action="Revert"
      open={open}
      onClose={onClose}
      onSubmit={async () => {
        const { taskID: revertID } = await ask(
          client.task.revert({ path: { taskID }, query: { directory }, body: { source: "web" } }),
        );
        await navigate({ to: "/ui/task/$taskID", params: { taskID: revertID }, search: {} });
      }}
    >
      <p className="text-soft">
        A new Task reverts {landed > 1 ? `its ${landed} commits` : "its commit"} with one commit on{" "}
        <code className="font-mono text-xs">{git.landings.at(-1)?.branch}</code>, if the checks pass. It calls no model,
        and is refused if later changes conflict with it.
      </p>
    </FormDialog>
  );
};

export const RemoveDialog = ({ task: { taskID, directory }, open, onClose }: Props) => {
  const navigate = useNavigate();
  const queries = useQueryClient();
  return (
    <FormDialog
      title="Delete this Task?"
      keep="Keep it"
      action="Delete"
      danger
      open={open}
      onClose={onClose}
      onSubmit={async () => {
        await ask(client.task.delete({ path: { taskID }, query: { directory }, body: { surface: "web" } }));
        void queries.invalidateQueries({ queryKey: ["tasks"] });
        say("Task deleted");
        await navigate({ to: "/" });
      }}
    >
      <p className="text-soft">
        Its conversation, evidence and workspace are removed. Its commits to the project stay.
      </p>
    </FormDialog>
  );
};
