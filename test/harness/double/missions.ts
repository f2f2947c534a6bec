import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { MissionStatus } from "../../../src/protocol/mission/status.ts";
import type { TaskStatus } from "../../../src/protocol/task/status.ts";
import { git, makeProject, temporary, until } from "../project.ts";
import { send } from "./hostile-text.ts";
import { type MockProvider, type MockRequest, type MockTurn, startMockProvider, textOf } from "./mock-provider.ts";
import { startService, type TestService } from "../service.ts";

/** Missions over the real wire: a mock provider plays the Mission's agent and its squads, by markers in brackets. */

export type Say = (turn: number, request: MockRequest, newest: string) => MockTurn | Promise<MockTurn>;
/** One after another, then nothing more. */
export const turns =
  (...said: (ReturnType<Say> | Say)[]): Say =>
  (turn, request, newest) => {
    const now = said[turn];
    return typeof now === "function" ? now(turn, request, newest) : (now ?? { text: "Nothing more." });
  };
export type Script = { mission: Say; task?: Say };

export const isMission = ({ body }: Pick<MockRequest, "body">): boolean =>
  /You lead one Mission/.test(textOf(body.messages[0]?.content));

/** What the newest message, or the newest results of calls, say. */
export const newestOf = ({ body }: MockRequest): string => {
  const last = body.messages.findLastIndex(({ role }) => role === "assistant");
  return body.messages
    .slice(last + 1)
    .map(({ content }) => textOf(content))
    .join("\n");
};

export const markerOf = (text: string): string => /\[(\w+)\]/.exec(text)?.[1] ?? "";

export type Stage = AsyncDisposable & {
  provider: MockProvider;
  service: TestService;
  root: string;
  requests: { mission: boolean; request: MockRequest; at: number }[];
  /** Is called with every request, reviews too. */
  heard: (request: MockRequest) => void;
  play(name: string, script: Script): void;
  project(files?: Record<string, string>): string;
  restart(): Promise<void>;
};

export const openStage = async (
  env: Record<string, string> = {},
  config: Record<string, unknown> = {},
  models?: object[],
  clock?: () => Date,
  /** What whoever judges the whole of a Mission says; undefined: that it is accepted. */
  judges?: (request: MockRequest) => MockTurn | undefined,
): Promise<Stage> => {
  const root = temporary("sortie-missions-");
  const scripts = new Map<string, Script>();
  const requests: Stage["requests"] = [];
  const script = (request: MockRequest) => {
    const mission = isMission(request);
    requests.push({ mission, request, at: performance.now() });
    const script = scripts.get(markerOf(request.first));
    const say = mission ? script?.mission : script?.task;
    return say?.(request.turn, request, newestOf(request)) ?? { text: "Done." };
  };
  const provider = await startMockProvider(script, {
    ...(judges === undefined ? {} : { judges }),
    heard: (request) => stage.heard(request),
  });
  const data = join(root.path, "data");
  const file = join(root.path, "config.jsonc");
  const mock = { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" };
  const providers = { mock: models === undefined ? mock : { ...mock, models } };
  writeFileSync(file, JSON.stringify({ model: "mock/large", providers, ...config }));
  const start = () => startService(data, { SERVICE_CONFIG: file, ...env }, clock);
  let folders = 0;
  const stage: Stage = {
    provider,
    service: await start(),
    root: root.path,
    requests,
    heard() {},
    play: (name, script) => void scripts.set(name, script),
    project: (files = { "a.txt": "one\n" }) => makeProject(join(root.path, `project-${(folders += 1)}`), files),
    async restart() {
      await stage.service[Symbol.asyncDispose]();
      stage.service = await start();
    },
    async [Symbol.asyncDispose]() {
      provider.release();
      await stage.service[Symbol.asyncDispose]();
      await provider.close();
      root[Symbol.dispose]();
    },
  };
  return stage;
};

const query = (directory: string) => `?directory=${encodeURIComponent(directory)}`;

/** Those that were woken here before. */
const known = new Set<string>();

/**
 * A new Mission's whole is judged only where `judged` says so, or `checks` is given: most tests are of something else.
 */
export const wake = async (
  url: string,
  directory: string,
  { judged, ...given }: Record<string, unknown> & { judged?: true },
) => {
  const key = `${directory} ${String(given["missionID"])}`;
  const isNew = given["missionID"] === undefined || !known.has(key);
  const body = isNew && judged === undefined ? { checks: [], ...given } : given;
  if (given["missionID"] !== undefined) known.add(key);
  const { status, body: answer } = await send(url, `/mission/wake${query(directory)}`, {
    method: "POST",
    body,
  });
  if (status !== 200) throw new Error(`wake: ${status} ${JSON.stringify(answer)}`);
  known.add(`${directory} ${(answer as unknown as { missionID: string }).missionID}`);
  return answer as unknown as { missionID: string; sessionID: string; created: boolean };
};

export const missionOf = async (url: string, directory: string, missionID: string): Promise<MissionStatus> => {
  const { status, body } = await send(url, `/mission/${missionID}/status${query(directory)}`);
  if (status !== 200) throw new Error(`status: ${status} ${JSON.stringify(body)}`);
  return body as unknown as MissionStatus;
};

/** Nothing runs, nothing is asked: until its agent said how the whole stands, or it failed. */
export const restOf = (url: string, directory: string, missionID: string, ms = 30_000): Promise<MissionStatus> =>
  until(
    () => missionOf(url, directory, missionID),
    (mission) =>
      mission.status === "inactive" &&
      mission.agentStatus === "inactive" &&
      (mission.finished !== null || mission.error !== undefined || mission.aborted || mission.pending.length > 0),
    ms,
  );

export type MissionEvent = {
  id: number;
  type: string;
  taskID?: string;
  missionID?: string;
  data: Record<string, unknown>;
};

/** The Mission's own facts. */
export const eventsOf = async (url: string, directory: string, missionID: string): Promise<MissionEvent[]> => {
  const events: MissionEvent[] = [];
  for (let after = 0; ; ) {
    const path = `/mission/${missionID}/events${query(directory)}&format=json&limit=1000&after=${after}`;
    const { body } = await send(url, path);
    const page = body as unknown as { events: MissionEvent[]; nextAfter: number };
    if (page.events.length === 0) return events;
    events.push(...page.events);
    after = page.nextAfter;
  }
};

/** Until a squad that was made is committed, and its project's files, index and branch agree. */
export const landedSquad = (directory: string, id: string): Promise<unknown> =>
  until(
    async () => `${git(directory, "log", "-1", "--format=%s")}\n${git(directory, "status", "--porcelain")}`,
    (seen) => seen === `Add the squad ${id}\n`,
  );

export const taskOf = async (url: string, taskID: string): Promise<TaskStatus> =>
  (await send(url, `/task/${taskID}/status`)).body as unknown as TaskStatus;

// ---- calls of the Mission's agent -------------------------------------------------------------------------------------

export const plan = (...phases: (string | { id: string; after?: string[]; phase?: string })[]) => ({
  tool: "plan",
  input: {
    phases: phases.map((phase) => {
      const { id, after = [], ...more } = typeof phase === "string" ? { id: phase } : phase;
      return { id, title: `Phase ${id}`, objective: `${id} is there.`, after, ...more };
    }),
  },
});
/** The same, without some phases of the plan before. */
export const replan = (drop: string[], ...phases: Parameters<typeof plan>) => {
  const { tool, input } = plan(...phases);
  return { tool, input: { ...input, drop } };
};
export const dispatch = (phase: string, request: string, more: Record<string, unknown> = {}) => ({
  tool: "dispatch",
  input: { phase, request, ...more },
});
/** The first Task that a text names; "": none. */
export const taskIn = (text: string): string => /task_[0-9a-z]{26}/.exec(text)?.[0] ?? "";

type Member = { name: string; duty?: string };
/** As whoever makes a squad of this roster writes it. */
export const author = (roster: readonly Member[], more: Record<string, unknown> = {}) => ({
  tool: "author_squad",
  input: {
    name: "Crew",
    summary: "A crew.",
    notFor: "Anything else.",
    pillars: ["code"],
    orchestrator: "You lead the crew.",
    agents: roster.map(({ name, duty = "A duty." }) => ({ name, description: duty, instructions: `You are ${name}.` })),
    ...more,
  },
});

export const finish = (outcome = "done", summary = "All of it.", more: Record<string, unknown> = {}) => ({
  tool: "finish",
  input: { outcome, summary, ...more },
});
