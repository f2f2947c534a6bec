import type { DomainEvent } from "../domain/event.ts";
import { openAsks } from "../domain/state/stream.ts";
import type { TaskState } from "../domain/state/task.ts";
import type { EventData } from "../protocol/event/event.ts";
import type { Store, Write } from "../store/store.ts";
import { truncateMiddle } from "../tool/result.ts";

/**
 * Repeats what a person says to a Task to its Mission, in the same commit, because the words may contain a direction
 * for all of the Mission. This does not wake the Mission.
 */

type Of = { sessionID: string; taskID: string; phase: string; title: string };

const told = async (
  store: Pick<Store, "mission">,
  { mission: of, taskID }: TaskState,
  factOf: (of: Of) => DomainEvent | undefined,
): Promise<Write["appends"]> => {
  const mission = of === null ? undefined : await store.mission(of.sessionID);
  const known = mission?.tasks.find((task) => task.taskID === taskID);
  if (mission === undefined || known === undefined) return [];
  const { sessionID: stream, version: expected } = mission;
  const fact = factOf({ sessionID: stream, taskID, phase: known.phase, title: known.title });
  return fact === undefined ? [] : [{ stream, expected, events: [fact] }];
};

/** For an answer to these asks. `answer`: undefined for a decision without words. */
export const tellAnswer = async (
  store: Pick<Store, "mission">,
  task: TaskState,
  askIDs: readonly string[],
  answer: string | undefined,
): Promise<Write["appends"]> =>
  answer === undefined ? [] : told(store, task, (of) => answered(of, task, askIDs, answer));

const answered = (
  { phase, title, ...of }: Of,
  task: TaskState,
  askIDs: readonly string[],
  answer: string,
): DomainEvent | undefined => {
  const asks = openAsks(task).filter(({ askID, kind }) => kind !== "permission" && askIDs.includes(askID));
  const [first] = asks;
  if (first === undefined) return undefined;
  const question = asks.map(({ prompt }) => prompt).join("\n");
  const said = { phase, title, question, answer: cut(task, answer, longest.answer) };
  return { type: "task.answered", data: { ...of, askID: first.askID, how: "closed", said } };
};

/** For a message that closes these asks: it is told as an answer to them, or as a message when there are none. */
export const tellMessage = (
  store: Pick<Store, "mission">,
  task: TaskState,
  askIDs: readonly string[],
  { text, ...message }: Pick<EventData["task.messaged"], "messageID" | "text" | "disposition">,
): Promise<Write["appends"]> =>
  told(
    store,
    task,
    (of) =>
      answered(of, task, askIDs, text) ?? {
        type: "task.messaged",
        data: { ...of, text: cut(task, text, longest.message), ...message },
      },
  );

const cut = ({ taskID }: TaskState, text: string, length: number): string =>
  truncateMiddle(text, `the Task ${taskID} has all of it`, length);

/** Characters. An answer is never longer; a message may be, and not every message concerns more than its Task. */
const longest = { answer: 16 * 1024, message: 2_000 };
