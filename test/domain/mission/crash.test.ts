import { expect, test } from "vitest";
import type { DomainEvent } from "../../../src/domain/event.ts";
import { missionLog, woken } from "../../harness/mission-log.ts";

/** Which runs of a Mission count as deaths of the service in the middle of its calls. */

const begun = (worker: string): DomainEvent => ({
  type: "run.started",
  data: { worker, epoch: 1, sandbox: { tier: 3, name: "process-group", network: true }, killed: [] },
});
const call: DomainEvent = {
  type: "tool.started",
  data: { callID: "call_1", sessionID: "ses_1", tool: "task_status", input: {}, effect: "none" },
};

test("a run after another of the same process is none, as after an outage; control: one of the next process", () => {
  const log = missionLog();
  log.add(...woken(), begun("one"), call);
  const crashes = (worker: string) => {
    log.add(begun(worker));
    return log.state().crashes;
  };
  expect(["one", "one", "two", "two", "three"].map(crashes)).toEqual([0, 0, 1, 1, 2]);
});
