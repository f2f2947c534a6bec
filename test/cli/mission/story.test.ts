import { expect, test } from "vitest";
import { createStory } from "../../../src/cli/mission/story.ts";
import type { DomainEvent } from "../../../src/domain/event.ts";
import { dispatched } from "../../harness/mission-log.ts";

/** A Mission's log as its story, event by event; over the wire: test/service/cli/mission-log.test.ts. */

test("what a person wrote to a Task stands in it, under the Task's title", () => {
  const story = createStory();
  const tell = (event: DomainEvent) => story({ ...event, id: 1, at: "2026-11-21T08:00:00.000Z" });
  tell(dispatched("one"));
  const written = { sessionID: "ses_1", taskID: "task_one", messageID: "msg_1", phase: "a", title: "Task one" };
  expect(
    tell({ type: "task.messaged", data: { ...written, text: "Tabs, everywhere.\nAnd more.", disposition: "steered" } }),
  ).toMatchObject({ lead: 'A message to Task "Task one"', rest: expect.stringContaining("Tabs, everywhere.") });
});
