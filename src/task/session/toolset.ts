import { waitsForAnswers } from "../../domain/state/stream.ts";
import { judgeInstructions } from "../../agent/prompt/judge.ts";
import type { SessionContext } from "../../agent/session.ts";
import { type AgentSpec, isReviewer, type ModelRef } from "../../domain/agent.ts";
import { editingTools } from "../../domain/conversation/edited.ts";
import { commandKeys, isNamed } from "../../domain/evidence/named-command.ts";
import { isWholly } from "../../domain/permission/plain-command.ts";
import { compileRules } from "../../domain/permission/rule.ts";
import { dueNow } from "../../engine/due.ts";
import type { Facts, ToolSpec } from "../../model/model.ts";
import { isCommand } from "../../protocol/check.ts";
import type { TextFrame } from "../../protocol/event/frame.ts";
import type { Squad } from "../../squad/squad.ts";
import { mcpPrefix } from "../../tool/mcp/server.ts";
import { delegate } from "../../tool/task/delegate.ts";
import { reviewTools, selectTools, toolSpecs } from "../../tool/registry.ts";
import { verdict } from "../../tool/task/verdict.ts";
import type { Tool } from "../../tool/tool.ts";
import { withAttachments } from "../workspace/attachment.ts";
import type { Run } from "../run.ts";
import { createLateFacts } from "./late-facts.ts";
import { heldBack } from "./planning.ts";

/** Composes what each session of a run works with: its agent's tools, and the run's functions as an `AgentSession`. */

export type Toolset = { tools: ReadonlyMap<string, Tool>; specs: readonly ToolSpec[] };

export const createToolset = (run: Run, { agents, skills }: Squad, facts: Facts) => {
  const rules = compileRules(run.permissions, run.state().projectRules);
  const checks = facts.checks.filter(isCommand).map(({ run: command }) => command.trim());
  const news = createLateFacts(run, facts);
  let known: ReadonlySet<string> | undefined;
  /** Keys of the commands that count as evidence. */
  const keys = () => (known ??= new Set([...(facts.named ?? []), ...checks].flatMap(commandKeys)));

  const equip = (
    { tools: names, delegates }: AgentSpec,
    more: readonly Tool[] = [],
    choose: (tools: readonly Tool[]) => readonly Tool[] = (all) => all,
    { tools: servers, told: shown }: { tools: readonly Tool[]; told: readonly Tool[] } = { tools: [], told: [] },
  ): Toolset => {
    const own = names.filter(
      (name) =>
        name !== verdict.name && !name.startsWith(mcpPrefix) && (name !== delegate.name || delegates.length > 0),
    );
    const all = choose([...selectTools(own, { web: run.web !== undefined, skills }), ...more, ...servers]);
    const hidden = new Set(servers.filter((tool) => !shown.includes(tool)).map(({ name }) => name));
    const tools = run.state().approve.includes("plan") ? all.map((tool) => heldBack(run, tool)) : all;
    // When there are no skills, the `skill` tool is not shown to the model.
    const some = skills.length + (facts.project?.skills?.length ?? 0) > 0;
    const told = tools.filter(({ name }) => (name !== "skill" || some) && !hidden.has(name));
    return toolsetOf(tools, told);
  };

  const turn = (
    about: Pick<SessionContext, "agent" | "sessionID" | "chat" | "wanted" | "last" | "opening"> & {
      model: () => ModelRef;
    },
  ): SessionContext => ({
    ...about,
    facts,
    teammates: agents.filter(({ name }) => about.agent.delegates.includes(name)),
    limits: { ...run.limits, ...run.state().limits },
    rules,
    store: run.store,
    log: run.log,
    signal: run.signal,
    stream: run.stream,
    state: run.state,
    task: run.state,
    async record(events, options) {
      await run.record(events, options);
    },
    workspace: () => withAttachments(run),
    // A check may consist only of tools that everybody has; then it is recognized by its text.
    isNamed: (command) => checks.some((check) => command.includes(check)) || isNamed(command, keys()),
    secretsFor(command) {
      const { shell, secrets } = run.environment;
      return shell.some((rule) => isWholly(rule, command)) ? secrets : undefined;
    },
    news: (tool) => news(about.chat, tool),
    diagnostics: isReviewer(about.agent) ? undefined : run.checkers,
    background: run.background,
    web: run.web,
    async space() {
      await run.space();
      // Files may also have been removed by a tool that is not a command.
      await run.bound.failure();
    },
    slot: run.slot,
    live: (type, id, text) => run.store.live.publish(frame(run, about.sessionID, type, id, text), run.state().position),
    doing: (id, text, soFar) =>
      run.store.live.publish(
        { type: "now.delta", ...whose(run, about.sessionID), data: { id, text, soFar } },
        run.state().position,
      ),
    sleep: (ms, signal = run.signal) => sleep(ms, signal),
    asksFirst: () => asksFirst(run),
    fallbackModel: () => run.models.fallbackModel(about.model(), run.state().tried),
    async defer(event, until) {
      const due = { at: until, rank: dueNow(until, run.state().priority).rank };
      const { input } = run.state();
      // Other events of the run may come in between, because the workspace is created meanwhile. Only new input or a
      // cancel is a reason not to defer and to ask the model first.
      while (!(await run.record([event], { decidedAt: run.state().version, due })))
        if (run.state().input !== input || run.state().cancel !== null) return;
    },
    now: run.now,
  });

  return { equip, turn, rules };
};

/**
 * Who is asked first when the Task's agents have a question: its Mission, which knows the goal, unless the Mission is
 * gone, was aborted, or waits for a person itself. A question that it does not answer in time goes to a person anyway.
 */
const asksFirst = async ({ store, state }: Pick<Run, "store" | "state">): Promise<"mission" | "person"> => {
  const { mission, mergeOf } = state();
  // A Mission that is being merged has no work left.
  if (mission === null || mergeOf !== null) return "person";
  const lead = await store.mission(mission.sessionID);
  return lead === undefined || lead.aborted !== null || waitsForAnswers(lead) ? "person" : "mission";
};

const toolsetOf = (tools: readonly Tool[], told = tools): Toolset => ({
  tools: new Map(tools.map((tool) => [tool.name, tool])),
  specs: toolSpecs(told),
});

/** The tools with which an agent judges the whole of a Mission: it changes nothing and works alone. */
export const forVerdict = (own: readonly Tool[]): Tool[] =>
  own.filter(({ name }) => !editingTools.has(name) && !beyondVerdict.has(name));

/** The agent that judges the whole of a Mission. */
export const judgeAgent = (orchestrator: AgentSpec): AgentSpec => ({
  ...orchestrator,
  instructions: judgeInstructions,
  delegates: [],
});

const beyondVerdict: ReadonlySet<string> = new Set(["ask", "slice", "delegate", "artifact", "give_up"]);

/** The tools of a reviewer. Only a review can give a verdict. */
export const forReview = (): Toolset => toolsetOf(reviewTools);

const whose = (run: Run, sessionID: string) => ({ taskID: run.stream, sessionID, at: run.now().toISOString() });

const frame = (run: Run, sessionID: string, type: TextFrame["type"], id: string, text: string): TextFrame => {
  const common = whose(run, sessionID);
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
