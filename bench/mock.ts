import { setTimeout as pause } from "node:timers/promises";
import {
  type MockProvider,
  type MockRequest,
  type MockTurn,
  startMockProvider,
} from "../test/harness/double/mock-provider.ts";
import { clock, serveWorker } from "./worker.ts";

/**
 * The language model, as a process of its own. What it says stands in the request: `bench <tool> <steps> <id>` makes it
 * ask for that tool so many times and then end; the tool `hold` keeps the first answer back. It notes when each
 * request arrived.
 */

const calls: Record<string, (turn: number) => MockTurn["calls"]> = {
  // Never the same command twice in a row: the guard against circles must find nothing to count.
  shell: (turn) => [{ tool: "shell", input: { command: `true # ${turn}` } }],
  read: (turn) => [{ tool: "read", input: { path: `file-${turn % 10}.txt` } }],
  // Whoever it goes to has nothing to do, and says so.
  delegate: (turn) => [{ tool: "delegate", input: { agent: "helper", brief: `bench none 0 helper-${turn}` } }],
};

const arrivals = new Map<string, number[]>();
const sizes = new Map<string, number[]>();
let provider: MockProvider | undefined;
let template: unknown;

const answer = ({ first, turn, body, headers }: MockRequest): MockTurn => {
  const at = clock();
  const [, tool = "", steps = "0", id = ""] = /bench (\w+) (\d+) ([\w-]+)/.exec(first) ?? [];
  const add = (to: Map<string, number[]>, value: number) => to.get(id)?.push(value) ?? to.set(id, [value]);
  add(arrivals, at);
  add(sizes, Number(headers["content-length"]));
  if (turn === 0 && tool in calls) template = body;
  // Counted by requests: a summary takes earlier turns out of them.
  if (tool === "long") {
    const said = body.messages.at(-1)?.content;
    if (typeof said === "string" && said.includes("this conversation is about to"))
      return { text: "All files up to here were read; the next one is to be read now." };
    const turned = (arrivals.get(id)?.length ?? 1) - 1;
    return turned < Number(steps) ? { calls: calls["read"]?.(turned) ?? [] } : { text: "Done." };
  }
  // A plan of one phase, its Task, and after its end the last word.
  if (tool === "mission") return missionTurns(id)[turn] ?? { text: "Done." };
  if (tool === "end") return { calls: [{ tool: "finish", input: { outcome: "blocked", summary: "Nothing to do." } }] };
  if (tool === "tokens") return { pieces: tokens(Number(steps)) };
  if (tool === "hold") return { hold: true, text: "Done." };
  const wanted = turn < Number(steps) ? calls[tool]?.(turn) : undefined;
  return wanted === undefined ? { text: "Done." } : { calls: wanted };
};

/** So many, 4 ms apart; each is the time at which it was sent. */
async function* tokens(count: number): AsyncGenerator<string> {
  for (let at = 0; at < count; at += 1) {
    await pause(4);
    yield `${clock()} `;
  }
}

const missionTurns = (id: string): MockTurn[] => [
  {
    calls: [
      { tool: "plan", input: { phases: [{ id: "one", title: "One", objective: "It is done." }] } },
      { tool: "dispatch", input: { phase: "one", request: `bench read 20 ${id}-task` } },
    ],
  },
  { text: "It runs." },
  { calls: [{ tool: "finish", input: { outcome: "done", summary: "Done." } }] },
];

const methods = {
  async start(): Promise<string> {
    provider ??= await startMockProvider(answer, { keep: 1 });
    return provider.baseURL;
  },
  /** When each request of a conversation arrived, on the machine's clock. */
  arrivals: (id: string): number[] => arrivals.get(id) ?? [],
  /** How many bytes each of them had. */
  sizes: (id: string): number[] => sizes.get(id) ?? [],
  /** How many conversations whose id begins so have been heard of since a moment, and when the last of them was. */
  heard(prefix: string, since: number): { count: number; last: number } {
    const firsts = [...arrivals]
      .filter(([id]) => id.startsWith(prefix))
      .flatMap(([, times]) => times.find((time) => time >= since) ?? []);
    return { count: firsts.length, last: Math.max(0, ...firsts) };
  },
  held: (): number => provider?.held() ?? 0,
  /** The last first request of a conversation with tools, as the service makes them: system prompt, tools and all. */
  template: (): unknown => template,
  forget(): void {
    arrivals.clear();
    sizes.clear();
  },
};

export type Mock = typeof methods;

serveWorker(methods);
