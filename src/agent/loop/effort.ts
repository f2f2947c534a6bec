import { isMission } from "../../domain/event.ts";
import type { Effort } from "../../protocol/field.ts";
import type { AgentSession } from "../session.ts";

/** The effort asked for in this session: the Task's word counts before its agent's, and both before the operator's. */
export const effortOf = (turn: AgentSession): { effort?: Effort } => {
  const effort = (isMission(turn.stream) ? null : turn.task().effort) ?? turn.agent.effort;
  return effort === undefined ? {} : { effort };
};
