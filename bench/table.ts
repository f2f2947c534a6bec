/** Figures, how they are judged, and the one table. */

/** `overFloor`: the service's figure less the floor's; `timesFloor`, `timesFloorAtLeast`: divided by it. */
export type Goal =
  | { kind: "atMost"; value: number }
  | { kind: "overFloor"; value: number }
  | { kind: "timesFloor"; value: number }
  | { kind: "timesFloorAtLeast"; value: number };

export type Row = {
  figure: string;
  unit: string;
  service: number;
  floor?: number;
  /** The median of the rounds' own ratios, not the ratio of the medians. */
  ratio?: number;
  goal?: Goal;
  note?: string;
  /** How the figure comes about along something that grows; `at`: its number. */
  series?: readonly { at: number; service: number; floor: number }[];
};

/** One measurement of both, taken one right after the other. */
export type Round = { service: number; floor: number };

export const median = (values: readonly number[]): number => {
  const sorted = values.toSorted((a, b) => a - b);
  const [low, high] = [sorted[(sorted.length - 1) >> 1], sorted[sorted.length >> 1]];
  if (low === undefined || high === undefined) throw new Error("Expected at least one value");
  return (low + high) / 2;
};

export const rowOf = (
  figure: string,
  unit: string,
  rounds: readonly Round[],
  more: Pick<Row, "goal" | "note" | "series"> = {},
): Row => ({
  figure,
  unit,
  service: median(rounds.map(({ service }) => service)),
  floor: median(rounds.map(({ floor }) => floor)),
  ratio: median(rounds.map(({ service, floor }) => service / floor)),
  ...more,
});

/** undefined: there is no goal. */
export const isMet = ({ service, floor = 0, ratio = 0, goal }: Row): boolean | undefined => {
  switch (goal?.kind) {
    case undefined:
      return undefined;
    case "atMost":
      return service <= goal.value;
    case "overFloor":
      return service - floor <= goal.value;
    case "timesFloor":
      return ratio <= goal.value;
    case "timesFloorAtLeast":
      return ratio >= goal.value;
  }
};

const goalText = ({ goal, unit }: Row): string => {
  switch (goal?.kind) {
    case undefined:
      return "";
    case "atMost":
      return `<= ${goal.value} ${unit}`;
    case "overFloor":
      return `<= floor + ${goal.value} ${unit}`;
    case "timesFloor":
      return `<= ${goal.value} x`;
    case "timesFloorAtLeast":
      return `>= ${goal.value} x`;
  }
};

const number = (value: number | undefined): string =>
  value === undefined ? "" : value >= 1000 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);

const columns: [title: string, text: (row: Row) => string][] = [
  ["figure", ({ figure }) => figure],
  ["unit", ({ unit }) => unit],
  ["sortie", ({ service }) => number(service)],
  ["floor", ({ floor }) => number(floor)],
  ["ratio", ({ ratio }) => number(ratio)],
  ["goal", goalText],
  ["met", (row) => ({ true: "yes", false: "NO", undefined: "" })[String(isMet(row)) as "true" | "false" | "undefined"]],
  ["note", ({ note = "" }) => note],
];

const onTheRight = new Set(["sortie", "floor", "ratio"]);

export const tableOf = (rows: readonly Row[]): string => {
  const widths = columns.map(([title, text]) => Math.max(title.length, ...rows.map((row) => text(row).length)));
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, index) => {
        const width = widths[index] ?? 0;
        return onTheRight.has(columns[index]?.[0] ?? "") ? cell.padStart(width) : cell.padEnd(width);
      })
      .join("  ")
      .trimEnd();
  return [
    line(columns.map(([title]) => title)),
    widths.map((width) => "-".repeat(width)).join("  "),
    ...rows.map((row) => line(columns.map(([, text]) => text(row)))),
  ].join("\n");
};
