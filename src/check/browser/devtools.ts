import type { Readable, Writable } from "node:stream";

/**
 * A client of the DevTools protocol over a browser's pipe: JSON messages, each followed by a zero byte. It uses a pipe
 * and not a socket because the browser runs in its own network namespace, which the service cannot reach.
 */

export interface DevTools {
  /**
   * Resolves to the command's result. Rejects with the browser's error message, or with `BrowserGone`. `session`: a
   * page's session id; absent: the browser itself.
   */
  send: (method: string, params?: object, session?: string) => Promise<Record<string, unknown>>;
  /** Sets the one listener for events of this method. */
  on: (method: string, listener: (params: Record<string, unknown>) => void) => void;
}

/** The browser ended, or sent something that is not a protocol message. */
export class BrowserGone extends Error {}

type Message = {
  id?: number;
  method?: string;
  params?: Record<string, unknown>;
  result?: Record<string, unknown>;
  error?: { message?: string };
};

/** Largest message in bytes: several times the size of a screenshot in base64. */
const maxMessage = 96 * 1024 * 1024;

export const openDevTools = ({ stdin, stdout }: { stdin: Writable; stdout: Readable }): DevTools => {
  const waiting = new Map<
    number,
    { resolve: (value: Record<string, unknown>) => void; reject: (error: Error) => void }
  >();
  const listeners = new Map<string, (params: Record<string, unknown>) => void>();
  let parts: Buffer[] = [];
  let held = 0;
  let serial = 0;
  let lost: BrowserGone | undefined;

  const lose = (why: string) => {
    if (lost !== undefined) return;
    lost = new BrowserGone(why);
    for (const { reject } of waiting.values()) reject(lost);
    waiting.clear();
    parts = [];
  };
  const hear = (text: string) => {
    const message = JSON.parse(text) as Message;
    if (message.id === undefined) {
      listeners.get(message.method ?? "")?.(message.params ?? {});
      return;
    }
    const call = waiting.get(message.id);
    waiting.delete(message.id);
    if (message.error === undefined) call?.resolve(message.result ?? {});
    else call?.reject(new Error(message.error.message ?? "refused"));
  };
  stdout.on("data", (chunk: Buffer) => {
    if (lost !== undefined) return;
    let from = 0;
    try {
      for (let end = chunk.indexOf(0); end >= 0; end = chunk.indexOf(0, from)) {
        const text = Buffer.concat([...parts, chunk.subarray(from, end)]).toString("utf8");
        parts = [];
        held = 0;
        from = end + 1;
        hear(text);
      }
    } catch {
      return lose("the browser sent an invalid message");
    }
    const rest = chunk.subarray(from);
    held += rest.length;
    if (rest.length > 0) parts.push(rest);
    if (held > maxMessage) lose(`the browser sent a message of more than ${maxMessage} bytes`);
  });
  stdout.once("close", () => lose("the browser exited"));

  return {
    send(method, params = {}, session) {
      if (lost !== undefined) return Promise.reject(lost);
      const id = (serial += 1);
      const call = { id, method, params, ...(session === undefined ? {} : { sessionId: session }) };
      return new Promise((resolve, reject) => {
        waiting.set(id, { resolve, reject });
        stdin.write(`${JSON.stringify(call)}\0`);
      });
    },
    on(method, listener) {
      listeners.set(method, listener);
    },
  };
};
