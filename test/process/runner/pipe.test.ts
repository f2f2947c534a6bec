import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { makePipes, removePipesAhead } from "../../../src/process/runner/pipe.ts";
import { findProgram } from "../../../src/process/sandbox/sandbox.ts";
import { temporary } from "../../harness/project.ts";

/** One process makes the named pipes of several sandboxes. */

const path = process.env["PATH"] ?? "";
afterEach(() => {
  process.env["PATH"] = path;
});

/** A folder of sandboxes, and the starts of mkfifo from now on. */
const scene = () => {
  const folder = temporary("sortie-pipe-");
  const boxes = join(folder.path, "open");
  const bin = join(folder.path, "bin");
  const store = join(folder.path, "pipes");
  const log = join(folder.path, "log");
  for (const each of [boxes, bin]) mkdirSync(each);
  writeFileSync(log, "");
  const script = `#!/bin/sh\necho started >>'${log}'\nexec '${findProgram("mkfifo", path)}' "$@"\n`;
  writeFileSync(join(bin, "mkfifo"), script);
  chmodSync(join(bin, "mkfifo"), 0o755);
  process.env["PATH"] = `${bin}:${path}`;
  const open = async (name: string, shared = true): Promise<string> => {
    const box = join(boxes, name);
    mkdirSync(box);
    const problem = await new Promise<string | undefined>((resolve) =>
      makePipes(box, 0, resolve, shared ? store : undefined),
    );
    if (problem !== undefined) throw new Error(problem);
    return box;
  };
  const starts = () => readFileSync(log, "utf8").split("\n").length - 1;
  return { store, open, starts, [Symbol.dispose]: () => folder[Symbol.dispose]() };
};

const pipesIn = (box: string) =>
  readdirSync(box)
    .filter((name) => statSync(join(box, name)).isFIFO() && (statSync(join(box, name)).mode & 0o777) === 0o600)
    .sort();

test("eight sandboxes one after another have pipes of their own from one process, the ninth from another", async () => {
  using own = scene();
  const inodes = new Set<number>();
  for (let at = 0; at < 8; at += 1) {
    const box = await own.open(`box-${at}`);
    expect(pipesIn(box)).toEqual(["0.0", "0.1", "0.2"]);
    for (const name of pipesIn(box)) inodes.add(statSync(join(box, name)).ino);
  }
  expect(inodes.size).toBe(24);
  expect(own.starts()).toBe(1);
  await own.open("box-8");
  expect(own.starts()).toBe(2);
});

test("those that are opened at once all have theirs", async () => {
  using own = scene();
  const boxes = await Promise.all(Array.from({ length: 5 }, (_, at) => own.open(`box-${at}`)));
  for (const box of boxes) expect(pipesIn(box)).toEqual(["0.0", "0.1", "0.2"]);
});

test("without a place to keep them, each has a process of its own", async () => {
  using own = scene();
  for (let at = 0; at < 3; at += 1) expect(pipesIn(await own.open(`box-${at}`, false))).toEqual(["0.0", "0.1", "0.2"]);
  expect(own.starts()).toBe(3);
  expect(existsSync(own.store)).toBe(false);
});

test("where the ready ones were taken away, or the end came, new ones are made", async () => {
  using own = scene();
  await own.open("first");
  rmSync(own.store, { recursive: true });
  expect(pipesIn(await own.open("second"))).toEqual(["0.0", "0.1", "0.2"]);
  removePipesAhead();
  expect(readdirSync(own.store)).toEqual([]);
  expect(pipesIn(await own.open("third"))).toEqual(["0.0", "0.1", "0.2"]);
});
