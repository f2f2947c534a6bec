import type { Recorded } from "../event.ts";
import { rootOf } from "../state/stream.ts";
import type { TaskState } from "../state/task.ts";

/** The agent's report of its work: its last words, unless they answer what the service sent back. */

const ofService: ReadonlySet<string> = new Set(["checks", "review", "landing", "permissions"]);

/** Whether what the agent says next is about what the service sent back, and not about the work. */
export const answersService = (source: string): boolean => ofService.has(source);

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
