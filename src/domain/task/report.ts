import { ofService } from "../../protocol/event/source.ts";
import type { EventData } from "../../protocol/event/event.ts";
import type { Recorded } from "../event.ts";
import { rootOf } from "../state/stream.ts";
import type { TaskState } from "../state/task.ts";

/** The agent's report of its work: its last words, unless they are an answer that tells nothing of it. */

/**
 * Whether what the agent says next is an answer and no report: to a reviewer, who reads it beside the report; to the question
 * for an output; to a conflict with work of others, but in a Task that is nothing else. Where checks or rules stood against the
 * work, it was another one before, and so was the report.
 */
export const answersService = (
  { mergeOf }: Pick<TaskState, "mergeOf">,
  data: EventData["message.received"],
): boolean => {
  const source = ofService(data);
  return source === "review" || source === "output" || (source === "landing" && mergeOf === null);
};

/** The report after a reply of the Orchestrator that ends its work. */
export const reported = (
  state: TaskState,
  { data }: Recorded & { type: "reply.finished" },
): Partial<Pick<TaskState, "summary">> => {
  const { sessionID, finish, text } = data;
  const said = (typeof text === "string" ? text : text.head).trim() !== "";
  if (sessionID !== rootOf(state) || finish !== "end" || !said) return {};
  return state.answers && state.summary !== null ? {} : { summary: text };
};
