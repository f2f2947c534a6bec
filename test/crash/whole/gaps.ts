import type { MissionStep } from "../../../src/domain/mission/next.ts";
import type { Step } from "../../../src/domain/task/next/step.ts";
import type { EventType } from "../../../src/protocol/event/event.ts";

/**
 * What the sweep's three runs do not meet, and the test that does. `killed`: that test kills the service around it, or
 * the sweep's own followers bring it after a kill. Where it is false nobody dies there yet. What is met may not stand
 * here, and whatever is neither here nor met makes the sweep fail.
 */
type Gap = { because: string; test: string; killed: boolean };

const never = (because: string, test: string): Gap => ({ because, test, killed: false });
const elsewhere = (because: string, test: string): Gap => ({ because, test, killed: true });
const caller = "one commit for a caller, with no step of its own";
const model = "needs a provider that fails or a long conversation";
const tests = "the change has no tests";
const forge = "needs a repository by address whose host has a forge";
const kept = "needs another Task than one that comes to a good end at once";

/** By name of each step there is, so that a new one does not compile before it stands here. */
export const taskSteps: Readonly<Record<Step["kind"], "met" | Gap>> = {
  done: "met",
  recover: "met",
  ask: "met",
  approve: "met",
  renew: elsewhere("a message that comes while it lands: the follower `queue`", "test/crash/whole/whole.test.ts"),
  baseline: "met",
  turn: "met",
  wait: elsewhere(model, "test/crash/task-seldom.test.ts"),
  commit: "met",
  refuse: "met",
  check: "met",
  contrast: elsewhere(tests, "test/crash/contrast.test.ts"),
  "contrast-same": elsewhere(tests, "test/crash/hindered.test.ts"),
  sources: elsewhere("the Task changes files", "test/crash/hindered.test.ts"),
  output: elsewhere("no output is wanted", "test/crash/output.test.ts"),
  revert: elsewhere("the Task takes nothing back", "test/crash/revert.test.ts"),
  merge: "met",
  propose: elsewhere("the Task has checks of its own", "test/crash/seldom.test.ts"),
  compare: elsewhere("the Task has checks of its own", "test/crash/seldom.test.ts"),
  feedback: "met",
  review: "met",
  revise: "met",
  accept: "met",
  land: "met",
  "see-request": elsewhere(forge, "test/crash/pull-request.test.ts"),
  "open-request": elsewhere(forge, "test/crash/pull-request.test.ts"),
  install: "met",
  settle: "met",
};

export const missionSteps: Readonly<Record<MissionStep["kind"], "met" | Gap>> = {
  recover: "met",
  approve: "met",
  ask: "met",
  wait: elsewhere(model, "test/crash/hindered.test.ts"),
  pass: elsewhere("its agent passes the question on first", "test/crash/task-ask.test.ts"),
  pause: elsewhere("has no budget", "test/crash/mission-seldom.test.ts"),
  remind: elsewhere("the rules do not stop in the middle", "test/crash/mission-seldom.test.ts"),
  tell: elsewhere("the rules do not stop in the middle", "test/crash/mission-seldom.test.ts"),
  repetition: elsewhere("the rules do not repeat themselves", "test/crash/hindered.test.ts"),
  unpriced: elsewhere("has no budget", "test/crash/hindered.test.ts"),
  propose: elsewhere(forge, "test/crash/mission-branch.test.ts"),
  judge: elsewhere("the rules' work is judged by nobody", "test/crash/verdict.test.ts"),
  merge: elsewhere("lands on the project's branch", "test/crash/own-branch.test.ts"),
  turn: "met",
  sleep: "met",
};

export const events: Readonly<Partial<Record<EventType, Gap>>> = {
  "mission.proposed": elsewhere(forge, "test/crash/mission-branch.test.ts"),
  "mission.unmerged": elsewhere("lands on the project's branch", "test/crash/own-branch.test.ts"),
  "mission.judging": elsewhere("the rules' work is judged by nobody", "test/crash/verdict.test.ts"),
  "mcp.listed": elsewhere("no MCP server is configured", "test/crash/mcp.test.ts"),
  "environment.given": elsewhere("the project asks for none", "test/crash/task-seldom.test.ts"),
  "mcp.asked": elsewhere("the project asks for none", "test/crash/hindered.test.ts"),
  "output.given": elsewhere("no output is wanted", "test/crash/output.test.ts"),
  "output.refused": elsewhere("no output is wanted", "test/crash/output.test.ts"),
  "contrast.finished": elsewhere(tests, "test/crash/contrast.test.ts"),
  "landing.proposed": elsewhere(forge, "test/crash/pull-request.test.ts"),
  "checkpoint.kept": elsewhere("one node keeps none", "test/nodes/takeover.test.ts"),
  "workspace.moved": elsewhere("one node takes nothing over", "test/nodes/takeover.test.ts"),
  "run.stopped": elsewhere("an orderly stop is no kill", "test/crash/landing.test.ts"),
  "run.stuck": elsewhere("a step that records nothing is a fault", "test/crash/stuck.test.ts"),
  "run.paused": elsewhere("needs a full disk", "test/crash/outside.test.ts"),
  "run.resumed": elsewhere("needs a full disk", "test/crash/outside.test.ts"),
  "reply.retried": elsewhere(model, "test/crash/seldom.test.ts"),
  "task.deferred": elsewhere(model, "test/crash/task-seldom.test.ts"),
  "model.switched": elsewhere(model, "test/crash/task-seldom.test.ts"),
  "message.passed": elsewhere(
    "the message comes while nobody that was delegated to is at work",
    "test/crash/task-seldom.test.ts",
  ),
  "commit.described": elsewhere("its agent says what the commit is", "test/crash/seldom.test.ts"),
  "permissions.read": elsewhere("the rules are the operator's", "test/crash/seldom.test.ts"),
  "agent.attached": elsewhere("needs an external agent", "test/crash/outside.test.ts"),
  "dependencies.given": elsewhere("needs a folder of dependencies", "test/crash/task-seldom.test.ts"),
  "checks.found": elsewhere("the Task has checks of its own", "test/crash/seldom.test.ts"),
  "landing.conflicted": elsewhere(kept, "test/crash/task-seldom.test.ts"),
  "landing.withdrawn": elsewhere(kept, "test/crash/landing.test.ts"),
  "git.tampered": elsewhere(kept, "test/crash/hindered.test.ts"),
  "budget.warned": elsewhere("has no budget", "test/crash/seldom.test.ts"),
  "task.watched": elsewhere("the rules set no time", "test/crash/mission-seldom.test.ts"),
  "task.overdue": elsewhere("the rules set no time", "test/crash/mission-seldom.test.ts"),
  "checks.replaced": elsewhere("the rules send no messages", "test/crash/task-ask.test.ts"),
  "ask.reminded": elsewhere("an hour goes by before somebody is reminded", "test/crash/approval.test.ts"),
  "approval.moved": elsewhere(kept, "test/crash/task-seldom.test.ts"),
  "task.abandoned": elsewhere(kept, "test/crash/give-up.test.ts"),
  "slice.defined": elsewhere("the Task is one slice", "test/crash/seldom.test.ts"),
  "slice.revised": elsewhere("the Task is one slice", "test/crash/seldom.test.ts"),
  "slice.ordered": elsewhere("the Task is one slice", "test/crash/seldom.test.ts"),
  "slice.dropped": elsewhere("the Task is one slice", "test/crash/seldom.test.ts"),
  "session.interrupted": elsewhere(caller, "test/crash/task-seldom.test.ts"),
  "check.judged": elsewhere("the check is a command", "test/crash/task-seldom.test.ts"),
  "plan.written": never("written by services before phases were facts", "test/domain/mission/plan.test.ts"),
  "phase.dropped": elsewhere("the rules only add", "test/crash/mission-seldom.test.ts"),
  "plan.ordered": elsewhere("the rules only add", "test/crash/mission-seldom.test.ts"),
  "mission.updated": elsewhere(caller, "test/crash/mission-seldom.test.ts"),
  "mission.aborted": elsewhere("the followers `cancel` and `delete`", "test/crash/whole/whole.test.ts"),
  "mission.reminded": elsewhere("the rules do not stop in the middle", "test/crash/mission-seldom.test.ts"),
  "mission.paused": elsewhere("has no budget", "test/crash/mission-seldom.test.ts"),
  "mission.stalled": elsewhere("the rules do not stop in the middle", "test/crash/mission-seldom.test.ts"),
  "mission.waiting": elsewhere("the rules set no time", "test/crash/mission-seldom.test.ts"),
  "task.messaged": elsewhere("nobody writes to its Tasks", "test/crash/mission-seldom.test.ts"),
  "task.reopened": elsewhere("the rules send no messages", "test/crash/mission-seldom.test.ts"),
  "task.reserved": elsewhere("has no budget", "test/crash/mission-seldom.test.ts"),
  "squad.refused": elsewhere(kept, "test/crash/outside.test.ts"),
  "cancel.requested": elsewhere("the followers `cancel` and `delete`", "test/crash/random.test.ts"),
};
