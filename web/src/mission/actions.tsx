import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { MissionStatus } from "../../../src/protocol/mission/status.ts";
import { ask, client } from "../api.ts";
import { FormDialog } from "../component/layout/form-dialog.tsx";
import { say } from "../component/layout/toast.tsx";

/** The dialogs to stop, rename and delete a Mission. */

type Props = { mission: MissionStatus; open: boolean; onClose: () => void; onDone: () => void };

export const AbortDialog = ({ mission, open, onClose, onDone }: Props) => {
  const { missionID, directory, taskCounts } = mission;
  const [reason, setReason] = useState("");
  const [cascade, setCascade] = useState(false);
  return (
    <FormDialog
      title="Abort this Mission?"
      keep="Let it work"
      action="Abort the Mission"
      danger
      open={open}
      onClose={onClose}
      onSubmit={async () => {
        const given = reason.trim() === "" ? {} : { reason: reason.trim() };
        const body = { surface: "web", cascade, ...given };
        const { tasksRunning } = await ask(client.mission.abort({ path: { missionID }, query: { directory }, body }));
        say(tasksRunning === 0 ? "Aborted" : `Aborted; ${tasksRunning} of its Tasks keep running`);
        onDone();
      }}
    >
      <p className="text-soft">
        Its agent stops, and nothing but a wake wakes it again.{" "}
        {taskCounts.running > 0
          ? `${taskCounts.running} of its Tasks ${taskCounts.running === 1 ? "keeps" : "keep"} running, unless you cancel them too.`
          : "None of its Tasks runs."}
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
      <div className="flex flex-col gap-1">
        <label htmlFor="abort-reason" className="label">
          Reason
        </label>
        <textarea
          id="abort-reason"
          dir="auto"
          rows={2}
          className="field"
          value={reason}
          onChange={({ target }) => setReason(target.value)}
        />
      </div>
    </FormDialog>
  );
};

export const RenameDialog = ({ mission, open, onClose, onDone }: Props) => {
  const { missionID, directory } = mission;
  const [title, setTitle] = useState(mission.title);
  return (
    <FormDialog
      title="Rename this Mission"
      keep="Leave it"
      action="Rename"
      open={open}
      onClose={onClose}
      onSubmit={async () => {
        await ask(client.mission.rename({ path: { missionID }, query: { directory }, body: { title: title.trim() } }));
        onDone();
      }}
    >
      <div className="flex flex-col gap-1">
        <label htmlFor="mission-title" className="label">
          Title
        </label>
        <input
          id="mission-title"
          dir="auto"
          maxLength={200}
          required
          className="field"
          value={title}
          onChange={({ target }) => setTitle(target.value)}
        />
      </div>
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
      <p className="text-soft">Its conversation goes. Its Tasks stay, and go on where they run.</p>
    </FormDialog>
  );
};
