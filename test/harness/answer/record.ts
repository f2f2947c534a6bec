import { ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type Answered, judgeByDocument } from "./judge.ts";

/**
 * Keeps every answer that services in this process send, whatever client asked, until the test is over
 * (test/harness/answer/setup.ts). Taken where Node's response is written, so that nothing is read or copied twice.
 */

/** More text than this between two tests is not kept; status, type and operation are. */
const mostText = 64 * 1024 * 1024;

const state = { kept: [] as Answered[], text: 0 };
const open = new WeakMap<ServerResponse, Answered>();
const hollowPorts = new Set<number>();

/** Whether the service on this port is a double, whose records are not whole. */
export const setHollow = (port: number, hollow: boolean): void =>
  void (hollow ? hollowPorts.add(port) : hollowPorts.delete(port));

const headerOf = (headers: unknown, name: string): string | undefined => {
  const value = (headers as Record<string, unknown> | undefined)?.[name];
  return typeof value === "string" ? value : undefined;
};

const add = (answered: Answered, text: unknown): void => {
  if (typeof text !== "string" || state.text > mostText) return;
  if (answered.type !== "application/json" && answered.type !== "text/event-stream") return;
  state.text += text.length;
  answered.body = (answered.body ?? "") + text;
};

type Method = (...given: unknown[]) => unknown;

export const record = (): void => {
  const [writeHead, write, end] = (["writeHead", "write", "end"] as const).map(
    (name) => Reflect.get(ServerResponse.prototype, name) as Method,
  ) as [Method, Method, Method];
  const patched = {
    writeHead(this: ServerResponse, status: number, ...rest: unknown[]) {
      const headers = rest.at(-1);
      // Only the service's own answers have this header; providers and receivers of the tests do not.
      if (headerOf(headers, "x-request-id")?.startsWith("req_") === true) {
        const { method = "", url = "" } = this.req;
        const port = (this.socket?.address() as AddressInfo | undefined)?.port;
        const answered: Answered = {
          method,
          target: url,
          status,
          type: headerOf(headers, "content-type")?.split(";")[0],
          body: undefined,
          hollow: port !== undefined && hollowPorts.has(port),
        };
        state.kept.push(answered);
        if (method !== "HEAD") open.set(this, answered);
      }
      return Reflect.apply(writeHead, this, [status, ...rest]);
    },
    write(this: ServerResponse, chunk: unknown, ...rest: unknown[]) {
      const answered = open.get(this);
      if (answered !== undefined) add(answered, chunk);
      return Reflect.apply(write, this, [chunk, ...rest]);
    },
    end(this: ServerResponse, chunk: unknown, ...rest: unknown[]) {
      const answered = open.get(this);
      if (answered !== undefined) add(answered, chunk);
      return Reflect.apply(end, this, [chunk, ...rest]);
    },
  };
  Object.assign(ServerResponse.prototype, patched);
};

/** What is wrong with the answers since the last call, each once. */
export const faults = (): string[] => {
  const { kept } = state;
  state.kept = [];
  state.text = 0;
  return [...new Set(kept.flatMap((answered) => judgeByDocument(answered) ?? []))];
};
