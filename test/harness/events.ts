import type { DomainEvent } from "../../src/domain/event.ts";
import { newID } from "../../src/id.ts";
import type { EventData } from "../../src/protocol/event/event.ts";

/** Valid events for tests, each with everything it needs; a test names only what it is about. */

type Created = DomainEvent & { type: "task.created" };

/** The first event of a Task; the stream is its `taskID`. */
export const created = (overrides: Partial<EventData["task.created"]> = {}): Created => {
  const taskID = overrides.taskID ?? newID("task");
  return {
    type: "task.created",
    data: {
      taskID,
      title: "Make the test pass",
      titleBy: "service",
      request: "Make the test pass",
      productPillar: "code",
      priority: "normal",
      source: "test",
      directory: "/work/project",
      project: overrides.directory ?? "/work/project",
      checks: [],
      attachments: [],
      metadata: {},
      squad: { id: "base", version: "1.0.0", digest: "0".repeat(64), scope: "builtin" },
      model: "builtin/rules-1",
      isolation: "worktree",
      landing: "commit",
      budget: null,
      sessionID: "ses_1",
      agent: "orchestrator",
      ...overrides,
    },
  };
};

/** The end of a Task. */
export const settled = (
  overrides: Partial<EventData["task.settled"]> = {},
): DomainEvent & { type: "task.settled" } => ({
  type: "task.settled",
  data: { lifecycleStatus: "completed", summary: "Done.", ...overrides },
});
