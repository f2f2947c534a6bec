import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { createRepeats, lacksDescriptors } from "../../src/engine/transient-failure.ts";

const coded = (code: string) => Object.assign(new Error(`${code}: it failed, open '/a'`), { code });

test.each([
  ["of this process", coded("EMFILE"), true],
  ["of the machine", coded("ENFILE"), true],
  ["wrapped", new Error("it failed", { cause: coded("EMFILE") }), true],
  ["by its words", new Error("git status was not started: spawn bash EMFILE"), true],
  [
    "of a program",
    new Error("git read-tree ended with exit code 128: fatal: unable to open: Too many open files"),
    true,
  ],
  ["control: no right to it", coded("EACCES"), false],
  ["control: a longer word", new Error("open NOTEMFILES"), false],
  ["control: no error", "EMFILE", false],
])("want of descriptors, %s", (_what, error, expected) => {
  expect(lacksDescriptors(error)).toBe(expected);
});

test("what the system says when there are none is known as that", () => {
  const script = `
    const fs = require("node:fs");
    try { for (;;) fs.openSync("/dev/null"); } catch (error) { console.log(error.message); }`;
  const { stdout } = spawnSync("bash", ["-c", `ulimit -n 64; exec "$0" -e "$1"`, process.execPath, script], {
    encoding: "utf8",
  });
  expect(stdout).not.toBe("");
  expect(lacksDescriptors(new Error(stdout))).toBe(true);
});

test("so many runs in a row begin anew, each stream for itself; one that ends otherwise begins the count anew", async () => {
  const repeats = createRepeats(
    (error) => (error === "passes" ? 2 : 0),
    (error) => `it ${String(error)}`,
  );
  const recorded: unknown[] = [];
  const record = (events: unknown[]) => Promise.resolve(recorded.push(...events));
  const ends = async (errors: string[], stream = "task_1") => {
    const again: boolean[] = [];
    for (const error of errors) again.push(await repeats.begin(stream)(error, record));
    return again;
  };
  expect(await ends(["passes", "passes", "passes", "passes"])).toEqual([true, true, false, true]);
  // Of those that begin anew alone.
  expect(recorded).toEqual([1, 2, 3].map(() => ({ type: "run.stopped", data: { reason: "it passes" } })));
  expect(await ends(["passes"], "task_2")).toEqual([true]);
  expect(await ends(["passes", "lasts", "passes", "passes"])).toEqual([true, false, true, true]);
  // One that ended well.
  repeats.begin("task_1");
  expect(await ends(["passes", "passes", "passes"])).toEqual([true, true, false]);
});
