/**
 * Bounds on the Tasks that run at the same time, in all and per project, over all nodes together; 0: no bound. A Task
 * runs while a claim on it is held. Missions do not count, and a run that only ends its Task needs no room.
 */
export type RunningBounds = { all: number; project: number };

/** The Tasks for which there is no room: those of these projects, or all. */
export type Full = { all: boolean; projects: readonly string[] };

export type RunningCount = {
  /** The bound that leaves no room for one more Task of the project; undefined: there is room. */
  lacks(project: string): "all" | "project" | undefined;
  take(project: string): void;
  full(): Full;
};

/** `running`: the projects of the running Tasks, each as often as it has one. */
export const countRunning = ({ all, project: each }: RunningBounds, running: Iterable<string>): RunningCount => {
  let sum = 0;
  const counts = new Map<string, number>();
  const take = (project: string): void => {
    sum += 1;
    counts.set(project, (counts.get(project) ?? 0) + 1);
  };
  for (const project of running) take(project);
  const isFull = () => all > 0 && sum >= all;
  return {
    take,
    lacks: (project) => (isFull() ? "all" : each > 0 && (counts.get(project) ?? 0) >= each ? "project" : undefined),
    full: () => ({
      all: isFull(),
      projects: each === 0 ? [] : [...counts].flatMap(([project, count]) => (count >= each ? [project] : [])),
    }),
  };
};
