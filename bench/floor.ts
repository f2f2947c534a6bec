import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { Agent, createServer, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import Database from "better-sqlite3";
import { serveWorker } from "./worker.ts";

/**
 * What this machine takes for the bare work of a step, without any of what Sortie adds: one request to the same mock
 * model with the same kind of body, its streamed answer parsed as far as needed, the tool's own work, two durable
 * commits. One process, one loop per conversation.
 */

type Message = Record<string, unknown>;
type Call = { id: string; function: { name: string; arguments: string } };
export type FloorRun = { tool: string; steps: number; ids: string[]; concurrency: number; folder: string };

const agent = new Agent({ keepAlive: true, maxSockets: 1000 });
let commit: (data: string) => void = () => {};
let model = { baseURL: "", template: {} as { messages: Message[] } & Message };

const openFile = (file: string): void => {
  const database = new Database(file);
  database.pragma("journal_mode = WAL");
  database.pragma("synchronous = FULL");
  database.exec("create table if not exists events (position integer primary key, data text)");
  const insert = database.prepare("insert into events (data) values (?)");
  commit = (data) => void insert.run(data);
};

/** The calls of one streamed answer. */
const ask = (messages: readonly Message[]): Promise<Call[]> =>
  new Promise((resolve, reject) => {
    const body = JSON.stringify({ ...model.template, messages });
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    const sent = request(`${model.baseURL}/chat/completions`, { method: "POST", agent, headers }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (piece: string) => {
        text += piece;
      });
      response.on("end", () => {
        const frames = text.split("\n\n").filter((frame) => frame.startsWith("data: {"));
        const chunks = frames.map(
          (frame) => JSON.parse(frame.slice(6)) as { choices: { delta: { tool_calls?: Call[] } }[] },
        );
        resolve(chunks.flatMap(({ choices }) => choices[0]?.delta.tool_calls ?? []));
      });
    });
    sent.on("error", reject);
    sent.end(body);
  });

const runBash = (command: string, cwd: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const child = spawn("bash", ["-c", command], { cwd, stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    child.stdout.on("data", (chunk) => (output += String(chunk)));
    child.stderr.on("data", (chunk) => (output += String(chunk)));
    child.once("error", reject);
    child.once("close", (code) => resolve(`Exit code ${code} after 0.0 s.\n(no output)${output}`));
  });

const useTool = async ({ function: { name, arguments: text } }: Call, folder: string): Promise<string> => {
  const input = JSON.parse(text) as { command?: string; path?: string };
  return name === "shell" ? runBash(input.command ?? "", folder) : readFile(join(folder, input.path ?? ""), "utf8");
};

/** A conversation to its end: until the model asks for nothing more. */
const converse = async (first: string, folder: string): Promise<void> => {
  const [system = {}] = model.template.messages;
  const messages: Message[] = [system, { role: "user", content: first }];
  for (;;) {
    const [call] = await ask(messages);
    const reply = { role: "assistant", content: "", tool_calls: call && [{ ...call, type: "function" }] };
    commit(JSON.stringify(reply));
    if (call === undefined) return;
    messages.push(reply);
    const content = await useTool(call, folder);
    const result = { role: "tool", tool_call_id: call.id, content };
    commit(JSON.stringify(result));
    messages.push(result);
  }
};

/** POST: one durable commit, 202, and then a request to the model. GET: a stream of events. */
const readers = new Set<ServerResponse>();
const server = createServer((incoming, outgoing) => {
  if (incoming.method === "GET") {
    outgoing.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
    readers.add(outgoing);
    outgoing.once("close", () => readers.delete(outgoing));
    return;
  }
  let text = "";
  incoming.setEncoding("utf8");
  incoming.on("data", (piece: string) => (text += piece));
  incoming.on("end", () => {
    const task = JSON.parse(text) as { request: string };
    commit(text);
    outgoing.writeHead(202, { "content-type": "application/json" }).end(JSON.stringify({ taskID: "task" }));
    void ask([{ role: "user", content: task.request }]);
  });
});

const methods = {
  open: (file: string): void => openFile(file),
  model: (baseURL: string, template: unknown): void => {
    model = { baseURL, template: template as typeof model.template };
  },
  /** Milliseconds for all conversations, so many at a time. */
  async run({ tool, steps, ids, concurrency, folder }: FloorRun): Promise<number> {
    const begun = performance.now();
    const waiting = [...ids];
    const worker = async () => {
      for (let id = waiting.shift(); id !== undefined; id = waiting.shift())
        await converse(`bench ${tool} ${steps} ${id}`, folder);
    };
    await Promise.all(Array.from({ length: concurrency }, worker));
    return performance.now() - begun;
  },
  async serve(): Promise<number> {
    if (!server.listening) await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return (server.address() as AddressInfo).port;
  },
  /** Requests that the model keeps back, all at once. */
  hold(ids: string[]): void {
    const sent = ids.map((id) => ask([{ role: "user", content: `bench hold 1 ${id}` }]));
    // They end with this process.
    for (const answer of sent) answer.catch(() => {});
  },
  /** So many events one after another, each with the time before its commit, written to every reader after it. */
  async publish(count: number): Promise<void> {
    for (let index = 0; index < count; index += 1) {
      const frame = JSON.stringify({ id: index, at: new Date().toISOString(), data: "x".repeat(300) });
      commit(frame);
      for (const reader of readers) reader.write(`id: ${index}\ndata: ${frame}\n\n`);
      await new Promise((resolve) => setTimeout(resolve, 3));
    }
  },
  /** The machine's two units: milliseconds for one durable commit of 500 bytes, and for one `bash -c true`. */
  async units(): Promise<{ commit: number; spawn: number }> {
    const timed = async (count: number, work: () => unknown): Promise<number> => {
      const begun = performance.now();
      for (let index = 0; index < count; index += 1) await work();
      return (performance.now() - begun) / count;
    };
    const data = "x".repeat(500);
    return { commit: await timed(50, () => commit(data)), spawn: await timed(20, () => runBash("true", "/")) };
  },
};

export type Floor = typeof methods;

serveWorker(methods);
