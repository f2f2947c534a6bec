import { describe, expect, test } from "vitest";
import type { DomainEvent } from "../../src/domain/event.ts";
import { cancel } from "../../src/domain/task/cancel.ts";
import { next } from "../../src/domain/task/next/next.ts";
import type { StepPolicy } from "../../src/domain/task/next/step.ts";
import { evolve } from "../../src/domain/task/evolve.ts";
import type { TaskState } from "../../src/domain/state/task.ts";
import { summarise } from "../../src/domain/view/summary.ts";
import type { EventData } from "../../src/protocol/event/event.ts";
import { created } from "../harness/events.ts";

/** Given facts, what happens next, and what commands decide. Ids of Git objects are one letter, forty times. */

const rules: StepPolicy = {
  checkRounds: 3,
  retries: true,
  plans: true,
  reviews: false,
  own: [],
  doubted: [],
  sources: false,
  contrast: true,
  stop: undefined,
};
const git = (letter: string) => letter.repeat(40);
const at = "2026-11-21T08:00:00.000Z";

const check = (overrides: object = {}) => ({
  id: "check-1",
  name: "npm test",
  kind: "test" as const,
  run: "npm test",
  timeoutSeconds: 600,
  required: true,
  baseline: false,
  ...overrides,
});

const fold = (events: readonly DomainEvent[]): TaskState => {
  let state: TaskState | undefined;
  events.forEach((event, index) => {
    const version = index + 1;
    state = evolve(state, { ...event, stream: "task_1", position: version, version, at });
  });
  if (state === undefined) throw new Error("no events");
  return state;
};

const run: DomainEvent = {
  type: "run.started",
  data: { worker: "w", epoch: 1, sandbox: { tier: 3, name: "process-group", network: true }, killed: [] },
};
const worktree: DomainEvent = {
  type: "workspace.prepared",
  data: {
    kind: "worktree",
    root: "/data/worktrees/task_1",
    worktree: "/data/worktrees/task_1",
    branch: "sortie/task_1",
    baseCommit: git("a"),
    baseTree: git("b"),
    targetRef: "refs/heads/main",
  },
};
const reply = (read: number, calls: string[] = [], more: Partial<EventData["reply.finished"]> = {}): DomainEvent => ({
  type: "reply.finished",
  data: {
    messageID: `msg_${read}`,
    sessionID: "ses_1",
    agent: "orchestrator",
    model: "builtin/rules-1",
    read,
    text: "",
    calls,
    finish: calls.length > 0 ? "calls" : "end",
    failure: null,
    usage: { inputTokens: 1, outputTokens: 2, cacheReadTokens: 0, cacheWriteTokens: 0, costUSD: 0.5 },
    durationMs: 1,
    ...more,
  },
});
const started = (callID: string, effect: "none" | "workspace" | "unknown" = "workspace"): DomainEvent => ({
  type: "tool.started",
  data: { callID, sessionID: "ses_1", tool: "write", input: {}, effect },
});
const finished = (callID: string): DomainEvent => ({
  type: "tool.finished",
  data: { callID, sessionID: "ses_1", tool: "write", outcome: "ok", output: "", exitCode: null, durationMs: 1 },
});
const committed = (tree = git("d")): DomainEvent => ({
  type: "tree.committed",
  data: { commit: git("c"), tree, parent: git("a"), files: 1, insertions: 1, deletions: 0, omitted: [] },
});
const checked = (
  state: "passed" | "failed",
  tree: string | null = git("d"),
  on: "base" | "work" = "work",
): DomainEvent => ({
  type: "check.finished",
  data: {
    checkID: "check-1",
    on,
    round: 0,
    commit: tree === null ? null : git("c"),
    tree,
    state,
    exitCode: state === "passed" ? 0 : 1,
    durationMs: 5,
    log: { sha256: "0".repeat(64), bytes: 0 },
    tail: "",
    reason: state === "passed" ? null : "exit 1",
  },
});
const message = (
  source = "api",
  disposition: EventData["message.received"]["disposition"] = "steered",
): DomainEvent => ({
  type: "message.received",
  data: { messageID: "msg_m", sessionID: "ses_1", source, text: "more", attachments: [], disposition },
});
const landing: DomainEvent = {
  type: "landing.started",
  data: { commit: git("c"), tree: git("d"), from: git("a"), ref: "refs/heads/main", paths: [] },
};
const landed: DomainEvent = {
  type: "landing.finished",
  data: { commit: git("c"), tree: git("d"), ref: "refs/heads/main", kept: [] },
};
const settledAs = (lifecycleStatus: "completed" | "failed" | "cancelled"): DomainEvent => ({
  type: "task.settled",
  data: { lifecycleStatus, summary: "" },
});

const plain = created();
const withCheck = created({ checks: [check()] });
/** A worktree Task whose agent wrote a file and finished, its tree committed. */
const worked = [withCheck, run, worktree, reply(1, ["c1"]), started("c1"), finished("c1"), reply(6), committed()];

describe("next", () => {
  const steps: [name: string, events: DomainEvent[], step: object][] = [
    ["a new Task takes its first turn", [plain], { kind: "turn", last: false }],
    [
      "checks with a baseline run before the work",
      [created({ checks: [check({ baseline: true })] }), run],
      { kind: "baseline", checks: [check({ baseline: true })] },
    ],
    ["calls of a dead run are recovered first", [plain, run, reply(1, ["c1"]), started("c1")], { kind: "recover" }],
    [
      "after the calls, the next turn",
      [plain, run, worktree, reply(1, ["c1"]), started("c1"), finished("c1")],
      { kind: "turn", last: false },
    ],
    [
      "what changed files is committed",
      [plain, run, worktree, reply(1, ["c1"]), started("c1"), finished("c1"), reply(6)],
      { kind: "commit" },
    ],
    [
      "what only read needs no commit",
      [plain, run, worktree, reply(1, ["c1"]), started("c1", "none"), finished("c1"), reply(6)],
      { kind: "settle", end: { lifecycleStatus: "completed" } },
    ],
    ["the committed tree is checked", worked, { kind: "check", checks: [check()] }],
    ["green checks land", [...worked, checked("passed")], { kind: "land" }],
    [
      "a result of another tree does not count",
      [...worked, checked("passed", git("e"))],
      { kind: "check", checks: [check()] },
    ],
    [
      "a tree equal to the base does not land",
      [plain, run, worktree, reply(1, ["c1"]), started("c1"), finished("c1"), reply(6), committed(git("b"))],
      { kind: "settle", end: { lifecycleStatus: "completed" } },
    ],
    ["a landing under way is rolled forward", [...worked, checked("passed"), landing], { kind: "land" }],
    [
      "a withdrawn landing is tried again",
      [...worked, checked("passed"), landing, { type: "landing.withdrawn", data: { reason: "moved" } }],
      { kind: "land" },
    ],
    [
      "landed is completed",
      [...worked, checked("passed"), landing, landed],
      { kind: "settle", end: { lifecycleStatus: "completed" } },
    ],
    [
      "a message during the landing starts from the new base",
      [...worked, checked("passed"), landing, message(), landed],
      { kind: "renew" },
    ],
    ["a message before the end is answered", [...worked, checked("passed"), message()], { kind: "turn", last: false }],
    ["settled is done", [plain, run, reply(1), settledAs("completed")], { kind: "done" }],
    [
      "a message to a settled Task is answered",
      [plain, run, reply(1), settledAs("completed"), message("api", "restarted")],
      { kind: "turn", last: false },
    ],
    ["a cut-off reply goes on", [plain, run, reply(1, [], { finish: "length" })], { kind: "turn", last: false }],
    [
      "a wrap-up cancel takes one last turn",
      [
        plain,
        run,
        reply(1, ["c1"]),
        started("c1"),
        finished("c1"),
        { type: "cancel.requested", data: { surface: "api", reason: "", mode: "wrap_up" } },
      ],
      { kind: "turn", last: true },
    ],
    [
      "a cancel settles, whatever is open",
      [
        plain,
        run,
        reply(1, ["c1"]),
        started("c1"),
        { type: "cancel.requested", data: { surface: "api", reason: "no", mode: "stop" } },
      ],
      { kind: "settle", end: { lifecycleStatus: "cancelled", reason: "Cancelled by api: no" } },
    ],
  ];
  test.each(steps)("%s", (_name, events, step) => expect(next(fold(events), rules)).toEqual(step));

  test("red checks go back at most three rounds, then fail", () => {
    const red = [...worked, checked("failed")];
    expect(next(fold(red), rules)).toMatchObject({ kind: "feedback", failed: [{ checkID: "check-1" }] });
    const events = [...red];
    for (let round = 0; round < 3; round++) {
      events.push(message("checks"));
      expect(next(fold(events), rules)).toEqual({ kind: "turn", last: false });
      events.push(reply(events.length));
      expect(next(fold(events), rules)).toMatchObject({ kind: round < 2 ? "feedback" : "settle" });
    }
    expect(next(fold(events), rules)).toMatchObject({
      end: {
        lifecycleStatus: "failed",
        failure: { code: "checks_failed", message: expect.stringContaining("`npm test`, exit 1") },
      },
    });
  });

  test("a model without second attempts fails at the first red check", () => {
    expect(next(fold([...worked, checked("failed")]), { ...rules, retries: false })).toMatchObject({
      kind: "settle",
      end: { lifecycleStatus: "failed" },
    });
  });

  test("an advisory check does not hold the landing", () => {
    const [, ...rest] = worked;
    const events = [created({ checks: [check({ required: false })] }), ...rest, checked("failed")];
    expect(next(fold(events), rules)).toEqual({ kind: "land" });
  });

  test("a cap forbids the next turn, and only that", () => {
    const stop = { code: "budget_reached", message: "limit", retryable: false, remedy: null };
    expect(next(fold([plain, run]), { ...rules, stop })).toEqual({
      kind: "settle",
      end: { lifecycleStatus: "failed", failure: stop },
    });
    expect(next(fold([...worked, checked("passed")]), { ...rules, stop })).toEqual({ kind: "land" });
  });

  test("in place, results hold until the next edit", () => {
    const place: DomainEvent = {
      type: "workspace.prepared",
      data: {
        kind: "directory",
        root: "/p",
        worktree: null,
        branch: null,
        baseCommit: null,
        baseTree: null,
        targetRef: null,
      },
    };
    const events = [
      created({ checks: [check()], isolation: "directory", landing: "none" }),
      run,
      place,
      reply(1, ["c1"]),
      started("c1"),
      finished("c1"),
      reply(6),
    ];
    expect(next(fold(events), rules)).toMatchObject({ kind: "check" });
    events.push(checked("passed", null));
    expect(next(fold(events), rules)).toEqual({ kind: "settle", end: { lifecycleStatus: "completed" } });
    events.push(message(), reply(9, ["c2"]), started("c2"), finished("c2"), reply(12));
    expect(next(fold(events), rules)).toMatchObject({ kind: "check" });
  });

  test("a queued message that its Task did not live to read is read by the next attempt", () => {
    const stop: DomainEvent = { type: "cancel.requested", data: { surface: "api", reason: "", mode: "stop" } };
    const events = [
      plain,
      run,
      reply(1, ["c1"]),
      started("c1"),
      message("api", "queued"),
      stop,
      settledAs("cancelled"),
    ];
    const state = fold([...events, message("api", "restarted"), run, reply(9)]);
    expect(state.queued).toBe(false);
    expect(next(state, rules)).toEqual({ kind: "settle", end: { lifecycleStatus: "completed" } });
  });

  test("a queued message is read when the agent has finished", () => {
    const events = [
      plain,
      run,
      worktree,
      reply(1, ["c1"]),
      message("api", "queued"),
      started("c1", "none"),
      finished("c1"),
    ];
    expect(fold(events).input).toBe(1);
    events.push(reply(7));
    expect(next(fold(events), rules)).toEqual({ kind: "turn", last: false });
    events.push(reply(8));
    expect(next(fold(events), rules)).toEqual({ kind: "settle", end: { lifecycleStatus: "completed" } });
  });
});

describe("cancel", () => {
  const request = { surface: "api", reason: "", mode: "stop" as const };
  test("of a Task that never ran ends it in one commit", () => {
    expect(cancel(fold([plain]), request, at)).toMatchObject({
      kind: "events",
      events: [{ type: "cancel.requested" }, { type: "task.settled", data: { lifecycleStatus: "cancelled" } }],
    });
  });
  test("of a running Task is a request", () => {
    expect(cancel(fold([plain, run]), request, at)).toEqual({
      kind: "events",
      stops: true,
      events: [{ type: "cancel.requested", data: request }],
    });
  });
  test("twice is nothing more", () => {
    expect(cancel(fold([plain, run, { type: "cancel.requested", data: request }]), request, at)).toEqual({
      kind: "nothing",
    });
    expect(cancel(fold([plain, run, settledAs("cancelled")]), request, at)).toEqual({ kind: "nothing" });
  });
  test("of a Task whose node is gone ends it, also where the request is known; not within a landing", () => {
    const gone = (events: readonly DomainEvent[], mode: "stop" | "wrap_up" = "stop") =>
      cancel(fold(events), { ...request, mode }, at, true);
    const settled = { type: "task.settled", data: { lifecycleStatus: "cancelled" } };
    const requested = { type: "cancel.requested", data: request } as const;
    expect(gone([plain, run], "wrap_up")).toMatchObject({ kind: "events", events: [requested, settled], stops: true });
    expect(gone([plain, run, requested])).toMatchObject({ kind: "events", events: [settled], stops: true });
    expect(gone([...worked, checked("passed"), landing])).toEqual({ kind: "landing" });
  });
  test("past the point of no return waits; of a finished Task is refused", () => {
    expect(cancel(fold([...worked, checked("passed"), landing]), request, at)).toEqual({ kind: "landing" });
    expect(cancel(fold([plain, run, settledAs("completed")]), request, at)).toEqual({ kind: "settled" });
    expect(cancel(fold([plain, run, settledAs("failed")]), request, at)).toEqual({ kind: "settled" });
  });
  test("a stop overrides a wrap-up", () => {
    const wrapping = fold([plain, run, { type: "cancel.requested", data: { ...request, mode: "wrap_up" } }]);
    expect(cancel(wrapping, request, at)).toMatchObject({ kind: "events" });
    expect(cancel(wrapping, { ...request, mode: "wrap_up" }, at)).toEqual({ kind: "nothing" });
  });
});

describe("the list row", () => {
  test("status and progress follow the lifecycle", () => {
    expect(summarise(fold([plain, run]))).toMatchObject({
      status: "running",
      lifecycleStatus: "active",
      progress: { total: 1, running: 1, inactive: 0, percent: 100 },
    });
    expect(summarise(fold([plain, run, settledAs("completed")]))).toMatchObject({
      status: "inactive",
      phase: "settled",
      progress: { total: 1, running: 0, inactive: 1, percent: 0 },
    });
  });
  test("error stands for failed and cancelled only", () => {
    expect(summarise(fold([plain, run, settledAs("completed")]))).not.toHaveProperty("error");
    const failed: DomainEvent = {
      type: "task.settled",
      data: {
        lifecycleStatus: "failed",
        summary: "",
        error: "why",
        errorInfo: { code: "x", retryable: false, remedy: null, at },
      },
    };
    expect(summarise(fold([plain, run, failed]))).toMatchObject({ error: "why", errorInfo: { code: "x" } });
    expect(summarise(fold([plain, run, failed, message("api", "restarted")]))).not.toHaveProperty("error");
  });
  test("usage adds up; an unknown price makes the sum unknown", () => {
    expect(fold([plain, run, reply(1), reply(2)]).usage).toMatchObject({
      inputTokens: 2,
      outputTokens: 4,
      costUSD: 1,
      modelCalls: 2,
    });
    const unknown = reply(1, [], {
      usage: { inputTokens: 1, outputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0, costUSD: null },
    });
    expect(fold([plain, run, unknown, reply(2)]).usage.costUSD).toBeNull();
  });
  test("the checked tree is named only while every required check holds on it", () => {
    expect(summarise(fold([...worked, checked("passed")])).git.checkedTree).toBe(git("d"));
    expect(summarise(fold([...worked, checked("failed")])).git.checkedTree).toBeNull();
    expect(summarise(fold([...worked, checked("passed"), committed(git("f"))])).git.checkedTree).toBeNull();
  });
});

describe("the project's own check", () => {
  const own = check({ required: false });
  type Finished = DomainEvent & { type: "check.finished" };
  const result = (
    on: "base" | "work",
    state: "passed" | "failed" | "error",
    more: Partial<EventData["check.finished"]> = {},
  ): DomainEvent => {
    const { type, data } = checked(
      state === "passed" ? state : "failed",
      git(on === "base" ? "b" : "d"),
      on,
    ) as Finished;
    return { type, data: { ...data, state, ...more } };
  };
  const worked = [created(), run, worktree, reply(1, ["c"]), started("c"), finished("c"), reply(6), committed()];
  const found: DomainEvent = { type: "checks.found", data: { checks: [own] } };
  const decide = (...events: DomainEvent[]) => next(fold([...worked, ...events]), { ...rules, own: [own] });

  test("is proposed, run on the work, and compared with the base before it decides", () => {
    expect(decide()).toEqual({ kind: "propose", checks: [own] });
    expect(decide(found)).toEqual({ kind: "check", checks: [own] });
    expect(decide(found, result("work", "failed"))).toEqual({ kind: "compare" });
    expect(decide(found, result("work", "passed"), result("base", "passed"))).toEqual({ kind: "land" });
    expect(decide(found, result("work", "failed"), result("base", "passed"))).toMatchObject({ kind: "feedback" });
  });

  test.each<[why: string, base: DomainEvent, work: DomainEvent]>([
    ["red before", result("base", "failed"), result("work", "failed")],
    ["flaky before", result("base", "passed", { flaky: true }), result("work", "failed")],
    ["could not run before", result("base", "error"), result("work", "failed")],
    ["did not end before", result("base", "failed", { unfinished: true }), result("work", "failed")],
    ["does not end now", result("base", "passed"), result("work", "failed", { unfinished: true })],
    ["cannot run now", result("base", "passed"), result("work", "error")],
  ])("decides nothing: %s", (_why, base, work) => {
    const events = [...worked, found, base, work];
    expect(next(fold(events), { ...rules, own: [own] })).toEqual({ kind: "land" });
    const ended: DomainEvent[] = [
      { type: "landing.finished", data: { commit: git("c"), tree: git("d"), ref: "refs/heads/main", kept: [] } },
      { type: "task.settled", data: { lifecycleStatus: "completed", summary: "" } },
    ];
    expect(summarise(fold([...events, ...ended])).verified).toBe(false);
    // Control: passed before, failed now.
    const both = [...worked, found, result("base", "passed"), result("work", "failed")];
    expect(next(fold(both), { ...rules, own: [own], retries: false })).toMatchObject({
      kind: "settle",
      end: { failure: { code: "checks_failed" } },
    });
  });

  test("is compared anew on another base, and run anew there if it may decide", () => {
    const rebased: DomainEvent = {
      type: "workspace.rebased",
      data: { baseCommit: git("e"), baseTree: git("f"), commit: git("1"), tree: git("2") },
    };
    const before = [found, result("work", "passed"), result("base", "passed"), rebased];
    expect(decide(...before)).toEqual({ kind: "compare" });
    const base = result("base", "passed", { tree: git("f") });
    expect(decide(...before, base)).toEqual({ kind: "check", checks: [own] });
    expect(decide(...before, base, result("work", "passed", { tree: git("2") }))).toEqual({ kind: "land" });
  });

  test("is not run where the request's checks are an empty list", () => {
    const events = [created({ unchecked: true }), ...worked.slice(1)];
    expect(next(fold(events), { ...rules, own: [own] })).toEqual({ kind: "land" });
  });
});

describe("what the Task does now", () => {
  const later = (minutes: number) => `2026-11-21T08:0${minutes}:00.000Z`;
  /** Each fact comes a minute after the one before. */
  const nows = (...events: DomainEvent[]) => {
    let state: TaskState | undefined;
    return events.map((event, index) => {
      const version = index + 1;
      state = evolve(state, { ...event, stream: "task_1", position: version, version, at: later(index) });
      return summarise(state).now;
    });
  };
  const shell: DomainEvent = {
    type: "tool.started",
    data: { callID: "c", sessionID: "ses_1", tool: "shell", input: { command: "npm test\n" }, effect: "unknown" },
  };
  const warned: DomainEvent = { type: "budget.warned", data: { name: "maxSteps", used: 8, cap: 10 } };
  const retried = (seconds: number): DomainEvent => ({
    type: "reply.retried",
    data: {
      sessionID: "ses_1",
      code: "provider_unavailable",
      message: "503",
      attempt: 2,
      attempts: 6,
      retryAt: `2026-11-21T14:03:${seconds}.000Z`,
    },
  });
  const asked: DomainEvent = {
    type: "ask.opened",
    data: {
      askID: "ask_c",
      sessionID: "ses_1",
      callID: "c",
      kind: "question",
      prompt: "Which\none?",
      options: [],
      default: null,
      expiresAt: later(9),
    },
  };

  test("is a sentence with the time of the fact that began it, and null once it has ended", () => {
    const told = nows(
      created(),
      run,
      worktree,
      warned,
      reply(1, ["c"]),
      shell,
      asked,
      { type: "ask.answered", data: { askID: "ask_c", answer: "a", by: "caller", source: "api" } },
      finished("c"),
      { type: "task.settled", data: { lifecycleStatus: "cancelled", summary: "" } },
    );
    const model = { kind: "model", text: "Waiting for builtin/rules-1" };
    const tool = { kind: "tool", text: "Running `npm test`" };
    expect(told).toEqual([
      { kind: "queue", text: "Waiting in the queue", since: later(0) },
      { ...model, since: later(1) },
      { ...model, since: later(1) },
      { ...model, since: later(1) },
      { ...model, since: later(1) },
      { ...tool, since: later(5) },
      { kind: "ask", text: "Waiting for your answer: Which one?", since: later(6) },
      { ...tool, since: later(7) },
      { ...model, since: later(8) },
      null,
    ]);
  });

  test("names a failing provider since when it fails, and when it is tried", () => {
    const told = nows(created({ model: "acme/large" }), run, retried(20), retried(40), reply(1));
    expect(told.slice(2, 4)).toEqual([
      { kind: "provider", text: "Provider acme is failing, next try at 14:03:20 UTC", since: later(2) },
      { kind: "provider", text: "Provider acme is failing, next try at 14:03:40 UTC", since: later(2) },
    ]);
    expect(told[4]?.kind).toBe("work");
  });
});

describe("the agent's report", () => {
  const says = (text: string, read: number) => reply(read, [], { text });

  test("is its last words about its work, not an answer to a reviewer or a failed check", () => {
    const report = (...events: DomainEvent[]) => summarise(fold([created(), run, worktree, ...events])).summary;
    expect(report()).toBeNull();
    const first = [says("It adds pow.", 3), message("review"), says("You are right, mended.", 5)];
    expect(report(...first)).toBe("It adds pow.");
    expect(report(...first, message("api"), says("It adds pow and root.", 7))).toBe("It adds pow and root.");
    expect(report(says("x".repeat(300), 3))).toBe("x".repeat(200));
  });

  test("after a conflict is the one of both versions, where there is one, and no bare answer", () => {
    const report = (...events: DomainEvent[]) => summarise(fold([created(), run, worktree, ...events])).summary;
    const first = [says("The discount is not in my copy yet.", 3), message("landing")];
    expect(report(...first, says("Done.", 5))).toBe("The discount is not in my copy yet.");
    expect(report(...first, says("Commit: Take the discount first", 5))).toBe("The discount is not in my copy yet.");
    const whole = "It takes the discount first.\n\nCommit: Take the discount first";
    expect(report(...first, says(whole, 5))).toContain("It takes the discount first.");
    // Control: of a reviewer's, the report is the one that they read the answer beside.
    expect(report(says("It adds pow.", 3), message("review"), says(whole, 5))).toBe("It adds pow.");
  });
});

describe("what was kept for other nodes", () => {
  const kept = (upTo?: number): DomainEvent => ({
    type: "checkpoint.kept",
    data: {
      commit: git("e"),
      tree: git("f"),
      base: git("a"),
      pack: null,
      ...(upTo === undefined ? {} : { upTo }),
    },
  });
  const moved: DomainEvent = {
    type: "workspace.moved",
    data: { from: "one", to: "two", commit: git("e"), lost: 0 },
  };
  const work = [withCheck, run, worktree, reply(1, ["c1"]), started("c1"), finished("c1")];

  test("has what calls changed up to its version, also where others were recorded since", () => {
    const later = [...work, reply(6, ["c2"]), started("c2")];
    expect(fold([...later, kept(6)]).checkpoint).toMatchObject({ commit: git("e"), version: 6 });
    // Control: a commit's own.
    expect(fold([...later, kept()]).checkpoint?.version).toBe(9);
  });

  test("is kept twice: the newest, and the one before", () => {
    const checkpoint = fold([...work, kept(4), kept(5), kept(6)]).checkpoint;
    expect(checkpoint).toMatchObject({ version: 6, before: { version: 5 } });
    expect(checkpoint?.before).not.toHaveProperty("before");
  });

  test("of agents' own files goes on where the node that takes over has it, and is not kept again elsewhere", () => {
    const fork = { name: "one", commit: git("1"), tree: git("2") };
    const begun: DomainEvent = {
      type: "session.started",
      data: {
        sessionID: "ses_2",
        parentSessionID: "ses_1",
        agent: "builder",
        model: "mock/large",
        purpose: "work",
        callID: null,
        sliceIDs: [],
        brief: "Build",
        fork,
      },
    };
    const own = { name: "one", commit: git("3"), tree: git("4"), upTo: 6 };
    const after = (forks: { name: string; commit: string }[]) => {
      const { data } = kept(6) as Extract<DomainEvent, { type: "checkpoint.kept" }>;
      const there = { ...moved.data, forks } as Extract<DomainEvent, { type: "workspace.moved" }>["data"];
      const events: DomainEvent[] = [
        { type: "checkpoint.kept", data: { ...data, forks: [own] } },
        { type: "workspace.moved", data: there },
      ];
      const { sessions, checkpoint } = fold([...work, begun, ...events]);
      return [sessions.at(-1)?.fork?.tip, checkpoint?.forks];
    };
    expect(after([{ name: "one", commit: own.commit }])).toEqual([own.commit, [own]]);
    expect(after([{ name: "one", commit: fork.commit }])).toEqual([fork.commit, []]);
    expect(after([])).toEqual([undefined, []]);
  });

  test("while agents work is no commit: the node that goes on from there makes one in the end", () => {
    expect(fold([...work, kept(6), moved, worktree, reply(8)])).toMatchObject({ tree: null, touched: true });
    expect(next(fold([...work, kept(6), moved, worktree, reply(8)]), rules)).toEqual({ kind: "commit" });
    // What had been committed later, and was not kept, is gone.
    expect(fold([...worked, kept(6), moved])).toMatchObject({ tree: null, touched: true });
  });
});
