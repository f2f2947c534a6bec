import { resolve } from "node:path";
import type { TaskStatus } from "../protocol/task/status.ts";
import { dataOf, type Service, type Target } from "./connection.ts";
import { Exit, exit } from "./terminal/exit.ts";

/**
 * Resolves ids that users type: full ids, unique parts of them, and `@last`. Also maps a Task's end to an exit code.
 */

const projectOf = ({ directory, repository }: Target): string => repository ?? resolve(directory);

/** The exit code for a Task's state. */
export const exitOf = (task: Pick<TaskStatus, "lifecycleStatus" | "error" | "errorInfo">): number => {
  switch (task.lifecycleStatus) {
    case "active":
    case "completed":
      return exit.completed;
    case "cancelled":
      return exit.cancelled;
    case "failed":
      if (task.errorInfo?.code === "checks_failed") return exit.checksFailed;
      if (task.errorInfo?.code === "needs_model") return exit.needsModel;
      return task.errorInfo?.code === "budget_reached" && task.error?.includes("(maxMinutes") === true
        ? exit.timeLimit
        : exit.failed;
  }
};

/**
 * The Mission's full id. Callers choose the ids of Missions, so a full id is never taken for the beginning of another.
 */
export const resolveMission = async (service: Service, target: Target, given: string): Promise<string> => {
  const missions = dataOf(await service.mission.list({ query: { archived: true, limit: 200 } }), target.url);
  if (missions.some(({ missionID }) => missionID === given)) return given;
  if (given === "@last") {
    const newest = missions.toSorted((one, other) => (one.createdAt < other.createdAt ? 1 : -1))[0];
    if (newest === undefined) throw new Exit(exit.usage, `There are no Missions in ${projectOf(target)} yet.`);
    return newest.missionID;
  }
  const matching = likeIt(
    missions.map(({ missionID }) => missionID),
    given,
    given,
  );
  if (matching.length > 1)
    throw new Exit(
      exit.usage,
      `"${given}" matches ${matching.length} Missions: ${matching.slice(0, 5).join(", ")}. Give a longer part of the id.`,
    );
  // An id that is not in the list may belong to an older Mission.
  return matching[0] ?? given;
};

/** Ids that begin with the text or, if there are none, ids that end with it: ids made in the same hour begin alike. */
const likeIt = (ids: readonly string[], beginning: string, ending: string): string[] => {
  const begun = ids.filter((id) => id.startsWith(beginning));
  return begun.length > 0 || ending === "" ? begun : ids.filter((id) => id.endsWith(ending));
};

/**
 * The Task's id: from a full id, from a unique beginning or end among the project's Tasks, or `@last` for the newest
 * Task.
 */
export const resolveID = async (service: Service, target: Target, given: string): Promise<string> => {
  if (/^task_[0-9a-z]{26}$/.test(given)) return given;
  const tasks = dataOf(await service.task.list({ query: { archived: true, limit: 200 } }), target.url);
  if (given === "@last") {
    const newest = tasks.toSorted((one, other) => (one.createdAt < other.createdAt ? 1 : -1))[0];
    if (newest === undefined)
      throw new Exit(exit.usage, `There are no Tasks in ${projectOf(target)} yet. For another project, add -C DIR.`);
    return newest.taskID;
  }
  const prefix = given.startsWith("task_") ? given : `task_${given}`;
  const matching = likeIt(
    tasks.map(({ taskID }) => taskID),
    prefix,
    given,
  );
  const [first] = matching;
  if (first !== undefined && matching.length === 1) return first;
  throw new Exit(
    exit.usage,
    first === undefined
      ? `No Task in ${projectOf(target)} has an id that begins or ends with "${given}"${tasks.length < 200 ? "" : " among its latest 200"}. See: sortie task ls`
      : `"${given}" matches ${matching.length} Tasks: ${matching.slice(0, 5).join(", ")}. Give a longer part of the id.`,
  );
};
