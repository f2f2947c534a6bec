import { loadOnce } from "../../async/load-once.ts";
import { withinTime } from "../../agent/deadline.ts";
import type { ExternalAgent } from "../../agent/external/run.ts";
import { runAgent } from "../../agent/loop/loop.ts";
import { reviewRules } from "../../agent/prompt/common-rules.ts";
import type { DelegatedWork, Demand, SessionContext, AgentSession } from "../../agent/session.ts";
import { type AgentSpec, type ModelRef, isReviewer } from "../../domain/agent.ts";
import type { Conversation } from "../../domain/conversation/message.ts";
import type { PermissionRules } from "../../domain/permission/rule.ts";
import { subjectOf } from "../../domain/evidence/check.ts";
import { isPlanDue } from "../../domain/session/approval.ts";
import { stopReason } from "../../domain/session/budget.ts";
import { nextReviewTurn, type ReviewTurn } from "../../domain/session/review-turn.ts";
import { repetitionOf, findSession, interruptOf, isMidway } from "../../domain/session/session.ts";
import { isRead, rootOf, type Session } from "../../domain/state/stream.ts";
import { isByService } from "../../domain/state/task.ts";
import { next } from "../../domain/task/next/next.ts";
import type { Step } from "../../domain/task/next/step.ts";
import { ServiceError } from "../../error.ts";
import type { Model } from "../../model/model.ts";
import { isRun } from "../../protocol/check.ts";
import type { TurnFailure } from "../../protocol/event/conversation.ts";
import type { Squad } from "../../squad/squad.ts";
import { requireText } from "../../store/blob/text.ts";
import { giveOutput } from "../../tool/output/give-output.ts";
import { giveUp } from "../../tool/task/give-up.ts";
import { verdict } from "../../tool/task/verdict.ts";
import type { Tool, ToolResult } from "../../tool/tool.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import type { Run } from "../run.ts";
import { withDiskBound } from "../workspace/disk-bound.ts";
import { delegate } from "./delegate.ts";
import { createInterruptions } from "./interruption.ts";
import { serversFor, toolsFor } from "./mcp.ts";
import { createOpening } from "./opening.ts";
import { planningTools } from "./planning.ts";
import { projectFactsOf } from "./project-facts.ts";
import { recover } from "./recover.ts";
import { authorTool, authorAgent } from "./squad-author.ts";
import { withTamperGuard } from "../workspace/tamper.ts";
import { createToolset, forReview, forVerdict, judgeAgent, type Toolset } from "./toolset.ts";

/** Runs the sessions of one run of a Task. */

export type SessionRunner = {
  squad: Squad;
  /** What the Task does next, given its squad and model. */
  nextStep(): Step;
  /** Why the Task may not ask a model any more; undefined: it may. */
  stopReason(): TurnFailure | undefined;
  /** The project's own test command, if one was detected. */
  testCommand: string | undefined;
  /** Whether this Task's model may be asked to try again. */
  retries(): boolean;
  /**
   * Runs the Orchestrator until it makes no more calls or the Task wants something else. `last`: it is asked for a
   * final summary.
   */
  orchestrate(last: boolean): Promise<void>;
  /**
   * Call it when the sources that the Orchestrator's last reply cites have been examined, so that `nextStep` no longer
   * asks for it.
   */
  lookedAtSources(): void;
  /** Ends the calls that an earlier run left open in the Orchestrator's session. */
  recoverOrchestrator(): Promise<void>;
  /** Runs another agent's session until its last reply, or until it waits for something. */
  runSession(sessionID: string): Promise<Conversation>;
};

export const createSessionRunner = async (run: Run): Promise<SessionRunner> => {
  const squad = await run.squads.load(run.state().squad);
  const { orchestrator, agents } = squad;
  const { production, judges } = run.state();
  const leader = production !== null ? authorAgent(orchestrator) : judges ? judgeAgent(orchestrator) : orchestrator;
  const servers = serversFor(run, orchestrator, true);
  const external = externalOf(run, orchestrator);
  // A model that cannot be loaded fails only the turn that needs it, not a cancel or a landing.
  const loadModel = async (): Promise<Model | Error | undefined> =>
    external === undefined ? run.models.load(run.state().model).catch((error: unknown) => error as Error) : undefined;
  let model = await loadModel();
  const wanted = run.state().output;
  const outputSchema = wanted === null ? undefined : await requireText(run.store.blobs, wanted.schema);
  const facts = {
    ...(await projectFactsOf(run)),
    skills: squad.skills,
    ...(outputSchema === undefined ? {} : { outputSchema }),
    servers: servers.length > 0,
  };
  const { equip, turn: base, rules } = createToolset(run, squad, facts);

  run.offerOwn(facts.own.filter(isRun), Object.values(facts.detected));
  // The conflict of a merge, or its red checks, go to agents at once, because nobody is there to ask for it.
  const isLeft = () => isByService(run.state()) && run.state().mergeOf === null;
  const retries = () => !isLeft() && !(model instanceof Error) && model?.retries !== false;
  const reviews = agents.some(isReviewer);
  /** The length of the conversation when the sources cited at its end were last examined. */
  let looked = 0;
  const stop = (sessionID: string) =>
    stopReason(run.state(), run.limits, run.now(), repetitionOf(run.state(), sessionID)) ?? run.bound.stopReason();
  const nextStep = (): Step =>
    next(run.state(), {
      checkRounds: run.limits.checkRounds,
      own: run.own(),
      doubted: [...facts.doubted, ...run.baseline.slowChecks()],
      sources: external === undefined && run.state().production === null && looked !== run.chat.said.length,
      contrast: run.limits.projectCheckSeconds > 0,
      retries: retries(),
      plans: model instanceof Error || model?.retries !== false,
      reviews: reviews && !isByService(run.state()),
      stop: stop(rootOf(run.state())),
    });

  const leading = [giveUp, ...(outputSchema === undefined ? [] : [giveOutput(outputSchema)])] as Tool[];
  const authorTools =
    production === null ? undefined : equip(leader, [authorTool(run, production, agents.find(isReviewer))]);
  const equipped = async (choose?: Parameters<typeof equip>[2]): Promise<Toolset> =>
    equip(leader, leading, choose, await toolsFor(run, servers));
  const ownTools = loadOnce(() => equipped(judges ? forVerdict : undefined));
  const toolsToPlan = loadOnce(() => equipped(planningTools));
  const toolsNow = async (): Promise<Toolset> => authorTools ?? (isPlanDue(run.state()) ? toolsToPlan() : ownTools());

  const orchestratorContext = (last: boolean): SessionContext => {
    const planning = isPlanDue(run.state());
    return base({
      agent: leader,
      sessionID: rootOf(run.state()),
      chat: run.chat,
      model: () => run.state().model,
      ...(external === undefined ? { opening: createOpening(run) } : {}),
      wanted() {
        if (run.engine.drains() || isPlanDue(run.state()) !== planning) return false;
        const step = nextStep();
        return step.kind === "turn" && step.last === last;
      },
      last,
    });
  };

  const turnOf = (turn: SessionContext, asked: Model | Error | undefined, { tools, specs }: Toolset): AgentSession => {
    if (asked === undefined) throw new Error("Expected an agent of ours, got one with a model of its own.");
    if (asked instanceof Error) throw asked;
    const delegated = (callID: string, work: DelegatedWork): Promise<ToolResult> =>
      delegate(run, { squad, runSession: (sessionID) => runner.runSession(sessionID) }, turn, { callID, ...work });
    return { ...turn, model: asked, tools, specs, delegate: delegated };
  };

  const interruptions = createInterruptions(run);
  const runner: SessionRunner = {
    squad,
    testCommand: facts.detected.test,
    nextStep,
    stopReason: () => stop(rootOf(run.state())),
    retries,
    async orchestrate(last) {
      if (external === undefined) await runAgent(turnOf(orchestratorContext(last), model, await toolsNow()));
      else await runProgram(orchestratorContext(last), external);
      model = await loadModel();
    },
    lookedAtSources() {
      looked = run.chat.said.length;
    },
    async recoverOrchestrator() {
      const about = { sessionID: rootOf(run.state()), chat: run.chat, workspace: run.workspace };
      const tools = external === undefined ? await toolsNow() : undefined;
      await recover(run, about, tools && (() => turnOf(orchestratorContext(false), model, tools)));
    },
    async runSession(sessionID) {
      const chat = await run.chats.of(sessionID);
      const session = () => findSession(run.state(), sessionID);
      const agent = agents.find(({ name }) => name === session().agent);
      if (agent === undefined) throw new Error(`Expected the agent ${session().agent} in squad ${squad.id}, got none.`);
      const isReview = session().purpose === "review";
      const toolset = isReview
        ? forReview()
        : equip(agent, [], undefined, await toolsFor(run, serversFor(run, agent, false)));
      const reviewTurn = () => nextReviewTurn(chat, session().usage, run.limits);
      const mayContinue = () =>
        isUnderWay(run, session(), isReview ? reviewTurn() : undefined) && stop(sessionID) === undefined;
      const { fork } = session();
      const forked =
        fork === null
          ? undefined
          : withDiskBound(run, withTamperGuard(run, await run.workspaces.fork(await run.workspace(), fork.name, fork)));
      const own = {
        ...base({
          agent,
          sessionID,
          chat,
          wanted: mayContinue,
          last: false,
          model: () => session().model as ModelRef,
        }),
        ...(forked === undefined ? {} : { workspace: () => Promise.resolve(forked) }),
        ...(isReview
          ? {
              system: `${agent.instructions}\n\n${reviewRules}`,
              rules: withoutAsks(rules),
              workspace: judgedFiles(run),
              demand: () => demandOf(reviewTurn()),
            }
          : {}),
      };
      const isOpen = () => run.state().open.some((call) => call.sessionID === sessionID);
      await interruptions.within(sessionID, async (signal) => {
        for (;;) {
          const { model: ref } = session();
          const turn = { ...turnOf(own, await run.models.load(ref as ModelRef), toolset), signal };
          if (isOpen() && interruptOf(run.state(), sessionID) === null) await recover(run, own, () => turn);
          if (mayContinue()) await runAgent(turn);
          // The session's model was switched: continue with the new one.
          if (session().model === ref || !mayContinue()) return;
        }
      });
      if (interruptOf(run.state(), sessionID) !== null && isOpen()) await recover(run, own, undefined);
      return chat;
    },
  };
  return runner;
};

/** Nobody is asked whether a reviewer may look at something: calls that would need an answer are denied. */
const withoutAsks = (rules: PermissionRules): PermissionRules =>
  rules.map((ranked) => (ranked.decision === "ask" ? { ...ranked, decision: "deny" } : ranked));

/**
 * The files that a review reads: those of the commit that will land, checked out when the first tool needs them. For a
 * Task in place, the directory itself.
 */
const judgedFiles = (run: Run) => {
  const opened = loadOnce(() => run.checkout.at(subjectOf(run.state(), "work").commit));
  return async (tool?: string): Promise<Workspace> => {
    const workspace = await run.workspace();
    if (tool === verdict.name) return workspace;
    const checkout = await opened();
    return checkout === undefined ? workspace : { ...workspace, ...checkout.readable() };
  };
};

const demandOf = (turn: ReviewTurn): Demand | undefined => {
  switch (turn) {
    case "look":
    case "over":
      return undefined;
    case "again":
      return { tool: verdict.name, words: asked.again };
    case "judge":
      return { tool: verdict.name, words: asked.judge };
  }
};

const asked = {
  again:
    "Your answer was in words, and words decide nothing here. Give it as one call of `verdict`, with every part in it.",
  judge:
    "Your look-ups are used up. Judge now, with one call of `verdict` and every part in it; of what you could not see, say what is missing.",
};

/** Whether the session should continue: it has not given its last reply, waits for nothing, and the Task continues. */
const isUnderWay = (
  run: Run,
  { sessionID, sliceIDs, judged: said, reply, end }: Session,
  review: ReviewTurn | undefined,
): boolean => {
  const { lifecycle, cancel, deferred, open, slices } = run.state();
  if (interruptOf(run.state(), sessionID) !== null) return false;
  if (end !== null || lifecycle !== "active" || cancel !== null || deferred !== null) return false;
  if (open.some((call) => call.sessionID === sessionID)) return false;
  if (review === undefined) return reply === null || isMidway(reply);
  if (!isRead(run.state())) return false;
  const judged =
    Object.keys(said).length > 0 ||
    slices.some((slice) => sliceIDs.includes(slice.sliceID) && slice.review?.sessionID === sessionID);
  return !judged && review !== "over" && reply?.finish !== "failed";
};

/**
 * The external program that runs this agent; undefined: the built-in loop runs it. Throws when the operator has removed
 * the external agent.
 */
const externalOf = (run: Run, { runtime }: AgentSpec): ExternalAgent | undefined => {
  if (runtime === undefined) return undefined;
  const name = runtime.slice("acp:".length);
  const agent = Object.hasOwn(run.externals, name) ? run.externals[name] : undefined;
  if (agent !== undefined) return agent;
  throw new ServiceError("squad_not_available", `Expected the external agent ${name} in config.jsonc, got none.`);
};

const runProgram = async (turn: SessionContext, agent: ExternalAgent): Promise<void> => {
  const { runExternal } = await import("../../agent/external/run.ts");
  await withinTime(turn, (signal) => runExternal({ ...turn, signal }, agent));
};
