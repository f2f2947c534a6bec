import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import type { TaskSummary } from "../../../src/protocol/task/status.ts";
import { doingIn } from "../api.ts";

/** The Tasks with what they do at this moment: a list is read anew when something was recorded, a number grows in between. */
export const useDoing = (tasks: readonly TaskSummary[], directories: readonly string[]): readonly TaskSummary[] => {
  const { data } = useQuery(doingIn(directories));
  return useMemo(() => tasks.map((task) => ({ ...task, now: newer(task.now, data?.get(task.taskID)) })), [tasks, data]);
};

const newer = (listed: TaskSummary["now"], asked: TaskSummary["now"] | undefined): TaskSummary["now"] =>
  listed === null || asked == null || asked.since < listed.since ? listed : asked;
