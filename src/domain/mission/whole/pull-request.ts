import { inert } from "../../task/pull-request.ts";
import { deliveredBy, isWork, type MissionState } from "../../state/mission.ts";

/** The title and the body of the pull request for a Mission's whole change. */
export const pullRequestOf = (
  { title, finished, tasks, missionID }: Pick<MissionState, "title" | "finished" | "tasks" | "missionID">,
  page: string | undefined,
): { title: string; body: string } => {
  const landed = tasks.filter((task) => deliveredBy(task) !== undefined && isWork(task));
  const rows = landed.slice(0, mostTasks).map((task) => {
    const { title: what, taskID } = task;
    const commit = deliveredBy(task)?.landedCommit;
    const link = page === undefined ? taskID : `[${taskID}](${page}/ui/task/${taskID})`;
    return `- ${inert(what.replaceAll(/\s+/g, " "))} (${link}${commit == null ? "" : `, ${commit.slice(0, 10)}`})`;
  });
  const more = landed.length - rows.length;
  return {
    title: title.split("\n")[0]?.slice(0, 200) ?? missionID,
    body: [
      inert(finished?.summary.trim() ?? ""),
      rows.length === 0 ? "" : ["### Tasks", "", ...rows, ...(more > 0 ? [`- and ${more} more`] : [])].join("\n"),
      `Mission: ${missionID}`,
    ]
      .filter((part) => part !== "")
      .join("\n\n"),
  };
};

const mostTasks = 100;
