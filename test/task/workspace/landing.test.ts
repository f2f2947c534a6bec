import { expect, test } from "vitest";
import { endUnfinishedLanding } from "../../../src/task/workspace/landing.ts";

/** Whose landing a Task ends that finds the project locked. */

type Deps = Parameters<typeof endUnfinishedLanding>[0];

/** `log`: the Tasks of the log. `here`: those with files in this data folder. */
const ends = async ({ log, here }: { log: string[]; here: string[] }): Promise<unknown[]> => {
  const asked: unknown[] = [];
  const deps = {
    store: {
      state: async (stream: string) => (log.includes(stream) ? { landingStarted: null } : undefined),
      read: async () => [],
      blobs: {},
    },
    workspaces: {
      unfinishedLanding: () => "task_other",
      isKnown: (taskID: string) => here.includes(taskID),
      endLanding: async (...given: unknown[]) => asked.push(given),
    },
  } as unknown as Deps;
  await endUnfinishedLanding(deps, "task_own");
  return asked;
};

test("a dead landing of another node is ended in this Task's project, where the log knows it; control: here, and nowhere", async () => {
  const ended = [["task_other", undefined, "its Task has ended", "task_own"]];
  expect(await ends({ log: ["task_other"], here: [] })).toEqual(ended);
  expect(await ends({ log: [], here: ["task_other"] })).toEqual(ended);
  // Of a service with another log: what it began is not known.
  expect(await ends({ log: [], here: [] })).toEqual([]);
});
