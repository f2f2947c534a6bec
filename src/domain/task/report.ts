import { ofService } from "../../protocol/event/source.ts";
import type { EventData } from "../../protocol/event/event.ts";
import type { Recorded } from "../event.ts";
import { rootOf } from "../state/stream.ts";
import type { TaskState } from "../state/task.ts";

/** The agent's report of its work: its last words, unless they answer what the service sent back. */

/** Whether what the agent says next is about what the service sent back, and not about the work. */
export const answersService = (data: EventData["message.received"]): boolean => {
  const source = ofService(data);
  return source !== undefined && source !== "contrast" && source !== "sources" && source !== "node";
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
