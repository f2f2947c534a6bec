import { answer, answerWords } from "../../domain/session/ask.ts";
import { dueNow } from "../../engine/due.ts";
import { ServiceError } from "../../error.ts";
import type { AnswerAccepted } from "../../protocol/task/accepted.ts";
import type { Change } from "./commit-change.ts";
import type { Tasks, TasksDeps } from "../tasks.ts";

/** Answers an open ask of a Task. When two answers race, the first one counts. */
export const createAnswer =
  ({ store, now }: Pick<TasksDeps, "store" | "now">, { own, change }: Change): Tasks["answer"] =>
  async (directory, taskID, askID, body, once) => {
    await own(directory, taskID);
    return change<AnswerAccepted>(taskID, once, async (state) => {
      const decision = answer(state, askID, { ...body, source: body.source ?? "api" }, now());
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
            events: decision.events,
            due: dueNow(now(), state.priority),
          };
      }
    });
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
    : new ServiceError("ask_closed", `Expected ${askID} to be open, its time is over.`, {
        details: { askID, by: "timeout", at: null },
      });
};
