import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { packageRoot } from "../../../src/package-root.ts";
import {
  dispatch,
  finish,
  isMission,
  openStage,
  plan,
  restOf,
  type Stage,
  turns,
  wake,
} from "../../harness/double/missions.ts";
import { isVerdict, type MockRequest } from "../../harness/double/mock-provider.ts";
import { agentOf, manifestOf } from "../../harness/double/squads.ts";

/**
 * Which agents of a Mission and its Tasks are told of MCP servers' tools: those that do the work, and nobody who plans
 * or judges.
 */

let stage: Stage;
/** The tools of servers that each request told of, by who asked. */
const told: Record<string, Set<string>> = {};

/** Somebody whom another agent asks for a part has their own name. */
const whoAsks = (request: MockRequest): string => {
  const names = request.body.tools?.map(({ function: { name } }) => name) ?? [];
  if (isMission(request)) return "mission";
  if (isVerdict(request)) return "judge";
  if (names.includes("verdict")) return "reviewer";
  if (names.includes("author_squad")) return "author";
  if (names.includes("commit_message")) return "describer";
  if (names.includes("give_up")) return "lead";
  return /Part for (\w+)/.exec(request.first)?.[1] ?? "somebody else";
};

beforeAll(async () => {
  const server = { command: process.execPath, args: [join(packageRoot, "test/fixtures/mcp/hostile.mjs"), "good"] };
  stage = await openStage({}, { mcpServers: { docs: server }, sandbox: { paths: [packageRoot] } });
  stage.heard = (request) => {
    const names = request.body.tools?.map(({ function: { name } }) => name) ?? [];
    for (const name of names.filter((one) => one.startsWith("mcp"))) (told[whoAsks(request)] ??= new Set()).add(name);
    told[whoAsks(request)] ??= new Set();
  };
});
afterAll(() => stage[Symbol.asyncDispose]());

test("the lead of a phase, and an agent that names them; not the Mission's agent, a reviewer, a judge, an author of squads", {
  timeout: 120_000,
}, async () => {
  const folder = ".sortie/squads/team";
  const files = {
    "a.txt": "x\n",
    [`${folder}/squad.json`]: manifestOf({
      id: "team",
      owns: { phases: ["team"] },
      agents: ["helper", "other", "reviewer"],
      skills: [],
    }),
    [`${folder}/README.md`]: "# Team\n",
    [`${folder}/agents/orchestrator.md`]: agentOf("orchestrator", "delegates: [helper, other, reviewer]\n").replace(
      "[read, shell]",
      "[read, write, delegate]",
    ),
    [`${folder}/agents/helper.md`]: agentOf("helper").replace("[read, shell]", "[read, mcp__docs]"),
    [`${folder}/agents/other.md`]: agentOf("other"),
    [`${folder}/agents/reviewer.md`]: agentOf("reviewer"),
  };
  const ask = (agent: string) => ({ tool: "delegate", input: { agent, brief: `Part for ${agent}. [done]` } });
  stage.play("done", {
    mission: turns(
      { calls: [plan({ id: "p", phase: "team" }), dispatch("p", "Do it. [done]")] },
      { text: "It runs." },
      { calls: [finish("done", "It is written.")] },
    ),
    task: (turn, request) =>
      whoAsks(request) !== "lead"
        ? { text: "Looked." }
        : ([
            { calls: [ask("helper"), ask("other"), ask("reviewer")] },
            { calls: [{ tool: "write", input: { path: "done.txt", content: "x\n" } }] },
          ][turn] ?? { text: "Wrote it." }),
  });
  const roster = [1, 2, 3].map((at) => ({ name: `agent-${at}`, duty: "A duty." }));
  const made = { phase: "p", squad: "crew", name: "Crew", summary: "A crew.", brief: "[made]", roster };
  stage.play("made", {
    mission: turns(
      { calls: [plan({ id: "p", phase: "made" }), { tool: "produce_squad", input: made }] },
      { text: "It runs." },
      { calls: [finish("blocked", "There is no crew.")] },
    ),
  });
  const restOfNew = async (text: string, more: object) => {
    const directory = stage.project(files);
    const { missionID } = await wake(stage.service.url, directory, { text, ...more });
    await restOf(stage.service.url, directory, missionID, 60_000);
  };
  await restOfNew("Write a file. [done]", { judged: true });
  await restOfNew("Make a crew. [made]", { allowSquadProduction: true });
  expect(Object.fromEntries(Object.entries(told).map(([who, names]) => [who, [...names]]))).toMatchObject({
    lead: ["mcp__docs__do"],
    helper: ["mcp__docs__do"],
    other: [],
    mission: [],
    judge: [],
    reviewer: [],
    author: [],
  });
});
