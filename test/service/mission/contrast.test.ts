import { afterAll, beforeAll, expect, test } from "vitest";
import {
  dispatch,
  finish,
  openStage,
  plan,
  restOf,
  type Say,
  type Stage,
  taskIn,
  turns,
  wake,
} from "../../harness/double/missions.ts";

/**
 * A Task that goes on because its Mission said so: which proof by contrast that hears of, and what the reviewer reads.
 */

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
});
afterAll(() => stage[Symbol.asyncDispose]());

const write = (path: string, content: string) => ({ tool: "write", input: { path, content } });
const testOf = (name: string, file: string) =>
  `import assert from "node:assert";\nimport test from "node:test";\nimport { ${name} } from "./${file}";\ntest("${name}", () => assert.equal(${name}(2, 2), 4));\n`;

test("the proof is of the newest attempt, not of the first; the reviewer reads what the Mission said", async () => {
  const told: string[] = [];
  const briefs: string[] = [];
  stage.heard = ({ first }) => {
    if (first.startsWith("# What was asked for\n")) briefs.push(first);
  };
  const hear =
    (turn: Say): Say =>
    (at, request, newest) => {
      told.push(newest);
      return turn(at, request, newest);
    };
  stage.play("twice", {
    mission: turns(
      { calls: [plan("a"), dispatch("a", "Make it. [twice]", { checks: ["node --test"] })] },
      { text: "It runs." },
      hear((_turn, _request, newest) => {
        const task = taskIn(newest);
        return { calls: [{ tool: "task_message", input: { task, text: "Now mend `add`." } }] };
      }),
      hear(() => ({ calls: [finish("done", "Both.")] })),
    ),
    task: (turn) =>
      [
        // On the base the new test finds no file.
        {
          calls: [
            write("double.mjs", "export const double = (a, b) => a * b;\n"),
            write("double.test.mjs", testOf("double", "double.mjs")),
          ],
        },
        { text: "Made." },
        {
          calls: [
            write("add.mjs", "export const add = (a, b) => a + b;\n"),
            write("add.test.mjs", testOf("add", "add.mjs")),
          ],
        },
        { text: "Mended." },
      ][turn] ?? { text: "Nothing more." },
  });
  const directory = stage.project({
    "package.json": JSON.stringify({ type: "module", scripts: { test: "node --test" } }),
    "add.mjs": "export const add = (a, b) => a - b;\n",
  });
  const { missionID } = await wake(stage.service.url, directory, { text: "Make both. [twice]" });
  await restOf(stage.service.url, directory, missionID);
  const lines = told.map((text) => /^Contrast: .*$/m.exec(text)?.[0] ?? "none");
  expect(lines).toEqual([expect.stringContaining("cannot tell"), expect.stringContaining("proves the change")]);
  expect(briefs).toHaveLength(2);
  expect(briefs[0]).not.toContain("Now mend");
  expect(briefs[1]).toMatch(
    /\n# What was said later, in order; later words win[^\n]*\n\n<data from="a message from mission">\nNow mend `add`\.\n<\/data>\n/,
  );
});
