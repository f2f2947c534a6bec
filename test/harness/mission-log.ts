import type { DomainEvent } from "../../src/domain/event.ts";
import { evolveMission } from "../../src/domain/mission/evolve.ts";
import { endAsks } from "../../src/domain/session/ask.ts";
import { nextStep } from "../../src/domain/mission/next.ts";
import { isRunning, type MissionState } from "../../src/domain/state/mission.ts";
import { noUsage, openAsks } from "../../src/domain/state/stream.ts";
import type { EventData } from "../../src/protocol/event/event.ts";
import type { Usage } from "../../src/protocol/task/status.ts";
import type { Random } from "./random.ts";

/** A Mission's log that grows fact by fact, and one that chance writes as a worker, a model and callers would. */

const sessionID = "ses_1";
const at = (minute: number) => new Date(Date.UTC(2026, 10, 21, 8, minute)).toISOString();

export const phase = (id: string) => ({
  id,
  title: `Phase ${id}`,
  phase: id,
  objective: id,
  acceptance: [],
  after: [],
});

export const missionLog = (landing: "commit" | "branch" = "commit") => {
  const events: DomainEvent[] = [];
  let state: MissionState | undefined;
  const add = (...facts: DomainEvent[]): MissionState => {
    for (const event of facts) {
      events.push(event);
      const version = events.length;
      state = evolveMission(state, { ...event, stream: sessionID, version, position: version, at: at(version) });
    }
    if (state === undefined) throw new Error("no facts");
    return state;
  };
  add({
    type: "mission.created",
    data: {
      missionID: "m",
      sessionID,
      title: "M",
      titleBy: "service",
      directory: "/work/project",
      project: "/work/project",
      productPillar: "code",
      model: "mock/large",
      ...(landing === "commit" ? {} : { landing }),
    },
  });
  if (landing === "branch")
    add({
      type: "mission.branched",
      data: { sessionID, branch: "sortie/m", commit: "0".repeat(40), of: "refs/heads/main" },
    });
  return { events, add, state: () => add() };
};

export type MissionLog = ReturnType<typeof missionLog>;

const messageOf = (text: string): DomainEvent => ({
  type: "message.received",
  data: { messageID: "msg_1", sessionID, source: "user", text, attachments: [], disposition: "steered" },
});

export const woken = (
  budget?: EventData["mission.woken"]["budget"],
  approve?: EventData["mission.woken"]["approve"],
  merge?: EventData["mission.woken"]["merge"],
): DomainEvent[] => [
  {
    type: "mission.woken",
    data: {
      sessionID,
      by: "user",
      ...(budget === undefined ? {} : { budget }),
      ...(approve === undefined ? {} : { approve }),
      ...(merge === undefined ? {} : { merge }),
    },
  },
  messageOf("Go on."),
];

export const replied = (
  { version, model }: MissionState,
  more: Partial<EventData["reply.finished"]> = {},
): DomainEvent => ({
  type: "reply.finished",
  data: {
    messageID: `msg_${version}`,
    sessionID,
    agent: "mission",
    model,
    read: version,
    text: "",
    calls: [],
    finish: "end",
    failure: null,
    usage: { ...noUsage, inputTokens: 10 },
    durationMs: 1,
    ...more,
  },
});

const begun = (callID: string, tool: string): DomainEvent => ({
  type: "tool.started",
  data: { callID, sessionID, tool, input: { callID }, effect: "log" },
});
const ended = (callID: string, tool: string): DomainEvent => ({
  type: "tool.finished",
  data: { callID, sessionID, tool, outcome: "ok", output: callID, exitCode: null, durationMs: 1 },
});

export const dispatched = (
  callID: string,
  more: Partial<EventData["task.dispatched"]> = {},
): DomainEvent & { type: "task.dispatched" } => ({
  type: "task.dispatched",
  data: {
    sessionID,
    callID,
    taskID: `task_${callID}`,
    phase: "a",
    title: `Task ${callID}`,
    squad: { id: "base", version: "1.0.0", digest: "0".repeat(64), scope: "builtin" },
    brief: callID,
    production: null,
    reserved: null,
    ...more,
  },
});

export const taskEnded = (
  { taskID, phase: of, title, ends }: MissionState["tasks"][number],
  outcome: EventData["task.ended"]["outcome"],
  usage: Usage = noUsage,
  landedCommit: string | null = null,
): DomainEvent => ({
  type: "task.ended",
  data: {
    sessionID,
    taskID,
    attempt: ends.length + 1,
    phase: of,
    title,
    outcome,
    summary: "",
    landedCommit,
    branch: null,
    usage,
  },
});

/** A person writes a phase of the plan. */
export const edited = (of: ReturnType<typeof phase>): DomainEvent => ({
  type: "phase.written",
  data: { sessionID, callID: null, source: "web", from: { user: null, address: "::1" }, phase: of },
});

/** A Task that judges the whole gives its verdict. */
const judged = (
  task: MissionState["tasks"][number],
  verdict: NonNullable<EventData["task.ended"]["verdict"]>["verdict"],
): DomainEvent => {
  const end = taskEnded(task, "completed");
  return end.type === "task.ended" ? { ...end, data: { ...end.data, verdict: { verdict, notes: "Seen." } } } : end;
};

/** A Task asks for an answer. */
export const taskAsked = (
  { taskID, phase: of, title }: Pick<MissionState["tasks"][number], "taskID" | "phase" | "title">,
  askID = "ask_1",
): DomainEvent => ({
  type: "task.asked",
  data: {
    sessionID,
    taskID,
    phase: of,
    title,
    askID,
    prompt: "Which?",
    options: [],
    default: null,
    passesAt: "2026-11-21T09:00:00.000Z",
  },
});

/** What its model may reply, each with the facts of its calls. */
const replies = (state: MissionState, random: Random): DomainEvent[] => {
  const call = `call_${state.version}`;
  const calls = (tool: string, ...facts: DomainEvent[]): DomainEvent[] => [
    replied(state, { finish: "calls", calls: [call] }),
    begun(call, tool),
    ...facts,
  ];
  const finished = (outcome: "done" | "blocked" | "waiting", wakeAt: string | null): DomainEvent => ({
    type: "mission.finished",
    data: { sessionID, callID: call, outcome, summary: "How it stands.", wakeAt },
  });
  return random.pick<() => DomainEvent[]>([
    () => [replied(state, { text: "Runs." })],
    () =>
      calls(
        "finish",
        { type: "mission.judging", data: { sessionID, callID: call, summary: "Done.", commit: landed } },
        ended(call, "finish"),
      ),
    () =>
      calls(
        "plan",
        { type: "plan.written", data: { sessionID, callID: call, phases: [phase("a")] } },
        ended(call, "plan"),
      ),
    () => calls("dispatch", dispatched(call), ended(call, "dispatch")),
    () => calls("dispatch", dispatched(call), ended(call, "dispatch")),
    () => calls("finish", finished("done", null), ended(call, "finish")),
    () => calls("finish", finished("blocked", null), ended(call, "finish")),
    () => calls("finish", finished("waiting", null), ended(call, "finish")),
    () => calls("finish", finished("waiting", at(state.version + 500)), ended(call, "finish")),
    () =>
      calls("ask", {
        type: "ask.opened",
        data: {
          askID: `ask_${state.version}`,
          sessionID,
          callID: call,
          kind: "question",
          prompt: "Red or blue?",
          options: [],
          default: null,
          expiresAt: at(state.version + 100),
        },
      }),
    () => [
      replied(state, {
        finish: "failed",
        failure: { code: "provider_unavailable", message: "No answer.", retryable: true, remedy: "Wake it." },
      }),
    ],
    () => [
      {
        type: "task.deferred",
        data: { sessionID, until: at(state.version + 60), code: "provider_quota", reason: "The quota is used up." },
      },
    ],
  ])();
};

/** What the worker does with the step that is due. */
const worked = (state: MissionState, random: Random): DomainEvent[] => {
  const step = nextStep(state);
  switch (step.kind) {
    case "tell":
      return [
        step.until === null
          ? { type: "mission.stalled", data: { sessionID, reason: step.reason } }
          : { type: "mission.waiting", data: { sessionID, reason: step.reason, until: step.until } },
      ];
    case "approve":
      return [
        ...endAsks(openAsks(state), "void"),
        {
          type: "ask.opened",
          data: {
            askID: `ask_${state.version}`,
            sessionID,
            callID: null,
            kind: "approval",
            of: "plan",
            would: { subject: "0", commit: null, tree: null, branch: null },
            prompt: "Carry out this plan?",
            options: ["allow", "deny"],
            default: null,
            expiresAt: null,
          },
        },
      ];
    case "pass":
      return state.questions.map(({ taskID, askID }) => ({
        type: "task.answered",
        data: { sessionID, taskID, askID, how: "passed" },
      }));
    case "pause":
      return [{ type: "mission.paused", data: { sessionID, ...step.reached } }];
    case "remind":
      return [{ type: "mission.reminded", data: { sessionID } }];
    case "wait":
      return [
        {
          type: "run.started",
          data: { worker: "w", epoch: 1, sandbox: { tier: 3, name: "process-group", network: true }, killed: [] },
        },
      ];
    case "turn":
      return replies(state, random);
    case "recover":
      return state.open.map(({ callID, tool }) => ended(callID, tool));
    case "judge": {
      const { callID = "", summary = "", commit = "" } = state.judging ?? {};
      const data = { sessionID, callID, outcome: "done" as const, summary, wakeAt: null };
      const verified = state.verdict?.callID === callID && state.verdict.verdict === "accepted";
      const end: DomainEvent = { type: "mission.finished", data: { ...data, verified } };
      const ask = dispatched(callID, { phase: "verdict", judges: { commit, base: null, heard: state.words } });
      return [state.verdict?.callID === callID ? end : random.pick([ask, end])];
    }
    case "merge":
      return random.pick<() => DomainEvent[]>([
        () => [{ type: "mission.unmerged", data: { sessionID, reason: random.pick([null, "Its branch is gone."]) } }],
        () => [
          dispatched(`call_${state.version}`, {
            phase: "merge",
            merge: { branch: "sortie/m", commit: "1".repeat(40), into: "main" },
          }),
        ],
      ])();
    case "sleep":
    case "ask":
    case "repetition":
    case "unpriced":
    case "propose":
      return [];
  }
};

const landed = "2".repeat(40);

/** With a message, but for a denial without words. */
const approved = (askID: string, random: Random): DomainEvent[] => {
  const answer = { askID, by: "caller" as const, source: "api" };
  return random.pick<() => DomainEvent[]>([
    () => [{ type: "ask.answered", data: { ...answer, decision: "allow" } }, messageOf("Go on.")],
    () => [{ type: "ask.answered", data: { ...answer, decision: "deny", answer: "No." } }, messageOf("No.")],
    () => [{ type: "ask.answered", data: { ...answer, decision: "deny" } }],
  ])();
};

/** What comes from outside. */
const came = (state: MissionState, random: Random): DomainEvent[] => {
  const [ask] = openAsks(state);
  const task = state.tasks.length === 0 ? undefined : random.pick(state.tasks);
  return random.pick<() => DomainEvent[]>([
    () => woken(),
    () =>
      ask === undefined
        ? []
        : ask.callID === null
          ? approved(ask.askID, random)
          : [
              { type: "ask.answered", data: { askID: ask.askID, answer: "red", by: "caller", source: "api" } },
              ended(ask.callID, "ask"),
            ],
    () =>
      task !== undefined && isRunning(task)
        ? [
            task.judges === undefined
              ? taskEnded(task, random.pick(["completed", "failed", "cancelled"]), noUsage, random.pick([null, landed]))
              : judged(task, random.pick(["accepted", "rejected", "inconclusive"])),
          ]
        : [],
    () =>
      task !== undefined && !isRunning(task)
        ? [{ type: "task.reopened", data: { sessionID, callID: `call_${state.version}`, taskID: task.taskID } }]
        : [],
    () => (task !== undefined && isRunning(task) ? [taskAsked(task, `ask_${state.version}`)] : []),
    () =>
      random.below(4) === 0
        ? [{ type: "mission.aborted", data: { sessionID, surface: "api", reason: "", cascade: false } }]
        : [],
    () => [{ type: "mission.updated", data: { sessionID, title: "Other" } }],
    () => [edited({ ...phase(random.pick(["a", "b"])), objective: `As of ${state.version}` })],
  ])();
};

/** One or a few facts more. Every prefix of such a log is one that a crash may leave. */
export const growByChance = (log: MissionLog, random: Random): DomainEvent[] =>
  random.below(3) === 0 ? came(log.state(), random) : worked(log.state(), random);
