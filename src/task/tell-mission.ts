import type { DomainEvent } from "../domain/event.ts";
import { openAsks } from "../domain/state/stream.ts";
import type { TaskState } from "../domain/state/task.ts";
import type { Store, Write } from "../store/store.ts";
import { truncateMiddle } from "../tool/result.ts";

/**
 * What a person says to a Task that asked is said to its Mission too, in the same commit: a direction for all of it may be
 * among the words. It wakes nobody. `answer`: undefined for a decision without words.
 */
export const tellMission = async (
  store: Pick<Store, "mission">,
  task: TaskState,
  askIDs: readonly string[],
  answer: string | undefined,
): Promise<Write["appends"]> => {
  const asks = openAsks(task).filter(({ askID, kind }) => kind !== "permission" && askIDs.includes(askID));
  const [first] = asks;
  if (task.mission === null || first === undefined || answer === undefined) return [];
  const mission = await store.mission(task.mission.sessionID);
  const known = mission?.tasks.find(({ taskID }) => taskID === task.taskID);
  if (mission === undefined || known === undefined) return [];
  const { sessionID } = mission;
  const { taskID, phase, title } = known;
  const said = {
    phase,
    title,
    question: asks.map(({ prompt }) => prompt).join("\n"),
    answer: truncateMiddle(answer, `the Task ${taskID} has all of them`, longest),
  };
  const event: DomainEvent = {
    type: "task.answered",
    data: { sessionID, taskID, askID: first.askID, how: "closed", said },
  };
  return [{ stream: sessionID, expected: mission.version, events: [event] }];
};

/** Characters; an answer has no more, a message may. */
const longest = 16 * 1024;
