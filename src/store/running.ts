/**
 * Bounds on the Tasks that run at the same time, in all and of one project, over all nodes as on one; 0: none. A Task
 * runs while a claim on it is held. Missions do not count, and what only ends needs no room.
 */
export type RunningBounds = { all: number; project: number };

/** What has no room left: Tasks of these projects, or all Tasks. */
export type Full = { all: boolean; projects: readonly string[] };

export type RunningCount = {
  /** Which bound leaves no room for one more of the project; undefined: there is room. */
  lacks(project: string): "all" | "project" | undefined;
  take(project: string): void;
  full(): Full;
};

/** `running`: the projects of the Tasks that run, each as often as it has one. */
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
