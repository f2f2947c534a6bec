import { expect, test } from "vitest";
import { activityOf, activityText } from "../../src/domain/conversation/activity.ts";
import { emptyConversation, type ChatMessage } from "../../src/domain/conversation/message.ts";

/** What an agent that gave work away is told of what was done, beside the words. */

const turn = (
  at: number,
  tool: string,
  input: object,
  result: { outcome?: "ok" | "error"; exitCode?: number | null } = {},
) =>
  [
    { role: "assistant", messageID: `m${at}`, version: at, text: "", calls: [{ callID: `c${at}`, tool, input }] },
    {
      role: "tool",
      results: [
        { callID: `c${at}`, tool, outcome: result.outcome ?? "ok", output: "", exitCode: result.exitCode ?? null },
      ],
    },
  ] as ChatMessage[];

const text = (said: ChatMessage[]) => activityText(activityOf({ ...emptyConversation(), said }));

test("the files that tools changed, once each, and the commands with their ends; reading and failing change nothing", () => {
  const patch = "*** Begin Patch\n*** Update File: src/b.ts\n@@\n-x\n+y\n*** Add File: new c.ts\n+z\n*** End Patch";
  expect(
    text([
      ...turn(1, "read", { path: "src/never.ts" }),
      ...turn(2, "write", { path: "src/a.ts", content: "" }),
      ...turn(3, "edit", { file_path: "src/a.ts", edits: [] }),
      ...turn(4, "edit", { path: "src/failed.ts", edits: [] }, { outcome: "error" }),
      ...turn(5, "apply_patch", { patch }),
      ...turn(6, "shell", { command: "npm test\n" }, { exitCode: 1 }),
      ...turn(7, "shell", { command: "sleep 1000" }),
    ]),
  ).toBe(
    "Files it changed with tools: src/a.ts, src/b.ts, new c.ts.\nCommands it ran:\n- `npm test` exit 1\n- `sleep 1000` did not exit",
  );
});

test("much of it is bounded, and nothing is nothing", () => {
  expect(text([])).toBe("");
  const many = Array.from({ length: 100 }, (_, at) => [
    ...turn(2 * at, "write", { path: `file-${at}`, content: "" }),
    ...turn(2 * at + 1, "shell", { command: `echo ${"x".repeat(1000)}` }, { exitCode: 0 }),
  ]).flat();
  const said = text(many);
  expect(said).toContain(", and 70 more.");
  expect(said).toContain("Commands it ran, the last 8 of 100:");
  expect(said.length).toBeLessThan(2_500);
});
