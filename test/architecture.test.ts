import { existsSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { expect, test } from "vitest";

/**
 * The drawings of ARCHITECTURE.md: the rooms from the lowest up, and the files that POST /task passes on its way to the
 * ZIP.
 */

const root = resolve(import.meta.dirname, "..");
const text = readFileSync(join(root, "ARCHITECTURE.md"), "utf8");

/** The labels of a Mermaid drawing in the order of its arrows; one arrow a line, each from where the last one ended. */
const labelsOf = (drawing: string): string[] => {
  const labels = new Map<string, string>();
  for (const [, name = "", label = ""] of drawing.matchAll(/(\w+)\["([^"]+)"\]/g)) labels.set(name, label);
  const arrows = [...drawing.matchAll(/(\w+)(?:\["[^"]+"\])? --> (\w+)/g)].map(([, from = "", to = ""]) => ({
    from,
    to,
  }));
  const [first] = arrows;
  const chain = first === undefined ? [] : [first.from];
  for (const { from, to } of arrows) if (from === chain.at(-1)) chain.push(to);
  return chain.map((name) => labels.get(name) ?? name);
};

/** The walk: folders with their files, in order. */
const walkIn = (document: string): { room: string; files: string[] }[] => {
  const [, drawing = ""] = /## From POST \/task[\s\S]*?```mermaid\n([\s\S]*?)```/.exec(document) ?? [];
  return labelsOf(drawing).map((label) => {
    const [room = "", files = ""] = label.split(": ");
    return { room, files: files.split(", ") };
  });
};

/** The rooms as drawn, the lowest first. */
const roomsIn = (document: string): string[] => {
  const [, drawing = ""] = /## Rooms[\s\S]*?```mermaid\n([\s\S]*?)```/.exec(document) ?? [];
  const [base = "", ...rooms] = labelsOf(drawing).map((label) => label.split(":")[0] ?? "");
  return [...base.split(" "), ...rooms];
};

/** What is wrong with a walk, one line each. `read` gives a file's text, undefined where there is none. */
const faultsIn = (document: string, read: (path: string) => string | undefined): string[] => {
  const walk = walkIn(document);
  const rooms = roomsIn(document);
  const files = walk.flatMap(({ room, files }) => files.map((file) => `${room}/${file}`));
  const faults: string[] = [];
  if (walk.length === 0 || walk.length > 12) faults.push(`${walk.length} rooms, at most 12`);
  if (files.length > 24) faults.push(`${files.length} files, at most 24`);
  for (const path of files) {
    const code = read(path);
    if (code === undefined) {
      faults.push(`${path} does not exist`);
      continue;
    }
    const own = rooms.indexOf(path.split("/")[0] ?? "");
    if (own < 0) faults.push(`${path}: its room is not drawn`);
    for (const [, specifier = ""] of code.matchAll(/\bfrom "(\.[^"]+)"/g)) {
      const target = join(dirname(path), specifier).split("/")[0] ?? "";
      if (rooms.indexOf(target) > own) faults.push(`${path} imports ${target}, which stands later`);
    }
  }
  return faults;
};

const source = (path: string): string | undefined =>
  existsSync(join(root, "src", path)) ? readFileSync(join(root, "src", path), "utf8") : undefined;

test("the way from POST /task to the ZIP: each file exists, and imports no room that stands later", () => {
  expect(faultsIn(text, source)).toEqual([]);
  expect(walkIn(text).flatMap(({ files }) => files).length).toBeGreaterThan(12);
});

test("control: a file that is gone, a room that is not drawn and an import upwards are named", () => {
  const moved = text
    .replace("task/operation/create: create.ts", "task/operation/create: creation.ts")
    .replace("engine: in-process.ts", "motor: in-process.ts");
  expect(
    faultsIn(moved, (path) =>
      path === "motor/in-process.ts"
        ? ""
        : path === "store/batch/batch.ts"
          ? 'import { a } from "../../http/app.ts";'
          : source(path),
    ),
  ).toEqual([
    "task/operation/create/creation.ts does not exist",
    "store/batch/batch.ts imports http, which stands later",
    "motor/in-process.ts: its room is not drawn",
  ]);
});

test("the text is at most half of what it was at 71a76f3", () => {
  expect(Buffer.byteLength(text)).toBeLessThanOrEqual(11_429 / 2);
});
