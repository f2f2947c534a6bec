import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request as send,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";

/**
 * Stands before a mock provider on a real port: keeps the bodies that really arrive, and does what a mock cannot:
 * refuse, redirect, break off, fall silent.
 */

export type Fault =
  | { kind: "status"; status: number; body: string; headers?: Record<string, string> }
  | { kind: "redirect"; to: string }
  /** Passes so many bytes of the answer on, then breaks the connection, ends it in good order, or says no more. */
  | { kind: "cut" | "end" | "silent"; after: number }
  /** Never answers. */
  | { kind: "hold" };

export type Front = {
  origin: string;
  seen: { path: string; headers: IncomingHttpHeaders; body: Record<string, unknown> }[];
  /** Lines that are open now. */
  open(): number;
  fault: Fault | undefined;
  close(): Promise<void>;
};

export const startFront = async (target: string): Promise<Front> => {
  let open = 0;
  const front: Front = {
    origin: "",
    seen: [],
    open: () => open,
    fault: undefined,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  const answer = async (incoming: IncomingMessage, response: ServerResponse) => {
    open += 1;
    response.on("close", () => {
      open -= 1;
    });
    const pieces: Buffer[] = [];
    for await (const piece of incoming) pieces.push(piece as Buffer);
    const bytes = Buffer.concat(pieces);
    front.seen.push({
      path: incoming.url ?? "",
      headers: incoming.headers,
      body: JSON.parse(bytes.toString() || "{}") as Record<string, unknown>,
    });
    const { fault } = front;
    if (fault?.kind === "hold") return;
    if (fault?.kind === "status") {
      response.writeHead(fault.status, { "content-type": "application/json", ...fault.headers }).end(fault.body);
      return;
    }
    if (fault?.kind === "redirect") {
      response.writeHead(307, { location: fault.to }).end();
      return;
    }
    const { host: _host, ...headers } = incoming.headers;
    const onward = send(new URL(incoming.url ?? "/", target), { method: "POST", headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      if (fault === undefined) answer.pipe(response);
      else
        answer.on("data", cutter(response, fault)).on("end", () => {
          if (fault.kind === "cut") response.destroy();
          if (fault.kind === "end") response.end();
        });
    });
    onward.end(bytes);
  };
  const server = createServer((incoming, response) => {
    answer(incoming, response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  front.origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return front;
};

const cutter = (response: ServerResponse, fault: { kind: "cut" | "end" | "silent"; after: number }) => {
  let left = fault.after;
  return (piece: Buffer) => {
    if (left <= 0) return;
    response.write(piece.subarray(0, left), () => {
      if (left > 0) return;
      if (fault.kind === "cut") response.destroy();
      if (fault.kind === "end") response.end();
    });
    left -= piece.length;
  };
};
