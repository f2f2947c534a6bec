import { z } from "zod";
import type { MissionState } from "../../domain/state/mission.ts";
import { phaseState } from "../../domain/mission/plan.ts";
import { isJudged, verdictOn } from "../../domain/mission/whole/verdict.ts";
import { failed, ok } from "../../tool/result.ts";
import { NoFiles, type Tool, type ToolContext } from "../../tool/tool.ts";
import type { MissionRun } from "../run.ts";
import { isGreen, failedRequired, verify } from "../verify.ts";
import { planEditRefusal, firstNames } from "./refusal.ts";
import { evidenceText } from "./verify.ts";

/** The tool by which the agent says how the Mission stands. */

const finishInput = z.strictObject({
  outcome: z.enum(["done", "blocked", "waiting"]),
  summary: z.string().min(1).max(8000).describe("For the user, who has not watched"),
  wakeInMinutes: z.number().int().min(1).max(525_600).optional().describe("With waiting: you are woken then"),
});

export const finishTool = (run: MissionRun): Tool<z.infer<typeof finishInput>> => ({
  name: "finish",
  description:
    "Says how the whole stands, and ends your turn. done: every phase is done; refused while a check of the whole is red. blocked: you can do nothing more without the user; say what is missing. " +
    "waiting: something outside has to happen first, no Task of yours.",
  input: finishInput,
  effect: "log",
  run: ({ outcome, summary, wakeInMinutes }, context) =>
    run.inOrder(async () => {
      const { callID } = context;
      const before = run.state();
      if (before.finished?.callID === callID) return ok("Said.");
      if (before.judging?.callID === callID) return ok(isJudgedNow);
      if (wakeInMinutes !== undefined && outcome !== "waiting")
        return failed(
          `Expected wakeInMinutes only with the outcome waiting, got ${outcome}. Nothing was said: leave it out, or say waiting.`,
        );
      const stillOpen = outcome === "done" ? openPhases(before) : undefined;
      if (stillOpen !== undefined) return failed(stillOpen);
      const accepted = outcome === "done" ? await accept(run, context) : undefined;
      if (typeof accepted === "string") return failed(accepted);
      const state = run.state();
      // The checks may have taken long; a message that came in meanwhile may mean more work.
      if (state.input > (state.reply?.read ?? 0) || planEditRefusal(state) !== undefined) return failed(cameIn);
      const wakeAt =
        wakeInMinutes === undefined ? null : new Date(run.now().getTime() + wakeInMinutes * 60_000).toISOString();
      const decidedAt = state.version;
      const judging = accepted?.judge;
      const verified = accepted === undefined ? {} : { verified: accepted.verified };
      const said = await run.record(
        [
          judging === undefined
            ? {
                type: "mission.finished",
                data: { sessionID: run.stream, callID, outcome, summary, wakeAt, ...verified },
              }
            : { type: "mission.judging", data: { sessionID: run.stream, callID, summary, commit: judging } },
        ],
        { decidedAt },
      );
      if (!said) return failed(cameIn);
      if (judging !== undefined) return ok(isJudgedNow);
      return ok(accepted?.known === undefined || accepted.verified ? "Said." : unverified(accepted.known));
    }),
});

const cameIn =
  "A message came in while this was decided, so nothing was said. It is the next thing that you read; call `finish` again if it changes nothing.";

const isJudgedNow =
  "Said. A session that did not plan judges the whole now. The Mission ends with its verdict; you are woken if it finds that something is missing.";

const unverified = (verdict: string): string =>
  `Said. The Mission ends without being verified: the verdict on these files is "${verdict}", and they were not changed since.`;

/** Why the plan is not done; undefined: it is. */
const openPhases = (state: MissionState): string | undefined => {
  const open = state.plan.filter((phase) => phaseState(state, phase) !== "done");
  return open.length === 0
    ? undefined
    : `Expected every phase of the plan to be done, these are not: ${firstNames(open.map((phase) => `${phase.id} (${phaseState(state, phase)})`))}. ${open.some((phase) => isAtWork(phaseState(state, phase))) ? "End your turn without a call: you are woken when a Task ends. Or c" : "C"}hange the plan if they are no longer wanted, or say blocked.`;
};

const isAtWork = (phase: ReturnType<typeof phaseState>): boolean => phase === "running" || phase === "producing";

/**
 * `judge`: the commit that has to be judged before the outcome is known. `known`: the verdict that there is already.
 */
type Accepted = { verified: boolean; judge?: string; known?: string };

/** Runs the user's checks of the whole on the project's head. A string says why the Mission is not done. */
const accept = async (
  run: MissionRun,
  context: Pick<ToolContext, "callID" | "signal" | "onOutput">,
): Promise<Accepted | string> => {
  const { checks } = run.state();
  if (checks.length === 0) return unchecked(run);
  const done = await verify(run, { callID: context.callID, of: "acceptance", checks }, context);
  if (typeof done === "string")
    return `${done} The user's checks of the whole could not be run, so it is not done: say blocked if you cannot help that.`;
  return failedRequired(done.results).length === 0
    ? { verified: isGreen(done.results) }
    : `The user's checks of the whole are red on ${done.commit}, so it is not done. Have it mended by a Task, or say blocked.\n${evidenceText(done.results, checks)}`;
};

/**
 * Without checks of the user's, a verdict decides. One on the same commit and the same words of the user counts;
 * otherwise a new one is asked for, as long as the limit on rounds allows it.
 */
const unchecked = async (run: MissionRun): Promise<Accepted> => {
  const state = run.state();
  if (!isJudged(state)) return { verified: false };
  const commit = await run.newestHead().then(
    (head) => head.commit,
    (error: unknown) => {
      if (error instanceof NoFiles) return null;
      throw error;
    },
  );
  if (commit === null) return { verified: false };
  const known = verdictOn(state, commit);
  if (known != null) return { verified: known.verdict === "accepted", known: known.verdict };
  return state.judged < run.limits.checkRounds ? { verified: false, judge: commit } : { verified: false };
};
