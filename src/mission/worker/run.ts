import { setTimeout as wait } from "node:timers/promises";
import { interruptedCall, runCalls } from "../../agent/loop/call.ts";
import { runAgent } from "../../agent/loop/loop.ts";
import type { AgentSession } from "../../agent/session.ts";
import { isOver, remind, timeouts } from "../../domain/session/ask.ts";
import type { DomainEvent, StreamID } from "../../domain/event.ts";
import { missionAgent } from "../../domain/mission/evolve.ts";
import { nextStep } from "../../domain/mission/next.ts";
import { compileRules } from "../../domain/permission/rule.ts";
import { isDeferred, openAsks } from "../../domain/state/stream.ts";
import { dueNow } from "../../engine/due.ts";
import { createRepeats, lacksDescriptors, mostShortages } from "../../engine/transient-failure.ts";
import { createStuckGuard } from "../../engine/stuck.ts";
import { messageOf, ServiceError } from "../../error.ts";
import type { TextFrame } from "../../protocol/event/frame.ts";
import { ClaimLost, withClaim } from "../../store/claimed-stream.ts";
import { TextLost } from "../../store/blob/text.ts";
import { isFull } from "../../store/disk/full.ts";
import { unavailable } from "../../store/unavailable.ts";
import { createBackground } from "../../tool/command/background.ts";
import { toolSpecs } from "../../tool/registry.ts";
import { recordOverdue } from "./overdue.ts";
import { recordTaskEnds } from "./task-end.ts";
import { openMission } from "./open.ts";
import { requestPlanApproval } from "../plan/approval.ts";
import type { MissionDeps, MissionRun } from "../run.ts";
import { failTurn } from "./fail-turn.ts";
import { compactBetweenWakes } from "./renew.ts";
import { projectFiles } from "./files.ts";
import { missionSystemOf } from "./prompt.ts";
import { mergeWhenDone } from "../merge.ts";
import { judge } from "../verdict.ts";
import { proposeWhole, refresh } from "../repository.ts";
import { createMissionTools, offeredTools } from "../tool/registry.ts";

/**
 * Runs one Mission: claims it, folds its log, and carries out `nextStep` until there is nothing to do for its agent.
 * There is no other way in and no resume path. Between runs a Mission costs nothing until it is due again.
 */
export const createRunMission = (deps: MissionDeps) => {
  const repeats = createRepeats((error) => (lacksDescriptors(error) ? mostShortages : 0));
  return async (stream: StreamID, signal: AbortSignal): Promise<void> => {
    // Without disk space nothing is begun, and nothing written.
    if (deps.disk.shortage() !== undefined) return;
    await withClaim(deps, stream, signal, async (claim, stop, scope) => {
      const run = await openMission(deps, claim, stop, scope);
      if (run === undefined) return;
      const beginsAnew = repeats.begin(stream);
      await move(run).catch(async (error: unknown) => {
        if (signal.aborted || !(await beginsAnew(error, run.record))) return failUnexpectedly(run, error);
        throw error;
      });
    });
  };
};

/**
 * After this many deaths with the same calls under way, the calls are considered to crash the service. Deaths while a
 * run holds back do not count, so a Mission that was merely running when others crashed the service hardly reaches this
 * number.
 */
const crashLoop = 6;

/**
 * How long a run holds back before it repeats calls that were under way in two deaths; doubled with each further death.
 */
const holdBackMs = 500;

/** Waits before the run is recorded, so that a death meanwhile does not count against its calls. */
const holdBack = async (run: MissionRun): Promise<void> => {
  const { crashes, stopped } = run.state();
  if (crashes === 0 || stopped) return;
  using _aside = run.engine.standAside(run.stream);
  await wait(holdBackMs * 2 ** (crashes - 1), undefined, { signal: run.signal });
};

const move = async (run: MissionRun): Promise<void> => {
  let begun = false;
  const notStuck = createStuckGuard({
    version: () => run.state().version,
    record: run.record,
    sleep: (ms) => wait(ms, undefined, { signal: run.signal }),
  });
  for (;;) {
    run.engine.betweenSteps(run.stream);
    run.signal.throwIfAborted();
    await run.space();
    await recordTaskEnds(run);
    await hearTime(run);
    await recordOverdue(run);
    const state = run.state();
    const step = nextStep(state);
    const now = run.now();
    if (!begun && !begunless.has(step.kind) && !isEarly(run)) {
      begun = true;
      if (step.kind === "recover") await holdBack(run);
      const { worker, sandbox, fence } = run;
      await run.record([{ type: "run.started", data: { worker, epoch: fence.epoch, sandbox, killed: [] } }]);
      await freshen(run, step.kind === "turn");
      continue;
    }
    if (!ending.has(step.kind)) await notStuck(step.kind);
    switch (step.kind) {
      case "sleep":
        if (step.until === null || (await rest(run, new Date(step.until)))) return;
        break;
      case "wait":
        if (await rest(run, new Date(state.deferred?.until ?? now))) return;
        break;
      case "ask":
        if (openAsks(state).some((ask) => isOver(ask, now)))
          await run.record(timeouts(state, now), { decidedAt: state.version });
        else if (remind(state, now).length > 0) await run.record(remind(state, now), { decidedAt: state.version });
        else if (await rest(run, new Date(step.until))) return;
        break;
      case "approve":
        await requestPlanApproval(run);
        break;
      case "recover":
        await recover(run);
        break;
      case "pause": {
        const { reached } = step;
        await run.record([{ type: "mission.paused", data: { sessionID: run.stream, ...reached } }], {
          decidedAt: state.version,
        });
        break;
      }
      case "tell": {
        const { told, reason, until } = step;
        const said: DomainEvent =
          told === "waiting" && until !== null
            ? { type: "mission.waiting", data: { sessionID: run.stream, reason, until } }
            : { type: "mission.stalled", data: { sessionID: run.stream, reason } };
        await run.record([said], { decidedAt: state.version });
        break;
      }
      case "pass":
        for (const { taskID, askID } of state.questions) await run.tasks.passAskToPerson(taskID, askID);
        break;
      case "remind":
        await run.record([{ type: "mission.reminded", data: { sessionID: run.stream } }], { decidedAt: state.version });
        break;
      case "repetition":
        await failTurn(run, {
          code: "loop_detected",
          message: `The Mission's agent made the same calls with the same results ${step.times} times in a row.`,
          retryable: false,
          remedy: "Wake it with a text that says what to do instead.",
        });
        break;
      case "unpriced":
        await failTurn(run, {
          code: "budget_reached",
          message: `The price of ${state.model} is unknown, so maxCostUSD cannot be enforced. Nothing more is asked or dispatched.`,
          retryable: false,
          remedy: "Wake the Mission with another budget, e.g. maxTokens.",
        });
        break;
      case "propose":
        await proposeWhole(run);
        break;
      case "judge":
        await judge(run);
        break;
      case "merge":
        await mergeWhenDone(run);
        break;
      case "turn":
        await takeTurn(run);
        break;
    }
  }
};

/** Steps that need no recorded run, because they do nothing of the Mission's own. */
const begunless: ReadonlySet<string> = new Set(["sleep", "ask", "tell", "pass"]);

/** Steps that wait for something outside the run. */
const ending: ReadonlySet<string> = new Set(["sleep", "wait", "ask"]);

/** Whether the Mission is deferred for a quota and this run began before its due time. */
const isEarly = (run: MissionRun): boolean => {
  const { deferred, input, reply } = run.state();
  return deferred !== null && isDeferred(deferred, run.now()) && input <= (reply?.read ?? 0);
};

const longestReason = 500;

/** Records a wake when the time that the agent set for itself has come. */
const hearTime = async (run: MissionRun): Promise<void> => {
  const { finished, aborted, version } = run.state();
  if (finished?.wakeAt == null || aborted !== null || Date.parse(finished.wakeAt) > run.now().getTime()) return;
  await run.record(
    [
      {
        type: "mission.woken",
        data: { sessionID: run.stream, by: "time", reason: finished.summary.slice(0, longestReason) },
      },
    ],
    { decidedAt: version },
  );
};

/**
 * Parks the Mission until `until`. Resolves to false when something came in. A Task may have ended just before its due
 * time was overwritten here, so ends are looked for once more.
 */
const rest = async (run: MissionRun, until: Date): Promise<boolean> => {
  const { version } = run.state();
  const due = { ...dueNow(run.now(), run.state().priority), at: until };
  if (!(await run.record([], { decidedAt: version, due }))) return false;
  await recordTaskEnds(run);
  return run.state().version === version;
};

/** Fetches the project's current files. If that fails, the turn fails: it would judge by old ones. */
const freshen = async (run: MissionRun, takesTurn: boolean): Promise<void> => {
  const away = await refresh(run);
  if (away === undefined || !takesTurn) return;
  await failTurn(run, {
    code: "repository_unavailable",
    message: `${run.state().repository?.url} could not be fetched: ${away.replace(/\.$/, "")}.`,
    retryable: true,
    remedy: "Wake the Mission when it can be reached.",
  });
};

const takeTurn = async (run: MissionRun): Promise<void> => {
  const turn = await turnOf(run).catch(async (error: unknown) => {
    run.signal.throwIfAborted();
    if (!(error instanceof ServiceError) || error.retryable) throw error;
    const { code, message } = error;
    await failTurn(run, { code, message, retryable: true, remedy: "Configure the model, then wake the Mission." });
    return undefined;
  });
  if (turn !== undefined) await runAgent(turn);
};

/**
 * Ends calls that an earlier run left open by running them again. That is safe, because each writes only to the log and
 * finds there what it has already done. Calls that seem to crash the service are recorded as interrupted instead.
 */
const recover = async (run: MissionRun): Promise<void> => {
  const open = new Set(run.state().open.map(({ callID }) => callID));
  const calls = (run.chat.turn?.reply.calls ?? []).filter(({ callID }) => open.has(callID));
  if (run.state().crashes >= crashLoop || calls.length < open.size) {
    await run.record(
      run
        .state()
        .open.map(({ callID, tool }) =>
          interruptedCall(run.stream, { callID, tool }, "The service died while it ran."),
        ),
    );
    return;
  }
  await runCalls(await turnOf(run), calls);
};

const hasCalls = (event: DomainEvent): boolean => event.type === "reply.finished" && event.data.calls.length > 0;

const turnOf = async (run: MissionRun): Promise<AgentSession> => {
  const { store, stream, signal, log, now } = run;
  const model = await run.models.load(run.state().model);
  const tools = createMissionTools(run);
  const files = await projectFiles(run);
  const system = missionSystemOf(run);
  const specs = toolSpecs(offeredTools(run, tools));
  const none = Number.POSITIVE_INFINITY;
  return {
    agent: { name: missionAgent, instructions: system, tools: [], delegates: [] },
    sessionID: stream,
    model,
    tools: new Map(tools.map((tool) => [tool.name, tool])),
    specs,
    facts: { checks: [], detected: {}, pillar: run.state().productPillar },
    teammates: [],
    system,
    // A Mission lasts as long as its Tasks; it is bounded by its budget over all of them.
    limits: { ...run.limits, ...run.state().limits, steps: none, tokens: none, minutes: none },
    rules: compileRules(run.permissions, files.rules),
    store,
    log,
    signal,
    chat: run.chat,
    stream,
    state: run.state,
    task() {
      throw new Error("Expected a Task, got a Mission.");
    },
    async record(events, options) {
      await run.record(events, options);
      // Calls act on the current state, so ends of Tasks are recorded before; the agent reads of them in its next
      // request.
      if (events.some((event) => event.type === "tool.finished" || hasCalls(event))) await recordTaskEnds(run);
    },
    between: () => compactBetweenWakes(run, system.length + JSON.stringify(specs).length),
    wanted: () => !run.engine.drains() && nextStep(run.state()).kind === "turn",
    last: false,
    workspace: files.workspace,
    isNamed: () => false,
    secretsFor: () => undefined,
    background: createBackground(run.fence.epoch),
    web: undefined,
    space: run.space,
    slot: (until = signal) => run.slots.take(dueNow(now(), run.state().priority).rank, until),
    live: (type, id, text) => store.live.publish(frame(run, type, id, text), run.state().position),
    doing: (id, text, soFar) =>
      store.live.publish({ type: "now.delta", ...whose(run), data: { id, text, soFar } }, run.state().position),
    sleep,
    delegate: () => Promise.resolve({ outcome: "error", output: "A Mission dispatches Tasks, it has no squad." }),
    asksFirst: () => Promise.resolve("person"),
    fallbackModel: () => run.models.fallbackModel(run.state().model, run.state().tried),
    async defer(event, until) {
      const { input } = run.state();
      const due = { ...dueNow(until, run.state().priority) };
      while (!(await run.record([event], { decidedAt: run.state().version, due })))
        if (run.state().input !== input) return;
    },
    now,
  };
};

const whose = (run: MissionRun) => ({
  missionID: run.state().missionID,
  sessionID: run.stream,
  at: run.now().toISOString(),
});

const frame = (run: MissionRun, type: TextFrame["type"], id: string, text: string): TextFrame => {
  const common = whose(run);
  return type === "tool.output"
    ? { type, ...common, data: { callID: id, text } }
    : { type, ...common, data: { messageID: id, text } };
};

const sleep: AgentSession["sleep"] = (ms, signal) =>
  new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", end);
      resolve();
    }, ms);
    signal?.addEventListener("abort", end, { once: true });
  });

/**
 * An unforeseen error fails this Mission's turn only. Errors that are worth a retry are thrown, and the engine tries
 * again later.
 */
const failUnexpectedly = async (run: MissionRun, error: unknown): Promise<void> => {
  run.signal.throwIfAborted();
  if (error instanceof ClaimLost || (error instanceof ServiceError && error.retryable)) throw error;
  if (isFull(error)) await run.disk.look();
  // The Mission's next run begins when there is space.
  if (isFull(error) && run.disk.shortage() !== undefined) throw unavailable(error);
  run.log.error(
    { mission: run.stream, error: messageOf(error), stack: error instanceof Error ? error.stack : undefined },
    "a Mission failed unexpectedly",
  );
  const named = error instanceof ServiceError || error instanceof TextLost;
  await failTurn(run, {
    code: named ? error.code : "internal",
    message: messageOf(error),
    retryable: true,
    remedy: "Read the service's log, then wake the Mission to try again.",
  });
};
