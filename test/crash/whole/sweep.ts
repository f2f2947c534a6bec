import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { freshSchema, postgresURL } from "../../harness/postgres.ts";
import { temporary } from "../../harness/project.ts";
import { type ServiceProcess, startProcess } from "../process.ts";
import type { Chosen, Cut, Point } from "./cut.ts";
import { imageOf } from "./image.ts";
import { expectIdle, type Follower } from "./place.ts";

/** Runs one scenario to its end once, and then kills the service at its points, each followed by what people do. */

export type Scene<Seen> = {
  env: Record<string, string>;
  /** Until the end, or until the service is gone. */
  play(service: ServiceProcess): Promise<void>;
  /** Before each start after the kill: what follows begins from where the kill left it. */
  restart(): void;
  /** Whatever was played before, and however far: `follower` comes, the end comes, and what must hold is looked at. */
  finish(service: ServiceProcess, follower: Follower): Promise<Seen>;
};

/** In a folder of its own. */
export type Scenario<Seen> = { name: string; open(root: string): Scene<Seen> };

/**
 * The end as it comes without a kill, and every point that was passed. `states`: also in what state each leaves the
 * machine.
 */
export const playThrough = async <Seen>(
  scenario: Scenario<Seen>,
  states = false,
): Promise<{ seen: Seen; points: Point[] }> => {
  using root = temporary(`sortie-${scenario.name}-`);
  using aside = temporary("sortie-points-");
  const scene = scenario.open(root.path);
  const list = join(aside.path, "points");
  const asked = states ? { TEST_POINTS: list, TEST_ROOT: root.path } : { TEST_POINTS: list };
  await using service = await startProcess({ ...scene.env, ...asked });
  await scene.play(service);
  const points = readFileSync(list, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => {
      const [name = "", state = ""] = line.split("\t");
      return { name, state };
    });
  scene.restart();
  const seen = await scene.finish(service, "nothing");
  await expectIdle(service);
  return { seen, points };
};

/** So many at a time have the processor: a service that is looked at whether it rests needs none. */
type Turns = <T>(work: () => Promise<T>) => Promise<T>;

const turnsOf = (count: number): Turns => {
  let free = count;
  const waiting: (() => void)[] = [];
  return async (work) => {
    if (free > 0) free -= 1;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) free += 1;
      else next();
    }
  };
};

type Told = { fault(cut: Cut, error: unknown): void };

/**
 * Killed at one point, and then each of `followers`, which all begin from the same disk: the first where the kill left
 * it, the others from copies. Where something may still have written after the kill, there is no such disk; then each
 * has a kill of its own.
 */
const cutAt = async <Seen>(
  scenario: Scenario<Seen>,
  point: Point,
  followers: readonly Follower[],
  told: Told,
  turn: Turns,
): Promise<void> => {
  const [first, ...others] = followers;
  if (first === undefined) return;
  using root = temporary(`sortie-${scenario.name}-`);
  using aside = temporary("sortie-points-");
  const scene = scenario.open(root.path);
  await using schema = first === "PostgreSQL" ? freshSchema(postgresURL ?? "") : undefined;
  await schema?.create();
  const options = encodeURIComponent(`-c search_path=${schema?.name}`);
  const env =
    schema === undefined ? scene.env : { ...scene.env, SERVICE_DATABASE_URL: `${postgresURL}?options=${options}` };
  const quiet = join(aside.path, "quiet");
  await turn(async () => {
    const killed = { TEST_KILL_POINT: point.name.split(" ")[0] ?? "", TEST_QUIET: quiet };
    await using service = await startProcess({ ...env, ...killed });
    // A request fails because of the kill; what else it fails for is found again when the end is looked at.
    const played = scene.play(service).catch(() => Promise.race([service.gone, wait(5000, undefined, { ref: false })]));
    await Promise.race([service.gone, played]);
    // Where the last effects did not come, the end is the point.
    await service.kill("SIGKILL");
    await played;
  });
  const isQuiet = readFileSync(quiet, "utf8") !== "";
  const image = isQuiet && others.length > 0 ? await imageOf(root.path, join(aside.path, "image")) : undefined;
  const follow = async (follower: Follower) => {
    scene.restart();
    await using again = await turn(async () => {
      const service = await startProcess(env);
      try {
        await scene.finish(service, follower);
        return service;
      } catch (error) {
        await service[Symbol.asyncDispose]();
        throw error;
      }
    });
    await expectIdle(again);
  };
  await follow(first).catch((error: unknown) => told.fault({ point, follower: first }, error));
  for (const follower of others) {
    if (image === undefined) await cutAt(scenario, point, [follower], told, turn);
    else {
      await image.restore();
      await follow(follower).catch((error: unknown) => told.fault({ point, follower }, error));
    }
  }
};

/**
 * Several at a time: for much of it each waits. Says which point it was. Answers how many were made, all of which held.
 */
export const cutAll = async <Seen>(
  scenario: Scenario<Seen>,
  { seed, cuts, minutes }: Pick<Chosen, "seed" | "cuts" | "minutes">,
): Promise<number> => {
  const until = performance.now() + minutes * 60_000;
  const faults: string[] = [];
  let made = 0;
  const groups = new Map<string, { point: Point; followers: Follower[] }>();
  for (const { point, follower } of cuts) {
    // On PostgreSQL it is another run from its beginning.
    const key = `${point.name} ${follower === "PostgreSQL"}`;
    const group = groups.get(key) ?? { point, followers: [] };
    groups.set(key, group);
    group.followers.push(follower);
  }
  const told: Told = {
    fault(cut, error) {
      const line = `TEST_POINT="${cut.point.name.split(" ")[0]} ${cut.follower}" (${cut.point.name}): ${String(error)}`;
      console.log(line);
      faults.push(line);
    },
  };
  const turn = turnsOf(atOnce);
  const rest = [...groups.values()];
  const worker = async () => {
    for (let group = rest.shift(); group !== undefined && performance.now() < until; group = rest.shift()) {
      const { point, followers } = group;
      const hundreds = Math.floor(made / 100);
      made += followers.length;
      if (Math.floor(made / 100) > hundreds) console.log(`${scenario.name}: ${made} of ${cuts.length} kills begun`);
      await cutAt(scenario, point, followers, told, turn).catch((error: unknown) =>
        told.fault({ point, follower: followers[0] ?? "nothing" }, error),
      );
    }
  };
  await Promise.all(Array.from({ length: 2 * atOnce }, worker));
  if (faults.length > 0)
    throw new Error(`${scenario.name}, TEST_SEED=${seed}: ${faults.length} of ${made}\n${faults.join("\n")}`);
  return made;
};

/** For two cores. */
const atOnce = 4;
