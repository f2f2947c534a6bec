import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { TaskStatus } from "../../../../src/protocol/task/status.ts";
import { ask, client } from "../../api.ts";
import { given, ReasonField } from "../../component/form/reason.tsx";
import { FormDialog } from "../../component/layout/form-dialog.tsx";

export const CancelDialog = ({ task, open, onClose }: { task: TaskStatus; open: boolean; onClose: () => void }) => {
  const { taskID, directory } = task;
  const [reason, setReason] = useState("");
  const [mode, setMode] = useState<"stop" | "wrap_up">("stop");
  const queries = useQueryClient();
  return (
    <FormDialog
      title="Cancel this Task?"
      keep="Keep running"
      action="Cancel the Task"
      danger
      open={open}
      onClose={onClose}
      onSubmit={async () => {
        await ask(
          client.task.cancel({
            path: { taskID },
            query: { directory },
            body: { surface: "web", mode, ...given(reason) },
          }),
        );
        void queries.invalidateQueries({ queryKey: ["board", taskID] });
      }}
    >
      <p className="text-soft">
        Its work so far stays on its branch and does not land. You can continue it later with a message.
      </p>
      <ReasonField label="Reason, shown with the Task" value={reason} onChange={setReason} />
      <fieldset className="flex flex-col gap-2">
        <legend className="label mb-1">How</legend>
        {(
          [
            ["stop", "Stop now", "Running commands are stopped."],
            ["wrap_up", "Wrap up", "The current step finishes, and the agent reports how far it got."],
          ] as const
        ).map(([value, words, more]) => (
          <label key={value} className="flex items-start gap-2">
            <input
              type="radio"
              name="mode"
              className="mt-1 accent-accent"
              checked={mode === value}
              onChange={() => setMode(value)}
            />
            <span>
              <span className="font-medium">{words}</span> <span className="text-soft">{more}</span>
            </span>
          </label>
        ))}
      </fieldset>
    </FormDialog>
  );
};
