import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import type { TaskSummary } from "../../../src/protocol/task/status.ts";
import { type Doing, doingIn } from "../api.ts";

/**
 * The Tasks with what they do right now: the list itself is reloaded only after an event, but progress changes in
 * between.
 */
export const useDoing = (tasks: readonly TaskSummary[], directories: readonly string[]): readonly TaskSummary[] => {
  const { data } = useQuery(doingIn(directories));
  return useMemo(() => tasks.map((task) => ({ ...task, ...newer(task, data?.get(task.taskID)) })), [tasks, data]);
};

const newer = (listed: Doing, asked: Doing | undefined): Doing | undefined =>
  listed.now === null || asked?.now == null || asked.now.since < listed.now.since ? undefined : asked;
