import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { makeProject, writeFiles } from "../test/harness/project.ts";
import { createCaller } from "./client.ts";
import type { Floor } from "./floor.ts";
import type { Mock } from "./mock.ts";
import { type Listener, type ServiceOptions, startService } from "./service.ts";
import type { Row } from "./table.ts";
import { startWorker, type Worker } from "./worker.ts";

/** What the figures share: the mock model, the floor's process, folders, and the taking of turns. */

export type Bench = AsyncDisposable & {
  root: string;
  quick: boolean;
  baseURL: string;
  mock: Worker<Mock>;
  floor: Worker<Floor>;
  /** A service over a data folder of this name. */
  service(name: string, options?: Pick<ServiceOptions, "env" | "nodeArgs" | "config">): Promise<Listener>;
  /** A folder with ten small files, in Git or not. Made once per name. */
  project(name: string, kind: "plain" | "git"): string;
  /** Another process of the floor's, as new as a service that was just started. */
  fresh(): Promise<Worker<Floor>>;
  /** An id that was never used. */
  id(prefix: string): string;
};

export type Figure = (bench: Bench) => Promise<Row[]>;

const files = Object.fromEntries(
  Array.from({ length: 10 }, (_, index) => [
    `file-${index}.txt`,
    Array.from({ length: 10 }, (_, line) => `Line ${line} of file ${index}.`).join("\n"),
  ]),
);

export const createBench = async (root: string, quick: boolean): Promise<Bench> => {
  await using scope = new AsyncDisposableStack();
  const mock = scope.use(startWorker<Mock>("./mock.ts"));
  const floor = scope.use(startWorker<Floor>("./floor.ts"));
  const baseURL = await mock.call("start");
  await floor.call("open", join(root, "floor.db"));
  const projects = new Map<string, string>();
  let serial = 0;
  const service: Bench["service"] = (name, options = {}) =>
    startService({ dataDir: join(root, name), baseURL, ...options });
  const project: Bench["project"] = (name, kind) => {
    const path = projects.get(name) ?? join(root, "projects", name);
    if (projects.has(name)) return path;
    projects.set(name, path);
    mkdirSync(path, { recursive: true });
    if (kind === "git") return makeProject(path, files);
    writeFiles(path, files);
    return path;
  };
  const id = (prefix: string) => `${prefix}-${(serial += 1)}`;

  // The floor sends what the service sends: its system prompt and its tools come from a real request.
  {
    await using first = await service("template");
    using caller = await createCaller(first.url);
    const path = project("template", "plain");
    const task = await caller.create(path, `bench read 1 ${id("template")}`, { isolation: "directory" });
    await caller.settled(task);
  }
  const template = await mock.call("template");
  await floor.call("model", baseURL, template);
  const fresh = async (): Promise<Worker<Floor>> => {
    const worker = startWorker<Floor>("./floor.ts");
    await worker.call("open", join(root, "fresh.db"));
    await worker.call("model", baseURL, template);
    return worker;
  };

  const owned = scope.move();
  return {
    root,
    quick,
    baseURL,
    mock,
    floor,
    service,
    project,
    fresh,
    id,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
};

/** So many rounds, the two taking turns in who goes first. */
export const inTurns = async <T>(
  count: number,
  floor: () => Promise<T>,
  service: () => Promise<T>,
): Promise<{ floor: T; service: T }[]> => {
  const rounds: { floor: T; service: T }[] = [];
  for (let index = 0; index < count; index += 1) {
    if (index % 2 === 0) {
      const first = await floor();
      rounds.push({ floor: first, service: await service() });
    } else {
      const first = await service();
      rounds.push({ service: first, floor: await floor() });
    }
  }
  return rounds;
};

/** Asks until the answer pleases; at most a minute. */
export const until = async <T>(ask: () => Promise<T>, pleases: (answer: T) => boolean, everyMs = 20): Promise<T> => {
  const end = performance.now() + 60_000;
  for (;;) {
    const answer = await ask();
    if (pleases(answer)) return answer;
    if (performance.now() > end) throw new Error(`Not within a minute; last: ${JSON.stringify(answer)}`);
    await pause(everyMs);
  }
};

export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
