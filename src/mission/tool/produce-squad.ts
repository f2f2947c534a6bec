import { hash } from "node:crypto";
import { z } from "zod";
import { isReviewer, type SquadRef } from "../../domain/agent.ts";
import { hasFailedAt, isBarred, phaseState, producedFor } from "../../domain/mission/plan.ts";
import { isName } from "../../squad/catalog/catalog.ts";
import { productionBounds } from "../../squad/production.ts";
import { slugOf } from "../../squad/catalog/recommend.ts";
import { lockName } from "../../store/lock.ts";
import { failed } from "../../tool/result.ts";
import type { Tool, ToolResult } from "../../tool/tool.ts";
import { whyNoProduction, recommendedSquads } from "./choose-squad.ts";
import { makeTask } from "./dispatch.ts";
import { phaseRefusal, phaseIDs } from "./refusal.ts";
import type { MissionRun } from "../run.ts";

/**
 * Produces a squad for a phase that no squad owns, by one visible Task that writes it. There is only one such Task at a
 * time for a project and phase.
 */

/** The squad that produces squads, and the identity recorded with its Task. */
const profile = "advanced";
const identity = "squad-sdk";

const { agentsMin, agentsMax, skillsMax } = productionBounds;

const input = z.strictObject({
  phase: z.string().describe("Id of a phase of the plan that no installed squad owns"),
  squad: z
    .string()
    .regex(/^[a-z0-9]+(?:-[a-z0-9]+)*$/)
    .max(64)
    .describe("The new squad's id, of no installed one: small letters, digits, hyphens"),
  name: z.string().min(1).max(80),
  summary: z.string().min(1).max(300).describe("One or two sentences: what it is for"),
  roster: z
    .array(
      z.strictObject({
        name: z
          .string()
          .regex(/^[a-z0-9]+(?:-[a-z0-9]+)*$/)
          .max(64),
        duty: z.string().min(1).max(300),
      }),
    )
    .min(agentsMin)
    .max(agentsMax)
    .refine(
      (agents) => agents.length < agentsMax || agents.some(isReviewer),
      `Expected one of ${agentsMax} to be named reviewer: it judges the work before it lands, and with fewer the service adds its own`,
    )
    .describe(
      "The agents besides the Orchestrator, only those the phase needs; one named `reviewer` judges the work before it lands, without one the service's own does. Names of small letters, digits, hyphens",
    ),
  brief: z.string().max(8000).optional().describe("What the squad must know of the domain and how it is to work"),
});

export const produceTool = (run: MissionRun): Tool<z.infer<typeof input>> => ({
  name: "produce_squad",
  description:
    `Has a squad made for a phase that none owns: one Task that writes a small package (an Orchestrator, ${agentsMin} to ${agentsMax} agents, at most ${skillsMax} skills; words only) and installs it in the project. ` +
    "You are woken when it ended; the catalog is then read again, and only a squad found there as it was made may be dispatched to. It costs a Task: phases of one kind share one.",
  input,
  effect: "log",
  run: (request, { callID }) => run.inOrder(() => produce(run, request, callID)),
});

/** The form of a phase in a package's `owns`. */
const ownable = /^[a-z0-9]+(?:-[a-z0-9]+)*(?:\/[a-z0-9]+(?:-[a-z0-9]+)*)?$/;

/** Milliseconds; longer than a query of the store and a commit can take. */
const lockMs = 10_000;

const produce = async (run: MissionRun, given: z.infer<typeof input>, callID: string): Promise<ToolResult> => {
  const { plan, project, tasks } = run.state();
  const phase = plan.find(({ id }) => id === given.phase);
  if (phase === undefined)
    return failed(
      `Expected the id of a phase of the plan (${phaseIDs(run.state())}), got ${JSON.stringify(given.phase)}. Nothing was begun.`,
    );
  const owned = slugOf(phase.phase);
  if (!ownable.test(owned) || owned.length > 129)
    return failed(
      `Expected words or domain/phase in \`phase\` of ${phase.id} in the plan, for the squad to own, got "${phase.phase}". Nothing was begun.`,
    );
  // The Task was created before a restart, and the rules were checked then.
  const known = tasks.some((task) => task.callID === callID);
  if (!known) {
    const problem = await problemOf(run, phase, given.squad);
    if (problem !== undefined) return failed(`${problem} Nothing was begun.`);
  }
  const gone = await isGone(run, producedFor(run.state(), phase.id));
  using lock = await lockName(`production ${project} ${owned}`, lockMs);
  if (lock === undefined)
    return failed(`Another Mission begins a squad for "${owned}" just now. Nothing was begun: call it once more.`);
  // Awaited inside the lock's scope; otherwise it would be released before the Task is committed.
  return await makeTask(run, {
    callID,
    phase,
    brief: hash("sha256", JSON.stringify(given)),
    bar: (state) => {
      const now = phaseState(state, phase);
      if (now === "running" || now === "producing" || now === "done") return phaseRefusal(state, phase, "");
      const made = producedFor(state, phase.id);
      return gone || made === undefined || hasFailedAt(state, phase.id, made.id)
        ? undefined
        : `The squad ${made.id} was made for phase ${phase.id}: dispatch the phase, which goes to it.`;
    },
    squad: async () => {
      const other = (await run.store.productions(project)).find(({ production }) => production?.phase === owned);
      if (other !== undefined)
        return `The Task ${other.taskID} makes a squad for "${owned}" in this project already. ${
          run.state().tasks.some(({ taskID }) => taskID === other.taskID)
            ? "You are woken when it ends."
            : "It is another Mission's: call `finish` with waiting and `wakeInMinutes`, and ask `recommend` then."
        }`;
      const catalog = await recommendedSquads(run, phase.phase);
      if ("why" in catalog) return catalog.why;
      const maker = catalog.scan.squads.find(({ squad, scope }) => squad.id === profile && scope === "builtin");
      return maker === undefined
        ? `Expected the squad ${profile} in the catalog, found none.`
        : { id: profile, version: maker.squad.version, digest: maker.digest };
    },
    body: {
      title: `Make the squad ${given.squad}`,
      request: requestOf(given, owned, run.state().productPillar),
      priority: run.state().priority,
    },
    attachments: [],
    budget: undefined,
    handover: undefined,
    contract: undefined,
    production: { identity, phase: owned, squad: given.squad },
  });
};

/** Whether the squad that was made is no longer in the catalog, or was changed since: then another one may be made. */
const isGone = async (run: MissionRun, made: SquadRef | undefined): Promise<boolean> => {
  if (made === undefined) return false;
  const catalog = await recommendedSquads(run, "");
  if ("why" in catalog) return false;
  const { squads, healthy } = catalog.scan;
  return healthy && squads.find(({ squad }) => squad.id === made.id)?.digest !== made.digest;
};

/** The first rule of squad production that is broken, before anything is created; undefined: none. */
const problemOf = async (
  run: MissionRun,
  phase: Parameters<typeof whyNoProduction>[1],
  id: string,
): Promise<string | undefined> => {
  const bar = whyNoProduction(run, phase);
  if (bar !== undefined)
    return `No squad can be made for phase ${phase.id}: ${bar}. Dispatch it without one: it goes to ${run.state().squads.length > 0 ? "one of those" : "a general squad"}.`;
  const catalog = await recommendedSquads(run, phase.phase);
  if ("why" in catalog) return catalog.why;
  const owner = catalog.found.owners.find(
    ({ found: { squad, digest } }) =>
      !isBarred(run.state(), { id: squad.id, digest }) && !hasFailedAt(run.state(), phase.id, squad.id),
  );
  if (owner !== undefined) return `The phase "${phase.phase}" is owned by ${owner.found.squad.id}: dispatch to it.`;
  const taken = catalog.scan.squads.find(({ squad }) => squad.id === id);
  if (taken !== undefined || !isName(id)) return `Expected the id of no installed squad, got "${id}": choose another.`;
  return undefined;
};

/** In a form that the built-in model can read as well (model/builtin/role/squad-author.ts). */
const requestOf = (given: z.infer<typeof input>, phase: string, pillar: string): string =>
  [
    `Make the squad \`${given.squad}\`, which owns the phase \`${phase}\`.`,
    "",
    `- Name: ${oneLine(given.name)}`,
    `- Summary: ${oneLine(given.summary)}`,
    `- Pillar: ${pillar}`,
    "",
    "Agents:",
    ...given.roster.map(({ name, duty }) => `- ${name}: ${oneLine(duty)}`),
    ...(given.brief === undefined || given.brief.trim() === "" ? [] : ["", "Brief:", given.brief.trim()]),
  ].join("\n");

const oneLine = (text: string): string => text.replaceAll(/\s+/g, " ").trim();
