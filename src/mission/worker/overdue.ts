import { personalWait, waitText } from "../../domain/mission/now.ts";
import { isRunning } from "../../domain/state/mission.ts";
import { noUsage } from "../../domain/state/stream.ts";
import type { DomainEvent } from "../../domain/event.ts";
import type { MissionRun } from "../run.ts";

/** Tells the agent of Tasks that have not ended by the time that it set for them, once for each such time. */
export const recordOverdue = async (run: MissionRun): Promise<void> => {
  const { tasks, aborted, version } = run.state();
  if (aborted !== null) return;
  const now = run.now().getTime();
  const due = tasks.filter((task) => isRunning(task) && task.lookAt !== null && Date.parse(task.lookAt) <= now);
  if (due.length === 0) return;
  const rows = new Map((await run.store.dispatched(run.stream)).map((row) => [row.taskID, row]));
  await run.record(
    due.map(({ taskID, phase, title }): DomainEvent => {
      const row = rows.get(taskID);
      const wait = row === undefined ? undefined : personalWait(row);
      const doing = wait === undefined ? (row?.now?.text ?? null) : `It ${waitText(wait)}.`;
      const data = { sessionID: run.stream, taskID, phase, title, doing };
      return { type: "task.overdue", data: { ...data, usage: row?.usage ?? noUsage } };
    }),
    { decidedAt: version },
  );
};
