/**
 * Tasks that may have left processes: of no other need any be looked for. What a command started is gone when it has
 * ended, so a Task stays no longer than until its sandboxes are closed, with nothing of it under way.
 */
export type Suspects = ReturnType<typeof createSuspects>;

export const createSuspects = () => {
  const suspects = new Set<string>();
  /** Whose interactive programs run, by process. */
  const talking = new Map<number, string>();
  return {
    add: (taskID: string): unknown => suspects.add(taskID),
    has: (taskID: string): boolean => suspects.has(taskID),
    clear: (taskID: string): unknown => suspects.delete(taskID),
    talkBegan: (pid: number, taskID: string): unknown => talking.set(pid, taskID),
    talkEnded: (pid: number): unknown => talking.delete(pid),
    /** Its sandboxes are closed. `underWay`: a command of it runs. */
    closed(taskID: string, underWay: boolean): void {
      if (!underWay && ![...talking.values()].includes(taskID)) suspects.delete(taskID);
    },
    all: (): string[] => [...suspects],
  };
};
