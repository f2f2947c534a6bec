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
    { words: "in progress", count: count("running", "producing"), tone: "bg-run" },
    { words: "failed", count: count("failed"), tone: "bg-fail" },
    { words: "cancelled", count: count("cancelled"), tone: "bg-edge" },
    { words: "not started", count: count("ready", "waiting"), tone: "bg-line" },
  ];
};

/** Whether the Mission's branch may have something to merge now; the request decides whether there is. */
export const isMergeable = ({ merge, landingBranch, state, stateReason, merged }: MissionStatus): boolean =>
  merge !== null &&
  landingBranch !== null &&
  merged?.state !== "running" &&
  !["working", "waiting", "asking", "aborted"].includes(state) &&
  (state !== "done" || stateReason !== null);

/** The state of a Mission in a word or two; states that need the user have a colour of their own. */
export const missionState = ({
  state,
  status,
  agentStatus,
  error,
  verified,
  now,
}: Pick<MissionSummary, "state" | "status" | "agentStatus" | "verified" | "now"> & {
  error?: string | null | undefined;
}): {
  state: State;
  words: string;
} => {
  switch (state) {
    case "asking":
      return { state: "need", words: "Needs you" };
    case "working":
    case "waiting":
      if (now?.kind === "verdict") return { state: "run", words: "Being judged" };
      if (agentStatus === "running") return { state: "run", words: "Thinking" };
      if (status === "running") return { state: "run", words: "Tasks running" };
      return { state: "queue", words: state === "waiting" ? "Waiting" : "Idle" };
    case "paused":
      return { state: "need", words: "Budget used up" };
    case "stalled":
      return error == null ? { state: "need", words: "Stalled" } : { state: "fail", words: "Stopped" };
    case "blocked":
      return { state: "need", words: "Blocked" };
    case "done":
      return { state: "done", words: verified === false ? "Done, not verified" : "Done" };
    case "aborted":
      return { state: "stop", words: "Aborted" };
  }
};
