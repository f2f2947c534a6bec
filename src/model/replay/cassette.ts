import { readdirSync, readFileSync } from "node:fs";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { messageOf, ServiceError } from "../../error.ts";
import type { Connection } from "../provider-kind.ts";
import { type Compared, compared, conversationIn, differenceOf, pack, unpack } from "./match.ts";
import { keptOrLoaded } from "../../async/load-once.ts";

/**
 * Exchanges with a provider at the HTTP level, in one readable JSON file per Task, without request headers and keys.
 * They are played back by the content of the request, not by order, so that a Task that was killed and asks again gets
 * the same answer. A request that was not recorded is refused with its difference from the nearest one; a cassette
 * never calls out.
 */

const json = z.json();
const exchange = z.object({
  request: z.object({ path: z.string(), body: json }),
  response: z.object({
    status: z.number().int(),
    headers: z.record(z.string(), z.string()),
    /** Lines of a stream, or a JSON body. */
    lines: z.array(z.string()).optional(),
    body: json.optional(),
  }),
});
const cassette = z.object({
  cassette: z.literal(1),
  note: z.string().optional(),
  provider: z.object({
    kind: z.enum(["anthropic", "openai", "google", "openrouter", "openai-compatible"]),
    api: z.enum(["responses", "chat"]),
    baseURL: z.url(),
    model: z.string(),
  }),
  exchanges: z.array(exchange),
});

export type Cassette = z.infer<typeof cassette>;
type Exchange = Cassette["exchanges"][number];

/** Wraps the `fetch` of a provider; `label` names the Task. */
export type FetchWrapper = (line: typeof fetch, label: string) => typeof fetch;

/** No recorded request matches this one. */
export class CassetteMiss extends Error {
  constructor(message: string) {
    super(message);
    this.name = "CassetteMiss";
  }
}

const bodyOf = (init: RequestInit | undefined): z.infer<typeof json> => {
  try {
    return JSON.parse(typeof init?.body === "string" ? init.body : "null") as z.infer<typeof json>;
  } catch {
    return null;
  }
};
const pathOf = (input: Parameters<typeof fetch>[0]): string => {
  const url = new URL(input instanceof Request ? input.url : String(input));
  url.searchParams.delete("key");
  return `${url.pathname}${url.search}`;
};

/** Headers that a reader of the answer may use; the others name accounts, or change from call to call. */
const keptHeaders = ["content-type", "retry-after", "retry-after-ms"];

export interface Recorder {
  tape(connection: Connection, modelID: string): FetchWrapper;
}

/** `redact` removes known secrets from everything that is written. */
export const createRecorder = (folder: string, redact: (text: string) => string): Recorder => {
  const recordings = new Map<string, Promise<Recording>>();
  return {
    tape: (connection, modelID) => (line, label) => async (input, init) => {
      const response = await line(input, init);
      const { kind, api, baseURL } = connection;
      const begun: Cassette = { cassette: 1, provider: { kind, api, baseURL, model: modelID }, exchanges: [] };
      const name = /^[\w.-]{1,80}$/.test(label) ? label : "call";
      // One file per model; another model that takes over the Task gets its own.
      const file = join(folder, `${name}.${`${connection.id}-${modelID}`.replace(/[^\w.-]+/g, "-").slice(0, 80)}.json`);
      const recording = keptOrLoaded(recordings, file, () => openRecording(file, begun, redact));
      const request = { path: pathOf(input), body: bodyOf(init) };
      const headers = Object.fromEntries(
        keptHeaders.flatMap((header) => {
          const value = response.headers.get(header);
          return value === null ? [] : [[header, value]];
        }),
      );
      const pieces: Uint8Array[] = [];
      const keep = new TransformStream<Uint8Array, Uint8Array>({
        transform(piece, controller) {
          pieces.push(piece);
          controller.enqueue(piece);
        },
        // Only complete answers are recorded: a truncated one would look like a mistake of the provider.
        async flush() {
          const text = Buffer.concat(pieces).toString("utf8");
          await (await recording).add({ request, response: { status: response.status, headers, ...answer(text) } });
        },
      });
      return new Response(response.body?.pipeThrough(keep) ?? null, {
        status: response.status,
        statusText: response.statusText,
        headers: response.headers,
      });
    },
  };
};

const answer = (text: string): Pick<Exchange["response"], "lines" | "body"> => {
  try {
    return { body: JSON.parse(text) as z.infer<typeof json> };
  } catch {
    return { lines: text.split("\n") };
  }
};

type Recording = { add(exchange: Exchange): Promise<void> };

/**
 * Continues an existing file, as after a restart. Each request repeats its conversation, which is written only once.
 */
const openRecording = async (file: string, begun: Cassette, redact: (text: string) => string): Promise<Recording> => {
  const known = await readFile(file, "utf8").catch(() => undefined);
  const kept = known === undefined ? begun : parse(known, file);
  const exchanges = unpacked(kept.exchanges);
  let writing: Promise<void> = Promise.resolve();
  return {
    add(exchange) {
      exchanges.push(exchange);
      const bodies = exchanges.map(({ request }) => request.body);
      const packed = exchanges.map(({ request, response }, index) => ({
        request: { path: request.path, body: pack(request.body, bodies[index - 1]) },
        response,
      }));
      const text = redact(`${JSON.stringify({ ...kept, exchanges: packed }, null, 2)}\n`);
      writing = writing.then(async () => {
        await mkdir(join(file, ".."), { recursive: true, mode: 0o700 });
        await writeFile(`${file}.tmp`, text, { mode: 0o600 });
        await rename(`${file}.tmp`, file);
      });
      return writing;
    },
  };
};

const unpacked = (exchanges: readonly Exchange[]): Exchange[] => {
  let before: Exchange["request"]["body"] | undefined;
  return exchanges.map(({ request, response }) => {
    before = unpack(request.body, before);
    return { request: { ...request, body: before }, response };
  });
};

const parse = (text: string, file: string): Cassette => {
  try {
    return cassette.parse(JSON.parse(text));
  } catch (error) {
    throw new ServiceError("model_not_configured", `${file} is no cassette: ${messageOf(error).slice(0, 300)}`);
  }
};

/** The names of a folder's cassettes, in order. */
export const cassettesIn = (folder: string): string[] => {
  try {
    const names = readdirSync(folder).filter((name) => /^[\w][\w.-]*\.json$/.test(name));
    return names.map((name) => name.slice(0, -".json".length)).toSorted();
  } catch {
    return [];
  }
};

/** @throws ServiceError where the file is no cassette. */
export const openCassette = (folder: string, name: string): Cassette => {
  const file = join(folder, `${name}.json`);
  return parse(readFileSync(file, "utf8"), file);
};

/**
 * Answers requests from a cassette. Equal requests with different answers get those in turn, then always the last one.
 */
export const play = (name: string, { exchanges }: Cassette): FetchWrapper => {
  const recorded = unpacked(exchanges).map(({ request, response }) => ({
    path: request.path,
    response,
    ...compared(conversationIn(request.body)),
  }));
  const asked = new Map<string, number>();
  const answering: typeof fetch = async (input, init) => {
    init?.signal?.throwIfAborted();
    const path = pathOf(input);
    const said = compared(conversationIn(bodyOf(init)));
    const key = `${path} ${said.text}`;
    const same = recorded.filter((exchange) => exchange.path === path && exchange.text === said.text);
    const count = asked.get(key) ?? 0;
    asked.set(key, count + 1);
    const found = same[Math.min(count, same.length - 1)];
    if (found === undefined) throw new CassetteMiss(missOf(name, path, said, recorded));
    const { status, headers, lines, body } = found.response;
    const text = lines === undefined ? JSON.stringify(body) : lines.join("\n");
    return new Response(replaced(text, found.volatile, said.volatile), { status, headers });
  };
  return () => answering;
};

/** Replaces the volatile words of the recording (paths, ids) by those of the request. */
const replaced = (text: string, then: readonly string[], now: readonly string[]): string => {
  const pairs = new Map(then.map((old, index) => [old, now[index] ?? old]));
  const longest = [...pairs].filter(([old, fresh]) => old !== fresh).toSorted(([a], [b]) => b.length - a.length);
  return longest.reduce((result, [old, fresh]) => result.replaceAll(old, fresh), text);
};

const missOf = (
  name: string,
  path: string,
  said: Compared,
  recorded: readonly (Compared & { path: string })[],
): string => {
  const begin = `The cassette ${name} has no answer to this request.`;
  const here = recorded.filter((exchange) => exchange.path === path);
  if (here.length === 0)
    return `${begin} path: expected ${[...new Set(recorded.map((exchange) => exchange.path))].join(" or ")}, got ${path}.`;
  const differences = here.map((exchange) => differenceOf(exchange.value, said.value));
  // The request that matches furthest is most likely the one that was meant.
  const nearest = differences.reduce((best, other) => (other.depth > best.depth ? other : best));
  return `${begin} ${nearest.words}`;
};
