import type { DomainEvent } from "../../domain/event.ts";
import type { MissionState } from "../../domain/state/mission.ts";
import type { TaskSummary } from "../../protocol/task/status.ts";

/**
 * The questions of a Mission's Tasks, by their list rows: one event for each new question, and one for each that is
 * over.
 */
export const askFacts = (state: MissionState, rows: ReadonlyMap<string, TaskSummary>): DomainEvent[] => {
  const sessionID = state.sessionID;
  const pendingOf = (taskID: string) => {
    const row = rows.get(taskID);
    return row?.lifecycleStatus === "active" ? row.pending : [];
  };
  const known = new Set(state.questions.map(({ askID }) => askID));
  const asked = state.tasks.flatMap(({ taskID, phase, title }) =>
    pendingOf(taskID).flatMap(({ id, prompt, options, default: fallback, passesAt }): DomainEvent[] =>
      passesAt === undefined || known.has(id)
        ? []
        : [
            {
              type: "task.asked",
              data: { sessionID, taskID, phase, title, askID: id, prompt, options, default: fallback, passesAt },
            },
          ],
    ),
  );
  const over = state.questions.flatMap(({ taskID, askID }): DomainEvent[] => {
    const ask = pendingOf(taskID).find(({ id }) => id === askID);
    if (ask?.passesAt !== undefined) return [];
    return [
      { type: "task.answered", data: { sessionID, taskID, askID, how: ask === undefined ? "closed" : "passed" } },
    ];
  });
  return [...over, ...asked];
};
