import { withinTime } from "../agent/deadline.ts";
import type { ExternalAgent } from "../agent/external.ts";
import { type ExternalTurn, runAgent, type Turn } from "../agent/loop.ts";
import type { AgentSpec } from "../domain/agent.ts";
import { brake } from "../domain/budget.ts";
import type { StreamID } from "../domain/event.ts";
import { next, type Step } from "../domain/next.ts";
import { compileRules } from "../domain/permission.ts";
import type { TaskState } from "../domain/task.ts";
import { dueNow } from "../engine/engine.ts";
import { messageOf, ServiceError } from "../errors.ts";
import type { LiveFrame } from "../protocol/event.ts";
import { TextLost } from "../store/text.ts";
import { selectTools, toolSpecs } from "../tool/select.ts";
import { WorkspaceLost } from "../workspace/workspace.ts";
import { withAttachments, withoutAttachments } from "./attachments.ts";
import { baseline, check, feedback } from "./check.ts";
import { factsOf } from "./facts.ts";
import { land } from "./land.ts";
import { ClaimLost, openRun, type Run, type RunDeps } from "./open.ts";
import { renew } from "./prepare.ts";
import { recover } from "./recover.ts";
import { commitTree, failNow, settle } from "./settle.ts";
import { wait } from "./wait.ts";

/**
 * Moves one Task: claim, fold, and then `next` again and again. There is no other way in and no resume path; a worker
 * that died is replaced by one that runs this from the start.
 */

export const createRunTask =
  (deps: RunDeps) =>
  async (stream: StreamID, signal: AbortSignal): Promise<void> => {
    await using claim = await deps.store.claim(stream, deps.worker);
    if (claim === undefined) return;
    const stop = AbortSignal.any([signal, claim.lost]);
    await using scope = new AsyncDisposableStack();
    try {
      const run = await openRun(deps, claim, stop, scope);
      if (run !== undefined) scope.defer(() => withoutAttachments(run));
      if (run !== undefined) await move(run).catch((error: unknown) => fault(run, error));
    } catch (error) {
      if (error instanceof ClaimLost || claim.lost.aborted) return;
      if (!signal.aborted) throw error;
      await deps.store.commit({
        appends: [
          { stream, expected: "any", events: [{ type: "run.stopped", data: { reason: "the service stopped" } }] },
        ],
        fence: claim.fence,
      });
    }
  };

const move = async (run: Run): Promise<void> => {
  const squad = await run.squads.load(run.state().squad);
  // A model that cannot be called now fails the turn that needs it, not a cancel or a landing.
  const external = externalOf(run, squad.orchestrator);
  const loadModel = async () =>
    external === undefined ? run.models.load(run.state().model).catch((error: unknown) => error as Error) : undefined;
  let model = await loadModel();
  const retries = () => !(model instanceof Error) && model?.retries !== false;
  const nextStep = (): Step => {
    const stop = brake(run.state(), run.limits, run.now());
    return next(run.state(), { checkRounds: run.limits.checkRounds, retries: retries(), stop });
  };
  const tools = selectTools(squad.orchestrator.tools, { web: run.web !== undefined });
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  const rules = compileRules(run.permissions, run.state().projectRules);
  const facts = await factsOf(run);
  // Where there are no skills, nothing is said of them.
  const specs = toolSpecs(tools.filter(({ name }) => name !== "skill" || (facts.project?.skills?.length ?? 0) > 0));
  for (;;) {
    run.signal.throwIfAborted();
    const step = nextStep();
    // Whatever looks at the files, or ends the Task, finds nobody else at work in them.
    if (step.kind !== "turn" && step.kind !== "recover") await run.background.end();
    switch (step.kind) {
      case "done":
        return;
      case "renew":
        await renew(run);
        break;
      case "recover":
        await recover(run, external === undefined ? () => turnOf(false) : undefined);
        break;
      case "baseline":
        await baseline(run, step.checks);
        break;
      case "ask":
        if (await wait(run, step.until)) return;
        break;
      case "turn":
        run.leaveTurn();
        if (external === undefined) await runAgent(turnOf(step.last));
        else await runProgram(sharedOf(step.last), external);
        model = await loadModel();
        break;
      case "wait":
        return;
      case "commit":
        await commitTree(run);
        break;
      case "check":
        await check(run, step.checks);
        break;
      case "feedback":
        await feedback(run, step.failed);
        break;
      case "land":
        await land(run, retries());
        break;
      case "settle":
        await withoutAttachments(run);
        await settle(run, step.end);
        break;
    }
  }

  function turnOf(last: boolean): Turn {
    if (model === undefined) throw new Error("Expected an agent of ours, got one with a model of its own.");
    if (model instanceof Error) throw model;
    return { ...sharedOf(last), model, tools: byName, specs };
  }

  function sharedOf(last: boolean): ExternalTurn {
    return {
      agent: squad.orchestrator,
      sessionID: rootSession(run.state()),
      facts,
      limits: run.limits,
      rules,
      store: run.store,
      log: run.log,
      signal: run.signal,
      chat: run.chat,
      state: run.state,
      async record(events, judged) {
        await run.record(events, judged === undefined ? {} : { judged });
      },
      wanted() {
        const step = nextStep();
        return step.kind === "turn" && step.last === last;
      },
      last,
      workspace: () => withAttachments(run),
      background: run.background,
      web: run.web,
      slot: run.slot,
      live: (type, id, text) => run.store.live.publish(frame(run, type, id, text), run.state().position),
      sleep: (ms, signal = run.signal) => sleep(ms, signal),
      standIn: () => run.models.standIn(run.state().model, run.state().tried),
      async defer(event, until) {
        const due = { at: until, rank: dueNow(until, run.state().priority).rank };
        const { input } = run.state();
        // Facts of our own may come in between (the workspace is made meanwhile); only what somebody said, or a wish to
        // end, is a reason to ask the model again first.
        while (!(await run.record([event], { judged: run.state().version, due })))
          if (run.state().input !== input || run.state().cancel !== null) return;
      },
      now: run.now,
    };
  }
};

/** The program that runs this agent; undefined: we do. One that the operator took away fails its Tasks by name. */
const externalOf = (run: Run, { runtime }: AgentSpec): ExternalAgent | undefined => {
  if (runtime === undefined) return undefined;
  const name = runtime.slice("acp:".length);
  const agent = Object.hasOwn(run.externals, name) ? run.externals[name] : undefined;
  if (agent !== undefined) return agent;
  throw new ServiceError("squad_not_available", `Expected the external agent ${name} in config.jsonc, got none.`);
};

const runProgram = async (turn: ExternalTurn, agent: ExternalAgent): Promise<void> => {
  const { runExternal } = await import("../agent/external.ts");
  await withinTime(turn, (signal) => runExternal({ ...turn, signal }, agent));
};

/** What nobody foresaw ends this Task, and only it. What the store cannot take now is tried again later. */
const fault = async (run: Run, error: unknown): Promise<void> => {
  run.signal.throwIfAborted();
  if (error instanceof ClaimLost || (error instanceof ServiceError && error.retryable)) throw error;
  run.log.error(
    { task: run.stream, error: messageOf(error), stack: error instanceof Error ? error.stack : undefined },
    "a Task failed unexpectedly",
  );
  const named = error instanceof ServiceError || error instanceof WorkspaceLost || error instanceof TextLost;
  await failNow(run, {
    code: named ? error.code : "internal",
    message: messageOf(error),
    retryable: true,
    remedy: "Read the service's log, then send a message to try again.",
  });
};

const rootSession = (state: TaskState): string => state.sessions[0]?.sessionID ?? "";

const frame = (run: Run, type: LiveFrame["type"], id: string, text: string): LiveFrame => {
  const common = { taskID: run.stream, sessionID: rootSession(run.state()), at: run.now().toISOString() };
  return type === "tool.output"
    ? { type, ...common, data: { callID: id, text } }
    : { type, ...common, data: { messageID: id, text } };
};

const sleep = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", end);
      resolve();
    }, ms);
    signal.addEventListener("abort", end, { once: true });
  });
