import { isMission } from "../../domain/event.ts";
import type { Effort } from "../../protocol/field.ts";
import type { AgentSession } from "../session.ts";

/** The effort asked for in this session: the Task's word counts before its agent's, and both before the operator's. */
export const effortOf = (session: AgentSession): { effort?: Effort } => {
  const effort = (isMission(session.stream) ? null : session.task().effort) ?? session.agent.effort;
  return effort === undefined ? {} : { effort };
};
