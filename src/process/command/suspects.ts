/**
 * The Tasks that may have left processes; no search is needed for any other Task. All processes of a command are gone
 * when it has ended, so a Task remains here only until its sandboxes are closed while nothing of it is under way.
 */
export type Suspects = ReturnType<typeof createSuspects>;

export const createSuspects = () => {
  const suspects = new Set<string>();
  /** The Task of each running interactive program, by process id. */
  const talking = new Map<number, string>();
  return {
    add: (taskID: string): unknown => suspects.add(taskID),
    has: (taskID: string): boolean => suspects.has(taskID),
    clear: (taskID: string): unknown => suspects.delete(taskID),
    talkBegan: (pid: number, taskID: string): unknown => talking.set(pid, taskID),
    talkEnded: (pid: number): unknown => talking.delete(pid),
    /** The Task's sandboxes are closed. `underWay`: a command of the Task still runs. */
    closed(taskID: string, underWay: boolean): void {
      if (!underWay && ![...talking.values()].includes(taskID)) suspects.delete(taskID);
    },
    all: (): string[] => [...suspects],
  };
};
