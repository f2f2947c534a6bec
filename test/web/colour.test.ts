import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { home } from "../service/document/manual.ts";

/**
 * The colours of states are told apart by people who do not see all colours, in both themes. A state has its icon and
 * its word beside it all the same.
 */

type Triple = readonly [number, number, number];
type Matrix = readonly [Triple, Triple, Triple];

/** What is left of linear sRGB (Machado, Oliveira and Fernandes 2009, severity 1). */
const eyes: Record<string, Matrix> = {
  "all colours": [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  "no red": [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  "no green": [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  "no blue": [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039],
  ],
};

const times = (matrix: Matrix, [a, b, c]: Triple): Triple => {
  const row = ([x, y, z]: Triple): number => x * a + y * b + z * c;
  return [row(matrix[0]), row(matrix[1]), row(matrix[2])];
};
const each = ([a, b, c]: Triple, of: (value: number) => number): Triple => [of(a), of(b), of(c)];
const within = (value: number): number => Math.min(1, Math.max(0, value));

/** Björn Ottosson's OKLab, to and from linear sRGB. */
const linearOf = ([lightness, chroma, hue]: Triple): Triple => {
  const a = chroma * Math.cos((hue * Math.PI) / 180);
  const b = chroma * Math.sin((hue * Math.PI) / 180);
  const cones = times(
    [
      [1, 0.3963377774, 0.2158037573],
      [1, -0.1055613458, -0.0638541728],
      [1, -0.0894841775, -1.291485548],
    ],
    [lightness, a, b],
  );
  return each(
    times(
      [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.707614701],
      ],
      each(cones, (value) => value ** 3),
    ),
    within,
  );
};
const labOf = (linear: Triple): Triple =>
  times(
    [
      [0.2104542553, 0.793617785, -0.0040720468],
      [1.9779984951, -2.428592205, 0.4505937099],
      [0.0259040371, 0.7827717662, -0.808675766],
    ],
    each(
      times(
        [
          [0.4122214708, 0.5363325363, 0.0514459929],
          [0.2119034982, 0.6806995451, 0.1073969566],
          [0.0883024619, 0.2817188376, 0.6299787005],
        ],
        linear,
      ),
      Math.cbrt,
    ),
  );

/** Pairs that come closer than a fourteenth of the way from black to white. */
const alike = (colours: Record<string, Triple>): string[] =>
  Object.entries(eyes).flatMap(([eye, matrix]) => {
    const seen = Object.entries(colours).map(
      ([name, colour]) => [name, labOf(each(times(matrix, linearOf(colour)), within))] as const,
    );
    return seen.flatMap(([name, [l, a, b]], at) =>
      seen.slice(at + 1).flatMap(([other, [m, c, d]]) => {
        const apart = Math.hypot(l - m, a - c, b - d);
        return apart < 0.07 ? [`${eye}: ${name} and ${other}, ${apart.toFixed(3)}`] : [];
      }),
    );
  });

const states = ["run", "done", "fail", "need"] as const;
const text = readFileSync(join(home, "web/src/styles/theme.css"), "utf8");
const colourOf = (name: string, theme: 0 | 1): Triple => {
  const line = new RegExp(`--color-${name}: light-dark\\((.*)\\);`).exec(text)?.[1] ?? "";
  const [, ...parts] = [...line.matchAll(/oklch\(([\d.]+) ([\d.]+) ([\d.]+)\)/g)][theme] ?? [];
  const [lightness, chroma, hue] = parts.map(Number);
  if (lightness === undefined || chroma === undefined || hue === undefined)
    throw new Error(`Expected a colour ${name}.`);
  return [lightness, chroma, hue];
};

test.each([
  ["light", 0],
  ["dark", 1],
] as const)("states in the %s theme", (_, theme) => {
  expect(alike(Object.fromEntries(states.map((name) => [name, colourOf(name, theme)])))).toEqual([]);
});

test("control: a green and a red of one lightness are found, for eyes without green alone", () => {
  expect(alike({ done: [0.81, 0.13, 158], fail: [0.78, 0.12, 24] })).toEqual([
    expect.stringMatching(/^no green: done and fail/),
  ]);
});
