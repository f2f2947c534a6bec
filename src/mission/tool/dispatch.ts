import { hash } from "node:crypto";
import { z } from "zod";
import type { SquadRef } from "../../domain/agent.ts";
import { isPlanDue } from "../../domain/mission/approval.ts";
import { isFirst, shareOf } from "../../domain/mission/grant.ts";
import type { MissionState } from "../../domain/state/mission.ts";
import { messageOf, ServiceError } from "../../error.ts";
import { isID } from "../../id.ts";
import { budget as taskBudget } from "../../protocol/field.ts";
import type { MissionBudget, PlannedPhase } from "../../protocol/mission/status.ts";
import type { TaskCreate } from "../../protocol/task/request.ts";
import type { AttachmentRef } from "../../protocol/text.ts";
import { ClaimLost } from "../../store/claimed-stream.ts";
import { type MissionDispatch, MissionMovedOn } from "../../task/tasks.ts";
import { failed, ok } from "../../tool/result.ts";
import { NoFiles, type Tool, type ToolResult } from "../../tool/tool.ts";
import { checkForms, checkInput } from "./check-input.ts";
import { chooseSquad } from "./choose-squad.ts";
import type { MissionRun } from "../run.ts";
import { catalogDirectory, readyLocalBranch } from "../branch.ts";
import { readyRemoteBranch } from "../repository.ts";
import { commitsLeft, handoverOf } from "./handover.ts";
import { approvalRefusal, budgetRefusal, phaseRefusal, phaseIDs, planEditRefusal } from "./refusal.ts";

/**
 * Turns a phase into a Task. The Task, the Mission's record of it and its reserved budget are one commit, under the
 * Mission's claim and at the version it was decided at; a call that runs again finds its Task.
 */

export const lookInMinutes = z.number().int().min(1).max(43_200);

const input = z.strictObject({
  phase: z.string().describe("Id of a phase of the plan"),
  request: z.string().min(1).max(100_000).describe("The whole brief: the squad has read nothing of this conversation"),
  title: z.string().min(1).max(200).optional(),
  squad: z.string().min(1).max(64).optional().describe("Default: the squad that owns the phase"),
  general: z.string().min(1).max(500).optional().describe("Where a squad could be made: why a general one is enough"),
  checks: z
    .array(checkInput)
    .max(20)
    .optional()
    .describe(`What must pass. Default: what passes now of the project's commands; []: none. ${checkForms}`),
  attachments: z
    .array(z.string().min(1).max(255))
    .max(16)
    .optional()
    .describe("Files that it gets: the user's by name, artifacts of Tasks by id"),
  priority: z.enum(["critical", "high", "normal", "low"]).optional(),
  budget: taskBudget.optional().describe("Default: its share of what is left"),
  lookInMinutes: lookInMinutes.optional().describe("You are woken then, if it has not ended"),
});

type Input = z.infer<typeof input>;

export const dispatchTool = (run: MissionRun): Tool<Input> => ({
  name: "dispatch",
  description:
    "Creates the Task of a phase. It works in a copy of the project, is checked by the service, and lands by itself. " +
    "The service tells it the phase's objective and acceptance, and what earlier phases left; add what only you know. " +
    "Refused while a phase before it is not done, and beyond the budget.",
  input,
  effect: "log",
  run: (request, { callID }) => run.inOrder(() => dispatch(run, request, callID)),
});

const dispatch = async (run: MissionRun, given: Input, callID: string): Promise<ToolResult> => {
  const phase = run.state().plan.find(({ id }) => id === given.phase);
  if (phase === undefined)
    return failed(
      `Expected the id of a phase of the plan (${phaseIDs(run.state())}), got ${JSON.stringify(given.phase)}. Nothing was dispatched.`,
    );
  // The Task was created before a restart, and has its files already.
  const known = run.state().tasks.some((task) => task.callID === callID);
  const attachments = known ? [] : await filesOf(run, [...new Set(given.attachments)]);
  if (typeof attachments === "string") return failed(`${attachments} Nothing was dispatched.`);
  return makeTask(run, {
    callID,
    phase,
    attachments,
    brief: hash("sha256", given.request),
    bar: (state) => phaseRefusal(state, phase, hash("sha256", given.request)),
    squad: async () => {
      const chosen = await chooseSquad(run, phase, given);
      if (!chosen.ok) return chosen.why;
      const { found, general } = chosen;
      const { id, version } = found.squad;
      return { id, version, digest: found.digest, ...(general === undefined ? {} : { general }) };
    },
    body: {
      request: given.request,
      title: given.title ?? phase.title,
      ...(given.checks === undefined ? {} : { checks: given.checks }),
      priority: given.priority ?? run.state().priority,
    },
    budget: given.budget as MissionBudget | undefined,
    lookInMinutes: given.lookInMinutes,
    handover: handoverOf(run.state(), phase, run.chat.note, await commitsLeft(run, phase)),
    contract: { title: phase.title, objective: phase.objective, acceptance: phase.acceptance },
    production: undefined,
  });
};

/** The named files: the user's by name, artifacts of Tasks by id. A string says why they cannot be attached. */
const filesOf = async (run: MissionRun, names: readonly string[]): Promise<AttachmentRef[] | string> => {
  const { attachments, tasks } = run.state();
  const folds = names.some((name) => isID("art", name))
    ? await Promise.all(tasks.map(({ taskID }) => run.store.state(taskID)))
    : [];
  const kept = folds.flatMap((task) => task?.artifacts ?? []);
  const files: AttachmentRef[] = [];
  for (const name of names) {
    const file =
      attachments.find(({ filename }) => filename === name) ?? kept.find(({ artifactID }) => artifactID === name);
    if (file === undefined) {
      const there = attachments.map(({ filename }) => JSON.stringify(filename)).join(", ");
      return `Expected names of files that the user sent (${there || "there are none"}) or ids of artifacts of your Tasks, got ${JSON.stringify(name)}.`;
    }
    const { filename, mime, bytes, sha256 } = file;
    files.push({ filename, mime, bytes, sha256 });
  }
  const { attachments: most, attachmentsBytes } = run.limits;
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  return files.length > most || bytes > attachmentsBytes
    ? `Expected at most ${most} files of ${attachmentsBytes} bytes together, got ${files.length} of ${bytes}: attach those that this Task needs.`
    : files;
};

// ---- Creating the Task ---------------------------------------------------------------------------------------------

/** A squad's revision. `general`: why it is used although it does not own the phase. */
type Chosen = { id: string; version: string; digest: string; general?: string };

export type TaskPlan = {
  callID: string;
  phase: PlannedPhase;
  brief: string;
  /** Why the Task must not be created; asked again for each state at which the commit is tried. */
  bar: (state: MissionState) => string | undefined;
  /** The squad to use; a string says why there is none. */
  squad: () => Promise<Chosen | string>;
  body: Omit<TaskCreate, "productPillar" | "attachments">;
  attachments: readonly AttachmentRef[];
  budget: MissionBudget | undefined;
  lookInMinutes?: number | undefined;
  handover: string | undefined;
  /** The phase's contract, by which the review judges in addition to the brief. */
  contract: MissionDispatch["phase"];
  production: MissionDispatch["production"];
};

export const makeTask = async (run: MissionRun, making: TaskPlan): Promise<ToolResult> => {
  const { callID, phase } = making;
  for (;;) {
    run.signal.throwIfAborted();
    const known = run.state().tasks.find((task) => task.callID === callID);
    if (known !== undefined) return ok(dispatched(known));
    const own = await readyLocalBranch(run);
    if ("why" in own) return failed(`${own.why} Nothing was dispatched.`);
    const state = run.state();
    const edited = planEditRefusal(state);
    if (edited !== undefined) return failed(`${edited}. Nothing was dispatched.`);
    if (isPlanDue(state)) return failed(`${approvalRefusal(state)} Nothing was dispatched.`);
    const bar = making.bar(state);
    if (bar !== undefined) return failed(`${bar} Nothing was dispatched.`);
    const kept = run.limits.reservePercent;
    const first = isFirst(state, phase.id, making.production !== undefined);
    const squad = await making.squad();
    if (typeof squad === "string") return failed(`${squad} Nothing was dispatched.`);
    const by = making.production === undefined ? { squad: squad.id } : {};
    const share = shareOf(state, making.budget, { first, kept, ...by });
    if (!share.ok) return failed(`${budgetRefusal(state, share)} Nothing was dispatched.`);
    const task = await create(run, making, state, squad, share.budget, own.onto);
    if (task === "again") continue;
    if (typeof task === "object") return task;
    await run.record([]);
    const made = run.state().tasks.find(({ taskID }) => taskID === task);
    if (made === undefined) throw new Error(`Expected ${task} of phase ${phase.id} in the Mission's log, got none.`);
    return ok(dispatched(made));
  }
};

/** Resolves to the Task's id, to "again" when the Mission's log has moved on, or to the refusal. */
const create = async (
  run: MissionRun,
  { callID, phase, brief, body, attachments, handover, contract, production, lookInMinutes: minutes }: TaskPlan,
  state: MissionState,
  { general, ...squad }: Chosen,
  budget: MissionBudget | null,
  onto: string | undefined,
): Promise<string | ToolResult> => {
  const { productPillar, missionID, version } = state;
  const origin: MissionDispatch = {
    mission: { missionID, sessionID: run.stream, callID, phase: phase.id },
    production,
    approve: state.approve.filter((of) => of === (production === undefined ? landingOf(state) : "squad")),
    onto,
    expected: squad,
    model: state.models.tasks ?? state.named ?? undefined,
    reviewModel: state.models.review ?? undefined,
    attachments,
    handover,
    phase: contract,
    also: ({ taskID, title, squad: pinned }) => ({
      append: {
        stream: run.stream,
        expected: version,
        events: [
          {
            type: "task.dispatched",
            data: {
              sessionID: run.stream,
              callID,
              taskID,
              phase: phase.id,
              title,
              squad: pinned,
              brief,
              production: production === undefined ? null : { identity: production.identity, squad: production.squad },
              reserved: budget,
              ...(minutes === undefined ? {} : { lookAt: minutesFromNow(run, minutes) }),
              ...(general === undefined ? {} : { general }),
              ...(attachments.length === 0 ? {} : { attachments: attachments.map(({ filename }) => filename) }),
            },
          },
        ],
      },
      fence: run.fence,
    }),
  };
  try {
    const place = await readyRemoteBranch(run);
    if ("why" in place) return failed(`${place.why} Nothing was dispatched.`);
    const { directory } = place;
    const { git, mirror } = await run.workspaces.inspect(directory);
    const catalog = onto === undefined ? undefined : await catalogDirectory(run);
    const made = await run.tasks.create(
      directory,
      {
        ...body,
        productPillar,
        promptProfile: squad.id,
        source: "mission",
        ...(Object.keys(state.limits).length === 0 ? {} : { limits: state.limits }),
        ...(budget === null ? {} : { budget }),
        // A later phase starts from the project's branch, or with a repository from the Mission's, so the result has to
        // land there.
        ...(mirror === undefined && (git === undefined || git.head === null) ? {} : { landing: "commit" as const }),
      },
      undefined,
      { ...origin, catalog },
    );
    return made.body.taskID;
  } catch (error) {
    if (error instanceof MissionMovedOn) {
      if (error.reason === "fence") throw new ClaimLost();
      await run.record([]);
      return "again";
    }
    if (error instanceof NoFiles || (error instanceof ServiceError && error.code !== "store_unavailable"))
      return failed(`${messageOf(error)} Nothing was dispatched.`);
    throw error;
  }
};

/** On a branch of the Mission's own no single landing is approved, only the merge. */
const landingOf = ({ landing, repository }: MissionState): "landing" | undefined =>
  landing === "branch" && repository === null ? undefined : "landing";
/** The time this many minutes from now. */
export const minutesFromNow = ({ now }: Pick<MissionRun, "now">, minutes: number): string =>
  new Date(now().getTime() + minutes * 60_000).toISOString();

const dispatched = (task: { taskID: string; phase: string; squad: SquadRef; reserved: MissionBudget | null }): string =>
  JSON.stringify({
    dispatched: task.taskID,
    phase: task.phase,
    squad: { id: task.squad.id, version: task.squad.version, digest: task.squad.digest },
    ...(task.reserved === null ? {} : { budget: task.reserved }),
  });
