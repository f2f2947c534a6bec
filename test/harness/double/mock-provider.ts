import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/**
 * A language model on a real port that speaks OpenAI chat streaming and says what a script says. It keeps no state of
 * a conversation: which turn is due is the number of assistant messages that came, so a repeated request gets the same
 * answer, as after a crash. Cheap enough for 500 conversations at once.
 */

export type MockTurn = {
  text?: string;
  reasoning?: string;
  /** `input` as a string is sent as it stands, for malformed arguments. */
  calls?: { tool: string; input: unknown; id?: string }[];
  /** Default: tool_calls where there are calls, else stop. */
  finish?: "stop" | "tool_calls" | "length" | "content_filter";
  usage?: { input: number; output: number; cached?: number };
  /** Answers only after `release()`. */
  hold?: boolean;
  /** The text as it comes, instead of `text`. */
  pieces?: AsyncIterable<string>;
  /** The arguments of the calls come a line at a time, spread over so many milliseconds. */
  overMs?: number;
  /** Milliseconds before the answer. */
  latencyMs?: number;
  /** Refuses instead of answering. */
  fail?: { status: number; message?: string; headers?: Record<string, string> };
  /** "cut": closes the connection after the text; "silent": sends the text and then nothing, the line stays open. */
  fault?: "cut" | "silent";
};

export type MockMessage = {
  role: string;
  content?: unknown;
  tool_calls?: { id: string; function: { name: string; arguments: string } }[];
  tool_call_id?: string;
};

export type MockRequest = {
  path: string;
  headers: IncomingMessage["headers"];
  body: { model: string; messages: MockMessage[]; tools?: { function: { name: string } }[]; [field: string]: unknown };
  /** The text of the first user message. */
  first: string;
  /** How many assistant messages the request holds: 0 for the first turn. */
  turn: number;
};

/** Turns by a marker that the first user message contains, or a function of the request. */
export type MockScript = Record<string, MockTurn[]> | ((request: MockRequest) => MockTurn | Promise<MockTurn>);

export type MockProvider = {
  /** For `baseURL` of an `openai-compatible` provider. */
  baseURL: string;
  /** The newest requests, at most `keep`; without reviews that were accepted by themselves. */
  requests: MockRequest[];
  /** All such requests so far. */
  count(): number;
  /** Requests that wait for `release()`. */
  held(): number;
  /** Answers everything held, and everything to come at once. */
  release(): void;
  close(): Promise<void>;
};

/**
 * `reviews`: a reviewer's requests are accepted by themselves, unless the script is to answer them. `heard`: called
 * with every request, those too.
 */
export const startMockProvider = async (
  script: MockScript,
  options: {
    latencyMs?: number;
    keep?: number;
    reviews?: "accepted" | "script";
    heard?: (request: MockRequest) => void;
    /** What whoever judges the whole of a Mission says; by default, or undefined, that it is accepted. */
    judges?: (request: MockRequest) => MockTurn | undefined;
  } = {},
): Promise<MockProvider> => {
  const requests: MockRequest[] = [];
  const waiting = new Set<() => void>();
  let released = false;
  let count = 0;

  const answer = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const request = await readRequest(incoming);
    options.heard?.(request);
    const review = options.reviews !== "script" && isReview(request);
    const describes = options.reviews !== "script" && isDescription(request);
    const judges = options.reviews !== "script" && isVerdict(request);
    if (!review && !describes && !judges) {
      count += 1;
      requests.push(request);
    }
    if (requests.length > (options.keep ?? 200)) requests.shift();
    const turn = describes
      ? description
      : review
        ? acceptance(request)
        : judges
          ? (options.judges?.(request) ?? wholeAccepted(request))
          : typeof script === "function"
            ? await script(request)
            : scripted(script, request);
    if (turn.hold === true && !released) await held(waiting, response);
    const latencyMs = turn.latencyMs ?? options.latencyMs ?? 0;
    if (latencyMs > 0) await new Promise((resolve) => setTimeout(resolve, latencyMs));
    if (response.destroyed) return;
    if (turn.fail !== undefined) return refuse(response, turn.fail);
    const chunks = chunksOf(turn, request, count);
    response.writeHead(200, { "content-type": "text/event-stream" });
    if (turn.pieces !== undefined) {
      const [begin = "", ...end] = chunks;
      response.write(begin);
      for await (const content of turn.pieces) {
        if (response.destroyed) return;
        response.write(chunkOf(request, count, { content }));
      }
      response.end(`${end.join("")}data: [DONE]\n\n`);
      return;
    }
    if (turn.overMs !== undefined) {
      for (const [index, chunk] of chunks.entries()) {
        if (response.destroyed) return;
        response.write(chunk);
        if (index > 0) await new Promise((resolve) => setTimeout(resolve, (turn.overMs ?? 0) / chunks.length));
      }
      response.end("data: [DONE]\n\n");
      return;
    }
    if (turn.fault === undefined) {
      response.end(`${chunks.join("")}data: [DONE]\n\n`);
      return;
    }
    // The faults come after the text, before any finish.
    response.write(chunks.slice(0, -2).join(""), () => {
      if (turn.fault === "cut") setTimeout(() => response.destroy(), 5);
    });
  };

  const server = createServer((incoming, response) => {
    answer(incoming, response).catch((error: unknown) => {
      if (!response.headersSent) refuse(response, { status: 500, message: String(error) });
      else response.destroy();
    });
  });
  // Clients keep connections; a server that closes them first makes resets nobody asked for.
  server.keepAliveTimeout = 60_000;
  await new Promise<void>((resolve) => server.listen({ host: "127.0.0.1", port: 0, backlog: 1024 }, resolve));
  const { port } = server.address() as AddressInfo;
  return {
    baseURL: `http://127.0.0.1:${port}/v1`,
    requests,
    count: () => count,
    held: () => waiting.size,
    release() {
      released = true;
      for (const go of waiting) go();
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
};

const readRequest = async (incoming: IncomingMessage): Promise<MockRequest> => {
  const pieces: Buffer[] = [];
  for await (const piece of incoming) pieces.push(piece as Buffer);
  const body = JSON.parse(Buffer.concat(pieces).toString()) as MockRequest["body"];
  return {
    path: incoming.url ?? "",
    headers: incoming.headers,
    body,
    first: textOf(body.messages.find(({ role }) => role === "user")?.content),
    turn: body.messages.filter(({ role }) => role === "assistant").length,
  };
};

/** The text of a message, whose content is a string or a list of parts. */
export const textOf = (content: unknown): string => {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((part: { text?: string }) => part.text ?? "").join("");
};

/** A reviewer's request: nobody else has a verdict to give. */
const isReview = ({ body }: MockRequest): boolean =>
  body.tools?.some(({ function: { name } }) => name === "verdict") === true;

/** The whole of a Mission is to be judged. */
export const isVerdict = ({ first }: Pick<MockRequest, "first">): boolean =>
  first.startsWith("# Has this goal been reached?");

/** It is accepted, whatever it is. */
export const wholeAccepted = ({ turn }: Pick<MockRequest, "turn">): MockTurn =>
  turn === 0 ? verdictOn("accepted", "All of it is there.") : { text: "Judged." };

export const verdictOn = (verdict: string, notes: string): MockTurn => ({
  calls: [{ tool: "give_output", input: { output: { verdict, notes } } }],
});

/** The question for a commit's message, where an agent's end had none. */
export const isDescription = ({ body }: MockRequest): boolean => body.tools?.[0]?.function.name === "commit_message";

const description: MockTurn = {
  calls: [{ tool: "commit_message", input: { title: "Change what was asked for", body: "It was asked for." } }],
};

/** The numbers of the parts in a reviewer's brief. */
export const partsOf = (brief: string): number[] =>
  [...brief.matchAll(/^# Part (\d+): /gm)].map(([, part]) => Number(part));

/** Whatever it is given is accepted. */
export const acceptance = ({ first }: Pick<MockRequest, "first">): MockTurn => ({
  calls: [
    {
      tool: "verdict",
      input: { parts: partsOf(first).map((part) => ({ part, verdict: "accepted", notes: "As it was asked for." })) },
    },
  ],
});

const scripted = (script: Record<string, MockTurn[]>, request: MockRequest): MockTurn => {
  const marker = Object.keys(script).find((key) => request.first.includes(key));
  const turn = marker === undefined ? undefined : script[marker]?.[request.turn];
  if (turn !== undefined) return turn;
  const message = `The mock's script has no turn ${request.turn} for "${request.first.slice(0, 80)}".`;
  return { fail: { status: 400, message } };
};

const held = (waiting: Set<() => void>, response: ServerResponse): Promise<void> =>
  new Promise((resolve) => {
    const go = () => {
      waiting.delete(go);
      response.off("close", go);
      resolve();
    };
    waiting.add(go);
    response.on("close", go);
  });

const refuse = (response: ServerResponse, fail: NonNullable<MockTurn["fail"]>): void => {
  response.writeHead(fail.status, { "content-type": "application/json", ...fail.headers });
  response.end(JSON.stringify({ error: { message: fail.message ?? `mock ${fail.status}`, type: "mock", code: null } }));
};

const chunkOf = (
  request: MockRequest,
  id: number,
  delta: object,
  finish: string | null = null,
  more: object = {},
): string =>
  `data: ${JSON.stringify({
    id: `chatcmpl-${id}`,
    object: "chat.completion.chunk",
    created: 1_700_000_000,
    model: request.body.model,
    choices: [{ index: 0, delta, finish_reason: finish }],
    ...more,
  })}\n\n`;

const chunksOf = (turn: MockTurn, request: MockRequest, id: number): string[] => {
  const frame = (delta: object, finish?: string | null, more?: object) => chunkOf(request, id, delta, finish, more);
  const calls = turn.calls ?? [];
  const usage = turn.usage ?? { input: 100, output: 10 };
  const text = turn.text ?? "";
  const half = Math.ceil(text.length / 2);
  return [
    frame({ role: "assistant", content: "" }),
    ...(turn.reasoning === undefined ? [] : [frame({ reasoning_content: turn.reasoning })]),
    ...[text.slice(0, half), text.slice(half)].filter((piece) => piece !== "").map((content) => frame({ content })),
    ...calls.flatMap(({ tool, input, id: own }, index) => {
      const written = typeof input === "string" ? input : JSON.stringify(input);
      const [first = "", ...more] = turn.overMs === undefined ? [written] : written.split(/(?<=\\n)/);
      const head = { id: own ?? `call_${request.turn}_${index}`, type: "function" };
      return [
        frame({ tool_calls: [{ index, ...head, function: { name: tool, arguments: first } }] }),
        ...more.map((piece) => frame({ tool_calls: [{ index, function: { arguments: piece } }] })),
      ];
    }),
    frame({}, turn.finish ?? (calls.length > 0 ? "tool_calls" : "stop")),
    frame({}, null, {
      choices: [],
      usage: {
        prompt_tokens: usage.input,
        completion_tokens: usage.output,
        total_tokens: usage.input + usage.output,
        prompt_tokens_details: { cached_tokens: usage.cached ?? 0 },
      },
    }),
  ];
};
