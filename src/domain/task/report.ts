import { ofService } from "../../protocol/event/source.ts";
import type { EventData } from "../../protocol/event/event.ts";
import type { Recorded } from "../event.ts";
import type { LongText } from "../../protocol/text.ts";
import { rootOf } from "../state/stream.ts";
import type { TaskState } from "../state/task.ts";
import { readEnd } from "./commit-text.ts";

/** The agent's report of its work: its last words, unless they are an answer that tells nothing of it. */

/**
 * What the agent answers with what it says next, where that need not be a report: a reviewer, who reads it beside the
 * report; the question for an output; a conflict with work of others, but in a Task that is nothing else. Where checks
 * or rules stood against the work, it was another one before, and so was the report.
 */
export const answersService = (
  { mergeOf }: Pick<TaskState, "mergeOf">,
  data: EventData["message.received"],
): TaskState["answers"] => {
  const source = ofService(data);
  if (source === "landing") return mergeOf === null ? source : null;
  return source === "review" || source === "output" ? source : null;
};

/** The report after a reply of the Orchestrator that ends its work. */
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
 * Whether words after a conflict are the report of the work as it is then: they name its commit below them, or are too
 * long for an event. A bare "done" leaves the one before.
 */
const tellsOfWhole = (text: LongText): boolean => {
  if (typeof text !== "string") return true;
  const { report, commit } = readEnd(text);
  return commit !== undefined && report !== "";
};
