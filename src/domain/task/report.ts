import { serviceSourceOf } from "../../protocol/event/source.ts";
import type { EventData } from "../../protocol/event/event.ts";
import type { Recorded } from "../event.ts";
import type { LongText } from "../../protocol/text.ts";
import { rootOf } from "../state/stream.ts";
import type { TaskState } from "../state/task.ts";
import { readEnd } from "./commit-text.ts";

/** The agent's report of its work: its last words, unless they answer the service without reporting on the work. */

/**
 * Which message of the service the agent's next words answer, where they need not be a report: a review (the reviewer
 * reads the answer together with the report), the question for an output, or a conflict on landing, except in a merge,
 * whose only work is the conflict. null: the next words are a report. That includes the answer to failed checks or
 * rules: the work changes, and its report with it.
 */
export const answeredSource = (
  { mergeOf }: Pick<TaskState, "mergeOf">,
  data: EventData["message.received"],
): TaskState["answers"] => {
  const source = serviceSourceOf(data);
  if (source === "landing") return mergeOf === null ? source : null;
  return source === "review" || source === "output" ? source : null;
};

/**
 * Takes the text of a reply of the Orchestrator that ends its work as the report; empty if the report stays as it is.
 */
export const reported = (
  state: TaskState,
  { data }: Recorded & { type: "reply.finished" },
): Partial<Pick<TaskState, "summary">> => {
  const { sessionID, finish, text } = data;
  const said = (typeof text === "string" ? text : text.head).trim() !== "";
  if (sessionID !== rootOf(state) || finish !== "end" || !said) return {};
  if (state.answers === null || state.summary === null) return { summary: text };
  return state.answers === "landing" && tellsOfWhole(text) ? { summary: text } : {};
};

/**
 * Whether an answer to a conflict reports on the whole work: it is followed by the description of the commit, or is too
 * long for an event. A bare "done" leaves the earlier report in place.
 */
const tellsOfWhole = (text: LongText): boolean => {
  if (typeof text !== "string") return true;
  const { report, commit } = readEnd(text);
  return commit !== undefined && report !== "";
};
