import { withinTime } from "../agent/deadline.ts";
import type { ExternalAgent } from "../agent/external.ts";
import { type Delegated, type ExternalTurn, runAgent, type Turn } from "../agent/loop.ts";
import { ownChecks } from "../check/own.ts";
import type { AgentSpec, ModelRef } from "../domain/agent.ts";
import { brake } from "../domain/budget.ts";
import type { Conversation } from "../domain/conversation.ts";
import { next, type Step } from "../domain/next.ts";
import { compileRules } from "../domain/permission.ts";
import { circleOf, findSession, interruptOf } from "../domain/session.ts";
import { isRead, rootOf, type Session } from "../domain/task.ts";
import { dueNow } from "../engine/engine.ts";
import { ServiceError } from "../errors.ts";
import type { Model } from "../model/model.ts";
import type { LiveFrame } from "../protocol/event.ts";
import type { Squad } from "../squad/squad.ts";
import { selectTools, toolSpecs } from "../tool/select.ts";
import type { Tool, ToolResult } from "../tool/tool.ts";
import { withAttachments } from "./attachments.ts";
import { author, maker } from "./author.ts";
import { createBranches } from "./branches.ts";
import { delegate } from "./delegate.ts";
import { factsOf } from "./facts.ts";
import type { Run } from "./open.ts";
import { recover } from "./recover.ts";

/** The agents of a run: what each session works with, and how it is moved. */

export type Crew = {
  squad: Squad;
  /** What the Task does next, as its squad and its model can. */
  nextStep(): Step;
  /** Whether this Task's model may try again. */
  retries(): boolean;
  /** Lets the Orchestrator work until it asks for no more, or until the Task wants something else. */
  orchestrate(last: boolean): Promise<void>;
  /** Ends what an earlier run left open in the Orchestrator's session. */
  takeUp(): Promise<void>;
  /** Lets another agent's session go on until its last word, or until it can do nothing more now. */
  work(sessionID: string): Promise<Conversation>;
};

export const createCrew = async (run: Run): Promise<Crew> => {
  const squad = await run.squads.load(run.state().squad);
  const { orchestrator, agents } = squad;
  const external = externalOf(run, orchestrator);
  // A model that cannot be called now fails the turn that needs it, not a cancel or a landing.
  const loadModel = async (): Promise<Model | Error | undefined> =>
    external === undefined ? run.models.load(run.state().model).catch((error: unknown) => error as Error) : undefined;
  let model = await loadModel();
  const rules = compileRules(run.permissions, run.state().projectRules);
  const { skills } = squad;
  const facts = { ...(await factsOf(run)), skills };

  const ours = ownChecks(facts, run.limits.projectCheckSeconds);
  const retries = () => !(model instanceof Error) && model?.retries !== false;
  const reviews = agents.some(isReviewer);
  const stop = (sessionID: string) => brake(run.state(), run.limits, run.now(), circleOf(run.state(), sessionID));
  const nextStep = (): Step =>
    next(run.state(), {
      checkRounds: run.limits.checkRounds,
      own: ours,
      retries: retries(),
      reviews,
      stop: stop(rootOf(run.state())),
    });

  const equipped = ({ tools: names }: AgentSpec, more: readonly Tool[] = []) => {
    const tools = [...selectTools(names, { web: run.web !== undefined, skills }), ...more];
    // Where there are no skills, nothing is said of them.
    const some = skills.length + (facts.project?.skills?.length ?? 0) > 0;
    const told = tools.filter(({ name }) => name !== "skill" || some);
    return { tools: new Map(tools.map((tool) => [tool.name, tool])), specs: toolSpecs(told) };
  };
  const { production } = run.state();
  const own = production === null ? equipped(orchestrator) : equipped(maker(orchestrator), [author(run, production)]);

  const shared = (
    about: Pick<ExternalTurn, "agent" | "sessionID" | "chat" | "wanted" | "last"> & { model: () => ModelRef },
  ): ExternalTurn => ({
    ...about,
    facts,
    colleagues: agents.filter(({ name }) => about.agent.delegates.includes(name)),
    limits: run.limits,
    rules,
    store: run.store,
    log: run.log,
    signal: run.signal,
    stream: run.stream,
    state: run.state,
    task: run.state,
    async record(events, judged) {
      await run.record(events, judged === undefined ? {} : { judged });
    },
    workspace: () => withAttachments(run),
    background: run.background,
    web: run.web,
    slot: run.slot,
    live: (type, id, text) => run.store.live.publish(frame(run, about.sessionID, type, id, text), run.state().position),
    sleep: (ms, signal = run.signal) => sleep(ms, signal),
    standIn: () => run.models.standIn(about.model(), run.state().tried),
    async defer(event, until) {
      const due = { at: until, rank: dueNow(until, run.state().priority).rank };
      const { input } = run.state();
      // Facts of our own may come in between (the workspace is made meanwhile); only what somebody said, or a wish to
      // end, is a reason to ask the model again first.
      while (!(await run.record([event], { judged: run.state().version, due })))
        if (run.state().input !== input || run.state().cancel !== null) return;
    },
    now: run.now,
  });

  const lead = (last: boolean): ExternalTurn =>
    shared({
      agent: production === null ? orchestrator : maker(orchestrator),
      sessionID: rootOf(run.state()),
      chat: run.chat,
      model: () => run.state().model,
      wanted() {
        const step = nextStep();
        return step.kind === "turn" && step.last === last;
      },
      last,
    });

  const turnOf = (base: ExternalTurn, asked: Model | Error | undefined, { tools, specs }: typeof own): Turn => {
    if (asked === undefined) throw new Error("Expected an agent of ours, got one with a model of its own.");
    if (asked instanceof Error) throw asked;
    const delegated = (callID: string, work: Delegated): Promise<ToolResult> =>
      delegate(run, crew, base, { callID, ...work });
    return { ...base, model: asked, tools, specs, delegate: delegated };
  };

  const branches = createBranches(run);
  const crew: Crew = {
    squad,
    nextStep,
    retries,
    async orchestrate(last) {
      if (external === undefined) await runAgent(turnOf(lead(last), model, own));
      else await runProgram(lead(last), external);
      model = await loadModel();
    },
    async takeUp() {
      const about = { sessionID: rootOf(run.state()), chat: run.chat, workspace: run.workspace };
      await recover(run, about, external === undefined ? () => turnOf(lead(false), model, own) : undefined);
    },
    async work(sessionID) {
      const chat = await run.chats.of(sessionID);
      const session = () => findSession(run.state(), sessionID);
      const agent = agents.find(({ name }) => name === session().agent);
      if (agent === undefined) throw new Error(`Expected the agent ${session().agent} in squad ${squad.id}, got none.`);
      const equipment = equipped(agent);
      const goesOn = () => isUnderWay(run, session()) && stop(sessionID) === undefined;
      const { fork } = session();
      const forked = fork === null ? undefined : await run.workspaces.fork(await run.workspace(), fork.name, fork);
      const base = {
        ...shared({
          agent,
          sessionID,
          chat,
          wanted: goesOn,
          last: false,
          model: () => session().model as ModelRef,
        }),
        ...(forked === undefined ? {} : { workspace: () => Promise.resolve(forked) }),
      };
      const isOpen = () => run.state().open.some((call) => call.sessionID === sessionID);
      await branches.within(sessionID, async (signal) => {
        for (;;) {
          const { model: ref } = session();
          const turn = { ...turnOf(base, await run.models.load(ref as ModelRef), equipment), signal };
          if (isOpen() && interruptOf(run.state(), sessionID) === null) await recover(run, base, () => turn);
          if (goesOn()) await runAgent(session().purpose === "review" ? asReview(turn) : turn);
          // Another model goes on with it.
          if (session().model === ref || !goesOn()) return;
        }
      });
      if (interruptOf(run.state(), sessionID) !== null && isOpen()) await recover(run, base, undefined);
      return chat;
    },
  };
  return crew;
};

export const isReviewer = ({ name }: AgentSpec): boolean => name === "reviewer";

/** A reviewer sees what it was given: nothing of the project beside it. */
const asReview = (turn: Turn): Turn => ({ ...turn, system: turn.agent.instructions });

/** It has not said its last word, waits for nothing, and nobody wants the Task to end or to wait. */
const isUnderWay = (run: Run, { sessionID, sliceIDs, judged: said, purpose, reply, end }: Session): boolean => {
  const { lifecycle, cancel, deferred, open, slices } = run.state();
  if (interruptOf(run.state(), sessionID) !== null) return false;
  if (end !== null || lifecycle !== "active" || cancel !== null || deferred !== null) return false;
  if (open.some((call) => call.sessionID === sessionID)) return false;
  if (purpose === "review" && !isRead(run.state())) return false;
  const judged =
    purpose === "review" &&
    (Object.keys(said).length > 0 ||
      slices.some((slice) => sliceIDs.includes(slice.sliceID) && slice.review?.sessionID === sessionID));
  return !judged && (reply === null || reply.finish === "calls" || reply.finish === "length");
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

const frame = (run: Run, sessionID: string, type: LiveFrame["type"], id: string, text: string): LiveFrame => {
  const common = { taskID: run.stream, sessionID, at: run.now().toISOString() };
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
