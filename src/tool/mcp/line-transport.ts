import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import { messageOf } from "../../error.ts";
import type { InteractiveProcess } from "../../process/process.ts";
import { reduceMessage } from "./message.ts";
import { McpFailure } from "./server.ts";

/**
 * Messages, one per line, over a program's standard input and output. The program is not trusted: the length and
 * nesting of its lines, and how much it sends without an answer, are bounded; beyond that it is killed, and `over` is
 * called with the reason.
 */

const longestLine = 4 * 1024 * 1024;
const mostUnasked = 16 * 1024 * 1024;
const mostQuestions = 1000;

export type LineTransport = Transport & {
  /** Called when a request is sent: output from now on may be an answer. */
  asked(): void;
};

export const createLineTransport = (program: InteractiveProcess, over: (why: McpFailure) => void): LineTransport => {
  let line: Buffer[] = [];
  let length = 0;
  let unasked = 0;
  let ended = false;

  const end = (why: string) => {
    if (ended) return;
    ended = true;
    line = [];
    over(new McpFailure(why));
    program.kill();
  };
  /** A long message is read in a thread; later messages must not overtake it. */
  let before: Promise<void> | undefined;
  let questions = 0;
  const said = (heard: Awaited<ReturnType<typeof reduceMessage>>) => {
    // Programs that log to standard output are common; a line that is not a message is ignored.
    if (ended || heard === null) return;
    if ("problem" in heard) return end(heard.problem);
    questions += heard.asks;
    if (questions > mostQuestions) return end(`it asked more than ${mostQuestions} questions`);
    const given = JSON.parse(heard.text) as JSONRPCMessage | JSONRPCMessage[];
    for (const message of Array.isArray(given) ? given : [given]) transport.onmessage?.(message);
  };
  const listen = (text: string) => {
    if (text.trim() === "") return;
    const heard = reduceMessage(text);
    if (before === undefined && !(heard instanceof Promise))
      try {
        return said(heard);
      } catch (error) {
        // Thrown from this stream's handler, the error would end the service.
        return end(messageOf(error));
      }
    const mine: Promise<void> = Promise.all([heard, before])
      .then(([now]) => said(now))
      .catch((error: unknown) => end(messageOf(error)))
      .finally(() => {
        if (before === mine) before = undefined;
      });
    before = mine;
  };
  const take = (chunk: Buffer) => {
    if (ended) return;
    unasked += chunk.length;
    if (unasked > mostUnasked) return end(`it sent more than ${mostUnasked / 1024 / 1024} MiB without an answer`);
    let from = 0;
    for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, from)) {
      const whole = Buffer.concat([...line, chunk.subarray(from, at)]);
      line = [];
      length = 0;
      from = at + 1;
      listen(whole.toString("utf8"));
      if (ended) return;
    }
    const rest = chunk.subarray(from);
    length += rest.length;
    if (length > longestLine) return end(`it sent a message of more than ${longestLine / 1024 / 1024} MiB`);
    line.push(rest);
  };

  const transport: LineTransport = {
    start() {
      program.stdout.on("data", take);
      program.stdout.on("error", () => {});
      const closed = async () => {
        await program.gone;
        await before;
        ended = true;
        transport.onclose?.();
      };
      // Nobody is left to receive an error.
      closed().catch(() => {});
      return Promise.resolve();
    },
    send(message) {
      if (!ended) program.stdin.write(`${JSON.stringify(message)}\n`);
      return Promise.resolve();
    },
    async close() {
      program.kill();
      await program.gone;
    },
    asked() {
      unasked = 0;
    },
  };
  return transport;
};
