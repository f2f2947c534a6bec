import { expect, test } from "vitest";
import { promptChange } from "../../../src/agent/prompt/change.ts";

/** What an agent is told of its prompt when its Task goes on. */

const checks = "- Acceptance checks, run by the service when you are done:";
const prompt = (lines: readonly string[], after = "") =>
  ["You carry out a Task.", "How you work\n- Read first.", ["This Task", ...lines].join("\n"), after]
    .filter((part) => part !== "")
    .join("\n\n");

test("a line stands under its heading, a list that was changed is whole, and what is gone is said", () => {
  const before = prompt([
    "- It begins at commit a.",
    checks,
    "  - `npm test` (test)",
    "  - `file notes.md` is there (file)",
  ]);
  const now = prompt(["- It begins at commit b.", checks, "  - `npm test` (test)", "  - `node -p 1` (command)"]);
  expect(promptChange(before, now)).toBe(
    `Of what you were told, this is different now:
This Task
- It begins at commit b.
${checks}
  - \`npm test\` (test)
  - \`node -p 1\` (command)

Of what you were told, this holds no more:
This Task
${checks}
  - \`file notes.md\` is there (file)`,
  );
});

test("of a list from which something was only taken, the rest is told; of one that is gone, that it is", () => {
  const before = prompt([checks, "  - `npm test` (test)", "  - `npm run lint` (lint)"]);
  expect(promptChange(before, prompt([checks, "  - `npm test` (test)"]))).toBe(
    `Of what you were told, this is different now:
This Task
${checks}
  - \`npm test\` (test)

Of what you were told, this holds no more:
This Task
${checks}
  - \`npm run lint\` (lint)`,
  );
  expect(promptChange(before, prompt([]))).toBe(
    `Of what you were told, this holds no more:
This Task
${checks}
  - \`npm test\` (test)
  - \`npm run lint\` (lint)`,
  );
});

test("a section of its own has its heading; control: where nothing changed, there is nothing to say", () => {
  const skills = (...names: string[]) =>
    ["Skills of this project.", ...names.map((name) => `- ${name}: of use`)].join("\n");
  const change = promptChange(
    prompt([], skills("one", "two")),
    prompt(["- At its root: a.txt"], skills("one", "three")),
  );
  expect(change).toBe(
    `Of what you were told, this is different now:
This Task
- At its root: a.txt
Skills of this project.
- three: of use

Of what you were told, this holds no more:
Skills of this project.
- two: of use`,
  );
  expect(promptChange(prompt([checks]), prompt([checks]))).toBeUndefined();
});
