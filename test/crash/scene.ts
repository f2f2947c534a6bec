import { expect } from "vitest";
import { type MockRequest, type MockTurn, startMockProvider } from "../harness/double/mock-provider.ts";
import { temporary } from "../harness/project.ts";
import { settingIn } from "./setting.ts";
import { nothingLeft, type ServiceProcess, startProcess } from "./process.ts";

/**
 * Something that happens to a service, played once as it is and once with a kill right after each of its points. Model
 * and user are told by what they see alone, so that they do the same after a restart.
 */
export type Scene = {
  /**
   * Types of events. Without a kill all of them come; the service dies right after the first of each, or after that of
   * `:n`.
   */
  points: readonly string[];
  /** Those of them that come once more when a call is made again, and change nothing then. */
  again?: readonly string[];
  files?: Record<string, string>;
  config?: (directory: string) => Record<string, unknown>;
  /** More than files that are committed. */
  prepare?(directory: string): void;
  /** What happens to the data folder after the kill, before the next service starts. */
  meanwhile?(dataDir: string): Promise<void>;
  /** What whoever judges the whole of a Mission says, if not that it is accepted. */
  judges?(request: MockRequest): MockTurn;
  say(request: MockRequest, memo: Memo): MockTurn | Promise<MockTurn>;
  /** Idempotent: it is asked for again where the service died before it answered. */
  begin(here: Here): Promise<unknown>;
  /** What a user does now, and whether all is over. It may fail while the service dies. */
  over(here: Here): Promise<boolean>;
  /** What has to be the same in the end, whatever happened. */
  picture(here: Here): Promise<unknown>;
  /** Types of all events there are. */
  typesOf(here: Here): Promise<string[]>;
};
/** What its model and its user remember of one play. */
export type Memo = Record<string, string | undefined>;
export type Here = { service: ServiceProcess; url: string; directory: string; root: string; memo: Memo };

/** `met`: how often each of its points came. */
type Played = { picture: unknown; met: string[] };

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** Plays it with a kill after the first event of the type `point`, without one where it is empty. */
export const play = async (scene: Scene, point: string): Promise<Played> => {
  using root = temporary("sortie-scene-");
  const memo: Memo = {};
  const provider = await startMockProvider(
    (request) => scene.say(request, memo),
    scene.judges === undefined ? {} : { judges: (request) => scene.judges?.(request) },
  );
  try {
    const { dataDir, project: directory, env } = settingIn(root.path, provider.baseURL, scene.files, scene.config);
    scene.prepare?.(directory);
    const hereOf = (service: ServiceProcess): Here => ({ service, url: service.url, directory, root: root.path, memo });
    if (point !== "") {
      await using service = await startProcess({ ...env, TEST_KILL_ON: point });
      await scene.begin(hereOf(service)).catch(() => undefined);
      for (const end = Date.now() + 40_000; service.child.signalCode === null; await pause(30)) {
        if (Date.now() > end) throw new Error(`The service did not die of ${point}.`);
        await scene.over(hereOf(service)).catch(() => false);
        // What is committed for a caller kills nobody by itself.
        const types = await scene.typesOf(hereOf(service)).catch((): string[] => []);
        if (types.includes(point)) await service.kill("SIGKILL");
      }
      await scene.meanwhile?.(dataDir);
    }
    await using service = await startProcess(env);
    const here = hereOf(service);
    await scene.begin(here);
    for (const end = Date.now() + 40_000; !(await scene.over(here)); await pause(30))
      if (Date.now() > end) throw new Error(`Not over: ${JSON.stringify(await scene.picture(here))}`);
    const types = await scene.typesOf(here);
    const picture = await scene.picture(here);
    await nothingLeft(dataDir);
    const timesOf = (point: string) => {
      const [type = "", least] = point.split(":");
      const times = types.filter((each) => each === type).length;
      if (least !== undefined) return times < Number(least) ? 0 : "enough";
      return times === 2 && scene.again?.includes(type) === true ? 1 : times;
    };
    return { picture, met: scene.points.map((type) => `${type} ${timesOf(type)}`) };
  } catch (error) {
    throw new Error(`${point === "" ? "without a kill" : `killed after ${point}`}: ${String(error)}`, { cause: error });
  } finally {
    provider.release();
    await provider.close();
  }
};

/** Plays it without a kill, then with each of the kills: the same end, which it resolves to. */
export const sameFromEach = async (scene: Scene, kills: readonly string[]): Promise<Played> => {
  const plain = await play(scene, "");
  // The control: all of it happens.
  expect(plain.met.filter((met) => met.endsWith(" 0"))).toEqual([]);
  const ends: unknown[] = [];
  for (const point of kills) ends.push([point, await play(scene, point).catch(String)]);
  expect(ends).toEqual(kills.map((point) => [point, plain]));
  return plain;
};
