import { Agent, type IncomingMessage, request } from "node:http";
import type { Frame, LiveFrame } from "../src/protocol/event/frame.ts";

/** The caller's side, over Node's plainest client so that it costs little itself. */

const agent = new Agent({ keepAlive: true, maxSockets: 2_000 });

const open = (url: string, method: string, body?: string): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => {
    const headers =
      body === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    const sent = request(url, { method, headers, agent }, resolve);
    // A kept connection may be closed by the server in the moment of its next use.
    sent.on("error", (error: NodeJS.ErrnoException) =>
      sent.reusedSocket && error.code === "ECONNRESET" ? resolve(open(url, method, body)) : reject(error),
    );
    sent.end(body);
  });

const textOf = async (response: IncomingMessage): Promise<string> => {
  let text = "";
  response.setEncoding("utf8");
  for await (const piece of response) text += piece;
  return text;
};

/** The whole answer as JSON; anything but 2xx is an error. */
export const send = async <T>(url: string, method: "GET" | "POST" | "PATCH", body?: object): Promise<T> => {
  const response = await open(url, method, body === undefined ? undefined : JSON.stringify(body));
  const text = await textOf(response);
  if (Math.floor((response.statusCode ?? 0) / 100) !== 2)
    throw new Error(`${method} ${url}: ${response.statusCode} ${text}`);
  return JSON.parse(text) as T;
};

/** Bytes of an answer, which go nowhere. */
export const drain = async (url: string): Promise<number> => {
  const response = await open(url, "GET");
  if (response.statusCode !== 200) throw new Error(`GET ${url}: ${response.statusCode} ${await textOf(response)}`);
  let bytes = 0;
  for await (const piece of response) bytes += (piece as Buffer).length;
  return bytes;
};

/** Every frame of a stream of Server-Sent Events, and milliseconds of the wall clock at which it was read. */
export const listen = async (
  url: string,
  onFrame: (frame: Frame | LiveFrame, at: number) => void,
): Promise<Disposable> => {
  const response = await open(url, "GET");
  if (response.statusCode !== 200) throw new Error(`GET ${url}: ${response.statusCode} ${await textOf(response)}`);
  let rest = "";
  response.setEncoding("utf8");
  response.on("data", (piece: string) => {
    const at = performance.timeOrigin + performance.now();
    const blocks = (rest + piece).split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const data = /^data: (.*)$/m.exec(block)?.[1];
      if (data !== undefined) onFrame(JSON.parse(data) as Frame, at);
    }
  });
  // The service's end ends the stream, with or without good manners.
  response.on("error", () => {});
  return { [Symbol.dispose]: () => response.destroy() };
};

export type TaskOptions = {
  isolation?: "worktree" | "directory";
  budget?: { maxSteps: number };
  promptProfile?: string;
  /** Instead of the directory. */
  repository?: { url: string; ref: string };
};

export type Caller = Disposable & {
  /** Creates a Task that works off the mock's script of this request. */
  create(directory: string, request: string, options?: TaskOptions): Promise<string>;
  /** Resolves when the Task is settled; anything but "completed" is an error. */
  settled(taskID: string): Promise<void>;
  status<T>(taskID: string): Promise<T>;
};

/** A caller that hears the events of all Tasks from now on. */
export const createCaller = async (
  url: string,
  onFrame: (frame: Frame | LiveFrame, at: number) => void = () => {},
): Promise<Caller> => {
  const ends = new Map<string, PromiseWithResolvers<void>>();
  const endOf = (taskID: string): PromiseWithResolvers<void> => {
    const end = ends.get(taskID) ?? Promise.withResolvers<void>();
    ends.set(taskID, end);
    end.promise.catch(() => {});
    return end;
  };
  const stream = await listen(`${url}/events`, (frame, at) => {
    onFrame(frame, at);
    if (frame.type !== "task.settled") return;
    const { lifecycleStatus, error } = frame.data;
    if (lifecycleStatus === "completed") endOf(frame.taskID ?? "").resolve();
    else endOf(frame.taskID ?? "").reject(new Error(`${frame.taskID} ended ${lifecycleStatus}: ${error}`));
  });
  return {
    async create(directory, request, options = {}) {
      const where = options.repository === undefined ? `?directory=${encodeURIComponent(directory)}` : "";
      const { taskID } = await send<{ taskID: string }>(`${url}/task${where}`, "POST", {
        request,
        productPillar: "code",
        title: "Bench",
        ...options,
      });
      return taskID;
    },
    settled: (taskID) => endOf(taskID).promise,
    status: (taskID) => send(`${url}/task/${taskID}/status`, "GET"),
    [Symbol.dispose]: () => stream[Symbol.dispose](),
  };
};
