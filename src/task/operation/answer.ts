import type { DomainEvent } from "../../domain/event.ts";
import { answer, answerWords, passed } from "../../domain/session/ask.ts";
import { openAsks, rootOf } from "../../domain/state/stream.ts";
import type { TaskState } from "../../domain/state/task.ts";
import { dueNow } from "../../engine/due.ts";
import { ServiceError } from "../../error.ts";
import { newID } from "../../id.ts";
import { serviceSource, markPerson } from "../../protocol/event/source.ts";
import type { AnswerAccepted } from "../../protocol/task/accepted.ts";
import type { TaskAnswer } from "../../protocol/task/request.ts";
import { keepText } from "../../store/blob/text.ts";
import type { Change } from "./commit-change.ts";
import type { Tasks, TasksDeps } from "../tasks.ts";
import { tellAnswer } from "../tell-mission.ts";

/** Answers an open ask of a Task. When two answers race, the first one counts. */
export const createAnswer =
  ({ store, now }: Pick<TasksDeps, "store" | "now">, { own, change }: Change): Tasks["answer"] =>
  async (directory, taskID, askID, body, once, answerer) => {
    await own(directory, taskID);
    const byMission = answerer === "mission";
    const source = byMission ? answerer : (body.source ?? "api");
    const from = byMission ? {} : { from: answerer, ...markPerson(source) };
    return change<AnswerAccepted>(taskID, once, async (state) => {
      const decision = answer(state, askID, { ...body, source, ...from }, now());
      switch (decision.kind) {
        case "closed":
          throw await closed(store, taskID, askID);
        case "mismatch":
          throw new ServiceError(
            "invalid_request",
            `Expected ${decision.expected} for ${askID}, got ${decision.expected === "answer" ? "decision" : "answer"}.`,
          );
        case "events":
          return {
            status: 200,
            body: { taskID, askID, accepted: true, status: "running", lifecycleStatus: "active", eventID: 0 },
            events: [...decision.events, ...(await approvalMessage(store, state, askID, { ...body, source }))],
            also: byMission ? [] : await tellAnswer(store, state, [askID], body.answer),
            due: dueNow(now(), state.priority),
          };
      }
    });
  };

/** The Mission has no answer to its Task's ask, so the ask goes to a person. */
export const createPass =
  ({ store, limits, now }: Pick<TasksDeps, "store" | "limits" | "now">, { change }: Change): Tasks["passAskToPerson"] =>
  async (taskID, askID) => {
    if ((await store.state(taskID)) === undefined) return;
    await change(taskID, undefined, (state) => {
      const ask = openAsks(state).find((open) => open.askID === askID && open.passesAt !== undefined);
      const { askSeconds: seconds } = { ...limits, ...state.limits };
      return {
        status: 200,
        body: {},
        events: ask === undefined ? [] : [passed(ask, "mission", { now: now(), seconds })],
        ...(ask === undefined ? {} : { due: dueNow(now(), state.priority) }),
      };
    });
  };

/** The message that tells the agent of a decision on an approval: to carry out its plan, or why it was denied. */
const approvalMessage = async (
  store: TasksDeps["store"],
  state: TaskState,
  askID: string,
  { decision, answer: words, source }: TaskAnswer & { source: string },
): Promise<DomainEvent[]> => {
  const of = state.asks.find((ask) => ask.askID === askID)?.of;
  const text =
    decision === "deny"
      ? words === undefined
        ? undefined
        : `The ${of} was not approved: ${words}`
      : of === "plan" && state.reply !== null
        ? "The plan is approved: carry it out."
        : undefined;
  if (of === undefined || text === undefined) return [];
  const byUser = serviceSource(source) === undefined ? {} : { byUser: true as const };
  const data = {
    messageID: newID("msg"),
    sessionID: rootOf(state),
    source,
    text: await keepText(store.blobs, text),
    attachments: [],
    disposition: "steered" as const,
    ...byUser,
  };
  return [{ type: "message.received", data }];
};

/** The error for an ask that takes no answer: how it was closed, or that the Task never opened it. */
const closed = async (store: TasksDeps["store"], taskID: string, askID: string): Promise<ServiceError> => {
  const asks = await store.read(taskID, { types: ["ask.opened", "ask.answered"] });
  const of = asks.filter((event) => "askID" in event.data && event.data.askID === askID);
  if (of.length === 0)
    return new ServiceError(
      "ask_not_found",
      `Expected the id of something ${taskID} asked, got ${JSON.stringify(askID)}.`,
    );
  const last = of.at(-1);
  return last?.type === "ask.answered"
    ? new ServiceError("ask_closed", `Expected ${askID} to be open, got: ${answerWords(last.data)}.`, {
        details: { askID, by: last.data.by, at: last.at },
      })
    : new ServiceError("ask_closed", `Expected ${askID} to be open, it has expired.`, {
        details: { askID, by: "timeout", at: null },
      });
};
