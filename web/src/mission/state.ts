import type { MissionPhase, MissionStatus, MissionSummary } from "../../../src/protocol/mission/status.ts";
import type { Share } from "../component/layout/progress.tsx";
import type { State } from "../format.ts";

/** The progress bar of a Mission: its phases by state, or its Tasks if there is no plan. */
export const sharesOf = ({ plan, taskCounts }: Pick<MissionStatus, "plan" | "taskCounts">): Share[] => {
  if (plan.length === 0)
    return [
      { words: "running", count: taskCounts.running, tone: "bg-run" },
      { words: "ended", count: taskCounts.inactive, tone: "bg-edge" },
    ];
  const count = (...states: MissionPhase["state"][]) => plan.filter(({ state }) => states.includes(state)).length;
  return [
    { words: "done", count: count("done"), tone: "bg-done" },
    { words: "under way", count: count("running", "producing"), tone: "bg-run" },
    { words: "failed", count: count("failed"), tone: "bg-fail" },
    { words: "cancelled", count: count("cancelled"), tone: "bg-edge" },
    { words: "to come", count: count("ready", "waiting"), tone: "bg-line" },
  ];
};

/**
 * The state of a Mission: whether it needs the user, which comes first, its agent thinks, its Tasks run, or it sleeps.
 */
export const missionState = (
  mission: Pick<MissionSummary, "status" | "agentStatus"> &
    Partial<Pick<MissionStatus, "pending" | "aborted" | "error" | "finished">>,
): { state: State; words: string } => {
  const { status, agentStatus, pending = [], aborted = false, error, finished } = mission;
  if (pending.length > 0) return { state: "need", words: "Needs you" };
  if (agentStatus === "running") return { state: "run", words: "Thinking" };
  if (status === "running") return { state: "run", words: "Tasks running" };
  if (aborted) return { state: "stop", words: "Aborted" };
  if (error !== undefined) return { state: "fail", words: "Stopped" };
  if (finished?.outcome === "done") return { state: "done", words: "Done" };
  if (finished?.outcome === "blocked") return { state: "need", words: "Blocked" };
  return { state: "queue", words: "Idle" };
};
