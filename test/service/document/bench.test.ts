import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { sandboxesHere } from "../../harness/sandboxes.ts";
import { isMet, median, type Row, rowOf, tableOf } from "../../../bench/table.ts";
import { night } from "../../harness/night.ts";

/**
 * The bench's smoke run: every figure is measured and printed, at night alone. Nothing is judged by it, the
 * machine is busy here.
 */

const bench = fileURLToPath(new URL("../../../bench/bench.ts", import.meta.url));
const run = promisify(execFile);

describe("npm run bench", () => {
  // At night alone: nothing is judged by these figures, and they take 14 s.
  if (night)
    test("measures every figure and prints one table", {
      timeout: 900_000,
    }, async () => {
      const { stdout } = await run(process.execPath, [bench, "--quick"], {
        timeout: 890_000,
      });
      const lines = stdout.split("\n");
      const [head = "", rule = "", ...rest] = lines.slice(lines.findIndex((line) => line.startsWith("figure ")));
      expect(head.split(/ {2,}/)).toEqual(["figure", "unit", "sortie", "floor", "ratio", "goal", "met", "note"]);
      expect(rule).toMatch(/^[- ]+$/);
      const rows = rest.slice(0, rest.indexOf(""));
      const figures = rows.map((row) => row.slice(0, head.indexOf("unit")).trim());
      const first = ["a step: shell true", "a step: read"];
      const tiers = (await sandboxesHere()).map(({ tier }) => tier);
      expect(figures).toEqual([
        ...first,
        "steps 10-60 against 10-50",
        "10 Tasks x 5 shell, 10 at a time",
        "10 Tasks x 5 shell, worktrees",
        "POST to 202",
        "POST to the first model request",
        "SSE: event to reader",
        "token to reader, ten Tasks at work",
        "the same, 95 of 100",
        "event to each of 100 readers, 99 of 100",
        "event to the reader of each of 100 Tasks, 99 of 100",
        "status reads",
        "memory, idle",
        "memory, 1 waiting on the model",
        "memory, 10 waiting on the model",
        "cold start to the first 200",
        "archive of 3 MB",
        "a worktree: 500 files, clean",
        "a landing: 500 files, clean",
        "a worktree: 500 files, 70 uncommitted",
        "a landing: 500 files, 70 uncommitted",
        "kill -9, start, 5 Tasks resumed",
        "a step at turn 10",
        "a step before the first summary",
        "a step before the last summary",
        "memory up to the last summary",
        "prompt of the first request",
        ...tiers.map((tier) => `a command in tier ${tier}`),
        ...(tiers.includes(1) ? ["a Task's first command in tier 1"] : []),
        ...tiers.map((tier) => `a command in tier ${tier}, parent of 256 MB`),
        ...(tiers.includes(1) ? ["node_modules of 4000 files mounted"] : []),
        "node_modules of 4000 files copied",
        "a delegated session of one reply",
        "status of a Task with 150 events",
        "board of a Task with 150 events",
        "catalog of 50 squads, first",
        "catalog of 50 squads, again",
        "wake to the Mission's first model request",
        "a Task's end to its Mission's next model request",
        "a list of 200 with 50 Missions",
        "a status with 50 Missions",
        "repository of 200 files, first fetch and files",
        "repository of 200 files, ten Tasks fetch at once",
        "repository of 200 files, push",
        "repository of 200 files, ten Tasks of two commands at once",
        "webhook: a Task's end to the receiver",
        "a step: read, beside a webhook",
      ]);
      // The columns are of one width, so a figure is where its title is, at the right.
      const right = head.indexOf("sortie") + "sortie".length;
      for (const row of rows) expect(Number(row.slice(right - 8, right))).toBeGreaterThan(0);
    });

  if (night)
    test("measures what it is told to alone", { timeout: 300_000 }, async () => {
      const { stdout } = await run(process.execPath, [bench, "--quick", "--only", "step,events,cold"], {
        timeout: 290_000,
      });
      const lines = stdout.split("\n");
      const [head = "", , ...rest] = lines.slice(lines.findIndex((line) => line.startsWith("figure ")));
      const figures = rest.slice(0, rest.indexOf("")).map((row) => row.slice(0, head.indexOf("unit")).trim());
      expect(figures).toEqual([
        "a step: shell true",
        "a step: read",
        "SSE: event to reader",
        "cold start to the first 200",
      ]);
    });

  test("refuses a figure that there is not", async () => {
    await expect(run(process.execPath, [bench, "--only", "step,speed"])).rejects.toMatchObject({
      code: 64,
      stderr: expect.stringMatching(/^Expected --only with some of step, .*, got speed\.\n$/) as string,
    });
  });
});

describe("how a figure is judged", () => {
  const row = (service: number, floor: number, goal: NonNullable<Row["goal"]>): Row =>
    rowOf("x", "ms", [{ service, floor }], { goal });

  test.each([
    [row(400, 1, { kind: "atMost", value: 400 }), true],
    [row(401, 1, { kind: "atMost", value: 400 }), false],
    [row(5, 2, { kind: "overFloor", value: 3 }), true],
    [row(5.1, 2, { kind: "overFloor", value: 3 }), false],
    [row(10, 5, { kind: "timesFloor", value: 2 }), true],
    [row(11, 5, { kind: "timesFloor", value: 2 }), false],
    [row(10, 20, { kind: "timesFloorAtLeast", value: 0.5 }), true],
    [row(9, 20, { kind: "timesFloorAtLeast", value: 0.5 }), false],
    [rowOf("x", "ms", [{ service: 1, floor: 1 }]), undefined],
  ])("%#", (given, met) => {
    expect(isMet(given)).toBe(met);
  });

  test("the ratio is the median of the rounds' own", () => {
    const rounds = [
      { service: 10, floor: 5 },
      { service: 30, floor: 10 },
      { service: 100, floor: 100 },
    ];
    expect(rowOf("x", "ms", rounds)).toMatchObject({ service: 30, floor: 10, ratio: 2 });
    expect(median([4, 1, 3, 2])).toBe(2.5);
    expect(() => median([])).toThrow("at least one");
  });

  test("a goal that is not met stands out", () => {
    const table = tableOf([row(11, 5, { kind: "timesFloor", value: 2 }), row(9, 5, { kind: "timesFloor", value: 2 })]);
    expect(table.split("\n").map((line) => / (NO|yes)$/.exec(line)?.[1])).toEqual([undefined, undefined, "NO", "yes"]);
  });
});
