/** Whether what a service uses grows with what it has done. */

/** What was in use when so many Tasks had ended. */
export type Point<Name extends string = string> = { tasks: number } & Record<Name, number>;

/** The median of the slopes between all pairs of points (Theil and Sen): a few that are off do not move it. */
export const slopeOf = (points: readonly (readonly [x: number, y: number])[]): number => {
  const slopes = points
    .flatMap(([x, y], index) => points.slice(index + 1).map(([x2, y2]) => (y2 - y) / (x2 - x)))
    .toSorted((one, other) => one - other);
  const middle = (slopes.length - 1) / 2;
  const [low, high] = [slopes[Math.floor(middle)], slopes[Math.ceil(middle)]];
  if (low === undefined || high === undefined) throw new Error(`Expected two points or more, got ${points.length}.`);
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
