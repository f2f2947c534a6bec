/** Whether what a service uses grows with what it has done. */

/** What was in use when so many Tasks had ended. */
export type Point<Name extends string = string> = { tasks: number } & Record<Name, number>;

type Points = readonly (readonly [x: number, y: number])[];

/** The median of the slopes between all pairs of points (Theil and Sen): a few that are off do not move it. */
export const slopeOf = (points: Points): number =>
  medianOf(points.flatMap(([x, y], index) => points.slice(index + 1).map(([x2, y2]) => (y2 - y) / (x2 - x))));

/**
 * The median of the slopes between neighbours: what is given up at once, as a cache is, hides nothing that is kept
 * before and after it. For points with little noise.
 */
export const stepSlopeOf = (points: Points): number =>
  medianOf(
    points.slice(1).map(([x2, y2], index) => (y2 - (points[index]?.[1] ?? 0)) / (x2 - (points[index]?.[0] ?? 0))),
  );

const medianOf = (slopes: readonly number[]): number => {
  const sorted = slopes.toSorted((one, other) => one - other);
  const middle = (sorted.length - 1) / 2;
  const [low, high] = [sorted[Math.floor(middle)], sorted[Math.ceil(middle)]];
  if (low === undefined || high === undefined) throw new Error("Expected two points or more.");
  return (low + high) / 2;
};

/** By name, what was added over all the points; `tooMuch`: more than the bound of that name. */
export const growthOf = <Name extends string>(
  points: readonly Point<NoInfer<Name>>[],
  bounds: Readonly<Record<Name, number>>,
): { name: Name; added: number; tooMuch: boolean }[] => {
  const span = (points.at(-1)?.tasks ?? 0) - (points[0]?.tasks ?? 0);
  return (Object.keys(bounds) as Name[]).map((name) => {
    const added = span * slopeOf(points.map((point) => [point.tasks, point[name]]));
    return { name, added, tooMuch: added > bounds[name] };
  });
};
