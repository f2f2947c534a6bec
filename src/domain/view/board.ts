import type { Message, TaskBoard, TimelineEntry } from "../../protocol/task/board.ts";
import type { Artifact, TaskStatus } from "../../protocol/task/status.ts";

/** The board: messages with their calls, and a timeline of the newest events. */

export const boardOf = (parts: {
  status: TaskStatus;
  columns: TaskBoard["columns"];
  request: string;
  messages: Message[];
  total: number;
  artifacts: Artifact[];
  timeline: TimelineEntry[];
  generatedAt: string;
}): TaskBoard => {
  const { status, columns, request, messages, total, artifacts, timeline, generatedAt } = parts;
  return {
    task: status,
    request,
    columns,
    conversation: { messages, total },
    sessions: status.sessionInvocationTopology.nodes,
    checks: status.checks,
    artifacts,
    git: status.git,
    pending: status.pending,
    timeline,
    usage: status.usage,
    lastEventID: status.lastEventID,
    generatedAt,
  };
};
