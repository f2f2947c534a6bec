import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { at, createTask, logOf, settledTask, shell } from "../../harness/double/hostile-text.ts";
import { type MockProvider, type MockTurn, startMockProvider, textOf } from "../../harness/double/mock-provider.ts";
import { makeProject, temporary } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** Results of commands as a model is sent them, and the whole of each as anybody can read it. */

const root = temporary("sortie-result-");
/** Tokens; results of one reply may take two fifths of it, at four characters each. */
const window = 20_000;
const room = window * 4 * 0.4;
let provider: MockProvider;
let service: TestService;
let turn: MockTurn = {};
let results: string[] = [];
let said: string[] = [];

beforeAll(async () => {
  provider = await startMockProvider((request) => {
    if (request.turn === 0) return turn;
    said = request.body.messages.map(({ content }) => textOf(content));
    results = request.body.messages.flatMap(({ role, content }) => (role === "tool" ? [textOf(content)] : []));
    return { text: "Done." };
  });
  const config = join(root.path, "config.jsonc");
  const models = [{ id: "large", contextWindow: window }];
  const providers = { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none", models } };
  writeFileSync(config, JSON.stringify({ model: "mock/large", providers }));
  service = await startService(join(root.path, "data"), { SERVICE_CONFIG: config });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await provider.close();
  root[Symbol.dispose]();
});

let count = 0;
/** Resolves to what the model was sent of each command, and what is answered for the whole of it. */
const play = async (...commands: string[]) => {
  const directory = makeProject(join(root.path, `project-${(count += 1)}`), { "a.txt": "one\n" });
  turn = { calls: commands.flatMap((command) => shell(command).calls ?? []) };
  const taskID = await createTask(service.url, directory, { request: "Do it.", checks: [] });
  await settledTask(service.url, taskID);
  const log = await logOf(service.url, taskID);
  const ids = log.flatMap(({ type, data }) => (type === "tool.started" ? [data.callID] : []));
  const whole = await Promise.all(
    ids.map(async (callID) => {
      const answer = await fetch(`${service.url}${at(`/task/${taskID}/call/${callID}/output`, directory)}`);
      return answer.text();
    }),
  );
  return { results, whole, ids };
};
/** The characters of the output that are shown, and those that are said to be missing. */
const sizesOf = (result: string) => {
  const parts = result.split(
    /\n… (\d+) (?:characters|bytes) left out; all of it: `read` or `search` path output:(\S+) …\n/,
  );
  const [head = "", missing, callID, tail = ""] = parts;
  return { cuts: (parts.length - 1) / 3, shown: head.length + tail.length, missing: Number(missing ?? 0), callID };
};
const unseen = /[^\P{Cc}\n]/u;
const long = (letter: string, lines: number) => `seq -f '${letter}%09.0f' 1 ${lines}`;

test("short ones are whole, the others share what is left; each is cut once and says its true size", async () => {
  const played = await play("echo short", long("a", 4000), "printf tiny", long("b", 6000));
  const [first = "", a = "", third = "", b = ""] = played.results;
  expect([first.includes("short"), third.includes("tiny")]).toEqual([true, true]);
  const sizes = [a, b].map(sizesOf);
  expect(sizes.map(({ cuts, callID }) => [cuts, callID])).toEqual([
    [1, played.ids[1]],
    [1, played.ids[3]],
  ]);
  expect(Math.abs(a.length - b.length)).toBeLessThan(100);
  expect(first.length + a.length + third.length + b.length).toBeLessThan(room + 500);
  expect(first.length + a.length + third.length + b.length).toBeGreaterThan(0.9 * room);
  // Eleven characters a line, and a line that says how it ended.
  const off = sizes.map(({ shown, missing }, index) => Math.abs(shown + missing - [4000, 6000][index]! * 11));
  expect(Math.max(...off)).toBeLessThan(50);
  expect(played.whole[3]?.trimEnd().split("\n")).toHaveLength(6000);
});

test("control: one alone gets all the room that a result may have", async () => {
  const { results: alone } = await play(long("a", 6000));
  expect(alone[0]?.length).toBeGreaterThan(20_000);
});

test("a model is sent what a terminal would show, of commands and of checks; a check's log keeps what was written", async () => {
  const written = String.raw`\033[31mred\033[0m\n10%%\r20%%\rdone\nab\bc\n\033]0;title\007end\n`;
  const shown = "red\ndone\nac\nend";
  const played = await play(`printf '${written}'`);
  expect(played.results[0]).toContain(shown);
  expect(played.results[0]).not.toMatch(unseen);

  const directory = makeProject(join(root.path, "checked"), { "a.txt": "one\n" });
  turn = { calls: [{ tool: "write", input: { path: "a.txt", content: "two\n" } }] };
  const check = { kind: "command", id: "coloured", run: `printf '${written}'; exit 1` };
  const taskID = await createTask(service.url, directory, {
    request: "Do it.",
    checks: [check],
  });
  const { checks } = await settledTask(service.url, taskID);
  const told = said.find((text) => text.includes("acceptance checks")) ?? "";
  expect(told).toContain(shown);
  expect(told).not.toMatch(unseen);
  const log = await fetch(`${service.url}${at(`/task/${taskID}/checks/${checks[0]?.id}/log`, directory)}`);
  expect(await log.text()).toContain("\x1b[31mred\x1b[0m\n10%\r20%\rdone\nab\bc\n\x1b]0;title\x07end\n");
});
