import pc from "picocolors";
import { expect, test } from "vitest";
import { createTree } from "../../src/cli/task/tree.ts";
import type { Frame } from "../../src/protocol/event/frame.ts";

/** How a Task's lines stand below each other on a terminal. */

const draw = (width: number, text: string): string[] => {
  const tree = createTree({ colors: pc.createColors(false), width });
  const event = { id: 1, type: "run.resumed", taskID: "task_1", at: "2026-01-31T00:00:00Z", data: {} };
  return tree(event as unknown as Frame)(text, "   1.0 s")
    .split("\n")
    .slice(1);
};

test("what is broken off a line begins where its words begin, also of an item of a list", () => {
  const report =
    "Orchestrator:\n  Totals no longer drift, in any of the three files.\n\n  - Three new tests cover invoices and refunds.\n  - Yes.";
  expect(draw(50, report)).toEqual([
    "│    1.0 s  Orchestrator:",
    "│              Totals no longer drift, in any of",
    "│              the three files.",
    "│            ",
    "│              - Three new tests cover invoices",
    "│                and refunds.",
    "│              - Yes.",
  ]);
  // Control: where there is room, nothing is broken.
  expect(draw(120, report)).toHaveLength(5);
});
