import { writeFileSync } from "node:fs";
import { join } from "node:path";
import * as Plot from "@observablehq/plot";
import { parseHTML } from "linkedom";
import type { Row } from "./table.ts";

/** Pictures of the figures, for docs/performance.md: SVG, once for a light page and once for a dark one. */

type Look = { name: string; ink: string; soft: string; line: string; own: string; floor: string };

const looks: readonly Look[] = [
  { name: "", ink: "#1c1b19", soft: "#6b6862", line: "#dedbd4", own: "#b4531f", floor: "#8a8780" },
  { name: "-dark", ink: "#eceae5", soft: "#a19e97", line: "#3a3834", own: "#e8925a", floor: "#8a8780" },
];

const short = (value: number): string =>
  value >= 1000 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);

type Options = Plot.PlotOptions & { title: string };

const write = (folder: string, name: string, options: (look: Look) => Options): void => {
  for (const look of looks) {
    const { title, ...plot } = options(look);
    const { document } = parseHTML("<!doctype html><html><body></body></html>");
    const svg = Plot.plot({
      width: 760,
      marginBottom: 40,
      ...plot,
      document,
      ariaLabel: title,
      style: { color: look.ink, background: "none", fontSize: "12px" },
    });
    svg.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    writeFileSync(join(folder, `bench-${name}${look.name}.svg`), `${svg.outerHTML}\n`);
  }
};

const ticks = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20];

/** Each figure divided by that of the bare loop, which is the line at 1; the tick is the goal. */
const drawRatios = (folder: string, rows: readonly Row[]): void => {
  const shown = rows.flatMap(({ figure, unit, service, floor, ratio, goal }) =>
    floor === undefined || ratio === undefined || figure.startsWith("memory")
      ? []
      : [
          {
            figure,
            ratio,
            words: `${short(service)} for ${short(floor)} ${unit}`,
            goal: goal?.kind === "timesFloor" || goal?.kind === "timesFloorAtLeast" ? goal.value : undefined,
          },
        ],
  );
  if (shown.length === 0) return;
  write(folder, "ratios", ({ ink, soft, line, own }) => ({
    title: "Sortie's figures divided by those of the bare loop",
    height: 26 * shown.length + 60,
    marginLeft: 240,
    marginRight: 150,
    x: {
      type: "log",
      label: "times the bare loop",
      domain: [0.1, 20],
      clamp: true,
      ticks,
      tickFormat: "~g",
    },
    y: { domain: shown.map(({ figure }) => figure), label: null, tickSize: 0 },
    marks: [
      Plot.gridX(ticks, { stroke: line, strokeOpacity: 1 }),
      Plot.barX(shown, { x1: 1, x2: "ratio", y: "figure", fill: own, insetTop: 5, insetBottom: 5 }),
      Plot.tickX(
        shown.filter(({ goal }) => goal !== undefined),
        { x: "goal", y: "figure", stroke: ink, strokeWidth: 2, insetTop: 3, insetBottom: 3 },
      ),
      Plot.ruleX([1], { stroke: soft }),
      Plot.text(shown, {
        x: 20,
        y: "figure",
        text: "words",
        textAnchor: "start",
        dx: 10,
        fill: soft,
      }),
    ],
  }));
};

type Point = { x: number; value: number; of: "Sortie" | "bare loop" };

const drawLines = (
  folder: string,
  name: string,
  points: readonly Point[],
  { title, x, y }: { title: string; x: Plot.ScaleOptions; y: string },
): void => {
  if (points.length === 0) return;
  const last = [...Map.groupBy(points, ({ of }) => of).values()].flatMap((line) => line.at(-1) ?? []);
  write(folder, name, ({ own, floor, line }) => ({
    title,
    height: 260,
    marginRight: 80,
    color: { domain: ["Sortie", "bare loop"], range: [own, floor] },
    x: { ...x, grid: false },
    y: { label: y, zero: true, nice: true },
    marks: [
      Plot.gridY({ stroke: line, strokeOpacity: 1 }),
      Plot.line(points, { x: "x", y: "value", stroke: "of", strokeWidth: 2 }),
      Plot.dot(points, { x: "x", y: "value", fill: "of", r: 2.5 }),
      Plot.text(last, { x: "x", y: "value", text: "of", fill: "of", textAnchor: "start", dx: 8 }),
    ],
  }));
};

export const draw = (folder: string, rows: readonly Row[]): void => {
  drawRatios(folder, rows);
  const growth = rows.flatMap(({ series = [] }) => series);
  drawLines(
    folder,
    "steps",
    growth.flatMap(({ at, service, floor }): Point[] => [
      { x: at, value: service, of: "Sortie" },
      { x: at, value: floor, of: "bare loop" },
    ]),
    { title: "Milliseconds of a step by its number", x: { label: "step" }, y: "ms a step" },
  );
  const waiting = (figure: string): number | undefined => {
    const [, count] = /^memory, (?:(\d+) waiting on the model|idle)$/.exec(figure) ?? [];
    return figure === "memory, idle" ? 0 : count === undefined ? undefined : Number(count);
  };
  drawLines(
    folder,
    "memory",
    rows.flatMap(({ figure, service, floor }): Point[] => {
      const x = waiting(figure);
      return x === undefined || floor === undefined
        ? []
        : [
            { x, value: service, of: "Sortie" },
            { x, value: floor, of: "bare loop" },
          ];
    }),
    { title: "Resident memory by the number of waiting Tasks", x: { label: "Tasks that wait for a model" }, y: "MB" },
  );
};
