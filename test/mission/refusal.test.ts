import { describe, expect, test } from "vitest";
import { shareOf } from "../../src/domain/mission/grant.ts";
import type { MissionState } from "../../src/domain/state/mission.ts";
import { noUsage } from "../../src/domain/state/stream.ts";
import { approvalRefusal, budgetRefusal, phaseRefusal, phaseIDs } from "../../src/mission/tool/refusal.ts";
import { dispatched, type MissionLog, missionLog, phase, taskEnded, woken } from "../harness/mission-log.ts";

/** What the Mission's agent reads where nothing is dispatched: what stands in the way, and what it can do next. */

const planned = (...phases: ReturnType<typeof phase>[]): MissionLog => {
  const log = missionLog();
  log.add(...woken(), { type: "plan.written", data: { sessionID: "ses_1", callID: "call_p", phases } });
  return log;
};
const b = { ...phase("b"), after: ["a"] as never[] };
const barOf = (state: MissionState, id: string, brief = "new") => {
  const found = state.plan.find((one) => one.id === id);
  return found === undefined ? "no such phase" : phaseRefusal(state, found, brief);
};
const ends = (log: MissionLog, outcome: "completed" | "failed", tokens = 0) => {
  const task = log.state().tasks.at(-1);
  if (task === undefined) throw new Error("no Task");
  return log.add(taskEnded(task, outcome, { ...noUsage, inputTokens: tokens }));
};

describe("a phase", () => {
  test("that runs, has a squad made, is done or starts from others says what to do; one that is ready may go", () => {
    const log = planned(phase("a"), b);
    expect(barOf(log.state(), "a")).toBeUndefined();
    expect(barOf(log.state(), "b")).toBe(
      "Phase b starts from a (ready), which is not done. Dispatch what is ready first.",
    );
    log.add(dispatched("one", { production: { identity: "squad-sdk", squad: "crew" } }));
    expect(barOf(log.state(), "a")).toBe(
      "Phase a waits for a squad that is made for it (Task task_one). You are woken when that ends: dispatch the phase then.",
    );
    ends(log, "completed");
    log.add(dispatched("two"));
    expect(barOf(log.state(), "a")).toBe(
      "Phase a is under way (Task task_two). You are woken when it ends; what is to be different in it, say with `task_message`.",
    );
    expect(barOf(log.state(), "b")).toBe(
      "Phase b starts from a (running), which is not done. You are woken when what runs has ended.",
    );
    ends(log, "failed");
    expect(barOf(log.state(), "b")).toBe(
      "Phase b starts from a (failed), which is not done. Bring that about first, or change `after`.",
    );
    expect(barOf(log.state(), "a", "two")).toBe(
      "Phase a failed with this very brief, as task_two. Read `task_evidence` of that Task, and write a brief that takes up why it failed.",
    );
    expect(barOf(log.state(), "a", "another")).toBeUndefined();
    log.add(dispatched("three"));
    ends(log, "completed");
    expect(barOf(log.state(), "a")).toBe(
      "Phase a is done (Task task_three). What is wrong in it is corrected with `task_message` to that Task; work that comes after it is a phase of its own.",
    );
    expect(barOf(log.state(), "b")).toBeUndefined();
  });

  test("that there is not is answered with those that there are, of a long plan with the first", () => {
    expect(phaseIDs({ plan: [] })).toBe("there is none yet: call plan");
    expect(phaseIDs(planned(phase("a"), b).state())).toBe("a, b");
    const many = Array.from({ length: 500 }, (_, index) => phase(`p${index}`));
    expect(phaseIDs({ plan: many })).toMatch(/^p0, .*, p39 and 460 more, which `task_status` shows$/);
  });
});

test("a budget that leaves nothing says how much of what, and whether waiting helps", () => {
  const log = planned(phase("a"), phase("c"));
  log.add(...woken({ maxTokens: 1000 }));
  const refusal = () => {
    const share = shareOf(log.state(), undefined, { first: true, kept: 15 });
    return share.ok ? "granted" : budgetRefusal(log.state(), share);
  };
  expect(refusal()).toBe("granted");
  log.add(dispatched("one", { reserved: { maxTokens: 850 } }));
  expect(refusal()).toBe(
    "The Mission's cap of 1000 tokens (maxTokens) has 0 left for this Task; 850 are used or reserved, and the rest is kept back for corrections. Running Tasks give back what they do not use: end your turn without a call, and dispatch it when one has ended.",
  );
  ends(log, "completed", 1000);
  expect(refusal()).toBe(
    "The Mission's budget is used up: 1000 of 1000 tokens (maxTokens) are used or reserved. Nothing runs that could give something back: call `finish` with blocked, and say which cap the user has to raise and for what.",
  );
});

test("a plan that a person refused is to be changed; one that they have not seen is asked about", () => {
  const log = planned(phase("a"));
  log.add(...woken(undefined, ["plan"]));
  expect(approvalRefusal(log.state())).toMatch(/^The user approves the plan before anything is dispatched/);
  const asks = {
    askID: "ask_1",
    sessionID: "ses_1",
    callID: null,
    kind: "approval" as const,
    of: "plan" as const,
    would: { subject: "0", commit: null, tree: null, branch: null },
    prompt: "Carry out this plan?",
    options: ["allow", "deny"],
    default: null,
    expiresAt: null,
  };
  log.add({ type: "ask.opened", data: asks });
  const answer = { askID: "ask_1", by: "caller" as const, source: "ada", decision: "deny" as const, answer: "No." };
  log.add({ type: "ask.answered", data: answer });
  expect(approvalRefusal(log.state())).toMatch(
    /^The user did not approve the plan as it stands\. Change it as they said/,
  );
  const changed = { ...phase("a"), objective: "More." };
  log.add({ type: "phase.written", data: { sessionID: "ses_1", callID: "call_q", phase: changed } });
  expect(approvalRefusal(log.state())).toMatch(/^The user approves the plan before anything is dispatched/);
});
