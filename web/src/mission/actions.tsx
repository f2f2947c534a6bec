import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { MissionStatus } from "../../../src/protocol/mission/status.ts";
import { ask, client } from "../api.ts";
import { given, ReasonField } from "../component/form/reason.tsx";
import { FormDialog } from "../component/layout/form-dialog.tsx";
import { say } from "../component/layout/toast.tsx";

/** The dialogs to abort, merge and delete a Mission. */

type Props = { mission: MissionStatus; open: boolean; onClose: () => void; onDone: () => void };

export const AbortDialog = ({ mission, open, onClose, onDone }: Props) => {
  const { missionID, directory, taskCounts } = mission;
  const [reason, setReason] = useState("");
  const [cascade, setCascade] = useState(false);
  return (
    <FormDialog
      title="Abort this Mission?"
      keep="Keep running"
      action="Abort the Mission"
      danger
      open={open}
      onClose={onClose}
      onSubmit={async () => {
        const body = { surface: "web", cascade, ...given(reason) };
        const { tasksRunning } = await ask(client.mission.abort({ path: { missionID }, query: { directory }, body }));
        say(tasksRunning === 0 ? "Aborted" : `Aborted; ${tasksRunning} of its Tasks keep running`);
        onDone();
      }}
    >
      <p className="text-soft">
        Its agent stops until somebody wakes the Mission again.{" "}
        {taskCounts.running > 0
          ? `${taskCounts.running} of its Tasks ${taskCounts.running === 1 ? "keeps" : "keep"} running, unless you cancel them too.`
          : "None of its Tasks is running."}
      </p>
      {taskCounts.running > 0 && (
        <label className="flex items-center gap-2">
          <input
            type="checkbox"
            className="accent-accent"
            checked={cascade}
            onChange={({ target }) => setCascade(target.checked)}
          />
          Cancel its running Tasks too
        </label>
      )}
      <ReasonField label="Reason" value={reason} onChange={setReason} />
    </FormDialog>
  );
};

export const MergeDialog = ({ mission, open, onClose, onDone }: Props) => {
  const { missionID, directory, landingBranch, checks } = mission;
  return (
    <FormDialog
      title="Merge this Mission's branch?"
      keep="Not now"
      action="Merge"
      open={open}
      onClose={onClose}
      onSubmit={async () => {
        await ask(client.mission.merge({ path: { missionID }, query: { directory } }));
        say("A Task merges it");
        onDone();
      }}
    >
      <p className="text-soft">
        A Task merges {landingBranch} into the project's branch, as `git merge` does, after{" "}
        {checks.length === 0 ? "the project's checks" : "the Mission's checks"} have passed on the result. Your
        uncommitted changes stay.
      </p>
    </FormDialog>
  );
};

export const RemoveDialog = ({ mission, open, onClose, onDone }: Props) => {
  const { missionID, directory } = mission;
  const navigate = useNavigate();
  return (
    <FormDialog
      title="Delete this Mission?"
      keep="Keep it"
      action="Delete"
      danger
      open={open}
      onClose={onClose}
      onSubmit={async () => {
        await ask(client.mission.delete({ path: { missionID }, query: { directory }, body: { surface: "web" } }));
        say("Mission deleted");
        onDone();
        await navigate({ to: "/ui/missions", search: { project: directory } });
      }}
    >
      <p className="text-soft">Its conversation is deleted. Its Tasks are kept, and running ones continue.</p>
    </FormDialog>
  );
};
