import { fork } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createTask, settledTask } from "../../harness/double/hostile-text.ts";
import { type MockRequest, type MockTurn, startMockProvider, textOf } from "../../harness/double/mock-provider.ts";
import { makeProject, temporary } from "../../harness/project.ts";
import type { Order, Word } from "./serving.ts";

/**
 * A service in a process of its own, agents that do what a test tells them, and the longest wait of everything else.
 */

/**
 * Milliseconds: what `monitorEventLoopDelay` says, what of it this process kept to itself, and what of that was work.
 */
export type Stillness = { delay: number; own: number; work: number };

export type Call = { tool: string; input: unknown };

/** A turn, or what makes it of the request, where ids have to be named that came up before. */
export type Turn = MockTurn | ((request: MockRequest) => MockTurn);

export type Stage = Awaited<ReturnType<typeof openStage>>;

export const openStage = async (more: Record<string, unknown> = {}) => {
  const root = temporary("sortie-loop-");
  const scripts = new Map<string, Turn[]>();
  // Each turn once: what is summarised has fewer turns than were taken. The summary is no turn.
  const provider = await startMockProvider((request) => {
    if (textOf(request.body.messages.at(-1)?.content).includes("about to become too long")) return { text: "Summary." };
    const turn = scripts.get(/\[(m\d+)\]/.exec(request.first)?.[1] ?? "")?.shift() ?? { text: "Done." };
    return typeof turn === "function" ? turn(request) : turn;
  });
  const config = join(root.path, "config.jsonc");
  const providers = { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } };
  writeFileSync(config, JSON.stringify({ model: "mock/large", providers, ...more }));
  const dataDir = join(root.path, "data");
  const child = fork(fileURLToPath(new URL("serving.ts", import.meta.url)), [dataDir, config], {
    execArgv: [],
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  let hear: { resolve: (word: Word) => void; reject: (error: Error) => void } | undefined;
  child.on("message", (word: Word) => hear?.resolve(word));
  child.on("exit", (code) => hear?.reject(new Error(`The service ended with ${code}`)));
  const next = (): Promise<Word> => new Promise((resolve, reject) => (hear = { resolve, reject }));
  const tell = async (order: Order): Promise<Word> => {
    const heard = next();
    child.send(order);
    return await heard;
  };
  const first = await next();
  if (!("url" in first)) throw new Error("Expected the service's address first");
  const { url } = first;
  let count = 0;
  const name = () => `m${(count += 1)}`;
  return {
    url,
    root: root.path,
    dataDir,
    folder: () => join(root.path, `project-${(count += 1)}`),
    tell,
    /** The longest time in milliseconds that the service's loop stood still during the work. */
    async worst(work: () => Promise<unknown>): Promise<Stillness> {
      await tell({ what: "reset" });
      await work();
      const word = await tell({ what: "worst" });
      if (!("own" in word)) throw new Error("Expected how long the loop stood still");
      return word;
    },
    /** Words of a request whose agent takes these turns. */
    script(turns: readonly Turn[]): string {
      const marker = name();
      scripts.set(marker, [...turns]);
      return `do it [${marker}]`;
    },
    /** Throws unless all turns of all agents were taken: what was not reached was not measured. */
    expectPlayed() {
      const left = [...scripts.values()].reduce((sum, turns) => sum + turns.length, 0);
      scripts.clear();
      if (left > 0) throw new Error(`Expected the agents to take all their turns, got ${left} left`);
    },
    /** A Task whose agent makes each of these calls in a turn of its own, run to its end; resolves to its id. */
    async task(
      directory: string,
      calls: readonly (Call | Call[])[],
      body: Record<string, unknown> = {},
      meanwhile: (taskID: string) => Promise<unknown> = async () => undefined,
    ) {
      const turns = calls.map((each): MockTurn => ({ calls: [each].flat() }));
      const request = this.script([...turns, { text: "Done." }]);
      const taskID = await createTask(url, directory, { request, ...body });
      await meanwhile(taskID);
      await settledTask(url, taskID, 300_000);
      return taskID;
    },
    /** A Task, so that all is loaded. */
    async first() {
      const directory = makeProject(join(root.path, "first"), { "a.txt": "a" });
      await this.task(directory, [{ tool: "list", input: {} }]);
    },
    async [Symbol.asyncDispose]() {
      await tell({ what: "stop" });
      if (child.exitCode === null) await once(child, "exit");
      await provider.close();
      root[Symbol.dispose]();
    },
  };
};
