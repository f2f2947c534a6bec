import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { night } from "../../harness/night.ts";
import { freshSchema, postgresURL } from "../../harness/postgres.ts";
import { temporary } from "../../harness/project.ts";
import { seededRandom } from "../../harness/random.ts";
import { type ServiceProcess, startProcess } from "../process.ts";
import { type Follower, followers } from "./place.ts";

/** Runs one scenario to its end once, and then kills the service at its points, each followed by what people do. */

export type Scene<Seen> = {
  env: Record<string, string>;
  /** Until the end, or until the service is gone. */
  play(service: ServiceProcess): Promise<void>;
  /** Whatever was played before, and however far: `follower` comes, the end comes, and what must hold is looked at. */
  finish(service: ServiceProcess, follower: Follower): Promise<Seen>;
};

/** In a folder of its own. */
export type Scenario<Seen> = { name: string; open(root: string): Scene<Seen> };

export type Cut = { point: string; follower: Follower };

/** The end as it comes without a kill, and every point that was passed. */
export const playThrough = async <Seen>(scenario: Scenario<Seen>): Promise<{ seen: Seen; points: string[] }> => {
  using root = temporary(`sortie-${scenario.name}-`);
  const scene = scenario.open(root.path);
  const list = join(root.path, "points");
  await using service = await startProcess({ ...scene.env, TEST_POINTS: list });
  await scene.play(service);
  const points = readFileSync(list, "utf8").trimEnd().split("\n");
  return { seen: await scene.finish(service, "nothing"), points };
};

export const cutAt = async <Seen>(scenario: Scenario<Seen>, { point, follower }: Cut): Promise<Seen> => {
  using root = temporary(`sortie-${scenario.name}-`);
  const scene = scenario.open(root.path);
  await using schema = follower === "PostgreSQL" ? freshSchema(postgresURL ?? "") : undefined;
  await schema?.create();
  const options = encodeURIComponent(`-c search_path=${schema?.name}`);
  const env =
    schema === undefined ? scene.env : { ...scene.env, SERVICE_DATABASE_URL: `${postgresURL}?options=${options}` };
  {
    await using service = await startProcess({ ...env, TEST_KILL_POINT: point.split(" ")[0] ?? "" });
    // A request fails because of the kill; what else it fails for is found again when the end is looked at.
    const played = scene.play(service).catch(() => Promise.race([service.gone, wait(5000, undefined, { ref: false })]));
    await Promise.race([service.gone, played]);
    // Where the last effects did not come, the end is the point.
    await service.kill("SIGKILL");
    await played;
  }
  await using again = await startProcess(env);
  return await scene.finish(again, follower);
};

/**
 * At night each commit with each follower and each effect with one of them in turn, or all of it (TEST_SWEEP=whole), also
 * in parts that together are all (TEST_SWEEP=3/20: the third of twenty, drawn evenly); by day so many of all. TEST_SEED brings
 * a sample again, TEST_POINT (`12+3 cancel`) one of them.
 */
export const cutsOf = (points: readonly string[], byDay: number): { seed: number; all: number; cuts: Cut[] } => {
  const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 2 ** 31);
  const usable = followers.filter((follower) => follower !== "PostgreSQL" || postgresURL !== undefined);
  const all = points.flatMap((point) => usable.map((follower) => ({ point, follower })));
  const named = process.env["TEST_POINT"];
  if (named !== undefined) {
    const [at = "", follower = "nothing"] = named.split(" ");
    const cuts = all.filter((cut) => cut.point.startsWith(`${at} `) && cut.follower === follower);
    return { seed, all: all.length, cuts };
  }
  const sweep = process.env["TEST_SWEEP"];
  if (sweep === "whole") return { seed, all: all.length, cuts: all };
  if (sweep !== undefined) {
    const [part = Number.NaN, parts = Number.NaN] = sweep.split("/").map(Number);
    if (!(part >= 1 && part <= parts)) throw new Error(`Expected TEST_SWEEP to be whole or 3/20, got ${sweep}`);
    return { seed, all: all.length, cuts: all.filter((_, index) => index % parts === part - 1) };
  }
  if (night) {
    const cuts = all.filter(
      ({ point }, index) =>
        point.includes("+0 ") || index % usable.length === (Math.floor(index / usable.length) + seed) % usable.length,
    );
    return { seed, all: all.length, cuts };
  }
  const random = seededRandom(seed);
  return { seed, all: all.length, cuts: Array.from({ length: byDay }, () => random.pick(all)) };
};

/** Several at a time: for much of it each waits. Says which point it was. */
export const cutAll = async <Seen>(
  scenario: Scenario<Seen>,
  { seed, cuts }: { seed: number; cuts: readonly Cut[] },
  told: (seen: Seen, cut: Cut) => void = () => {},
): Promise<void> => {
  const rest = [...cuts];
  const faults: string[] = [];
  const worker = async () => {
    for (let cut = rest.shift(); cut !== undefined; cut = rest.shift()) {
      const now = cut;
      await cutAt(scenario, now).then(
        (seen) => told(seen, now),
        (error: unknown) =>
          faults.push(`TEST_POINT="${now.point.split(" ")[0]} ${now.follower}" (${now.point}): ${String(error)}`),
      );
    }
  };
  await Promise.all([worker(), worker(), worker()]);
  if (faults.length > 0)
    throw new Error(`${scenario.name}, TEST_SEED=${seed}: ${faults.length} of ${cuts.length}\n${faults.join("\n")}`);
};
