import { isMission } from "../../domain/event.ts";
import type { Effort } from "../../protocol/field.ts";
import type { AgentSession } from "../session.ts";

/**
 * The effort to request in this session: the Task's setting takes precedence over the agent's, and both over the
 * operator's.
 */
export const effortOf = (session: AgentSession): { effort?: Effort } => {
  const effort = (isMission(session.stream) ? null : session.task().effort) ?? session.agent.effort;
  return effort === undefined ? {} : { effort };
};
