import type { MissionStatus, MissionSummary } from "../../../src/protocol/mission.ts";
import type { State } from "../words.ts";

/** Whether its agent thinks, its Tasks run, or it sleeps; what the reader is asked for comes first. */
export const missionState = (
  mission: Pick<MissionSummary, "status" | "agentStatus"> &
    Partial<Pick<MissionStatus, "pending" | "aborted" | "error" | "finished">>,
): { state: State; words: string } => {
  const { status, agentStatus, pending = [], aborted = false, error, finished } = mission;
  if (pending.length > 0) return { state: "need", words: "Needs you" };
  if (agentStatus === "running") return { state: "run", words: "Thinking" };
  if (status === "running") return { state: "run", words: "Tasks at work" };
  if (aborted) return { state: "stop", words: "Aborted" };
  if (error !== undefined) return { state: "fail", words: "Stopped" };
  if (finished?.outcome === "done") return { state: "done", words: "Done" };
  if (finished?.outcome === "blocked") return { state: "need", words: "Blocked" };
  return { state: "queue", words: "Asleep" };
};
