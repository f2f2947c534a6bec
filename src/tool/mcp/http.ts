import { setImmediate as tick } from "node:timers/promises";
import { fetchFrom } from "../../outbound/fetch.ts";
import { reduceMessage } from "./message.ts";
import { type McpAuth, McpFailure } from "./server.ts";

/**
 * Requests to an MCP server at an address, and to the issuer of its tokens. Of their answers the library gets only
 * messages as `message.ts` leaves them, and short documents.
 */

type Fetch = (input: string | URL, init?: RequestInit) => Promise<Response>;

/** Limit for a server's answer to one request. */
const mostBytes = 4 * 1024 * 1024;
/** Limit for a refusal, and for the issuer's answers. */
const mostOther = 64 * 1024;
/** Each question of the server costs us a request, and a server could ask any number at once. */
const mostQuestions = 16;

/**
 * The server's headers are sent only to the server, and added only here: the library would send them to the issuer,
 * too.
 */
export const fetchOf = (server: {
  url: string;
  headers: Readonly<Record<string, string>>;
  auth?: McpAuth | undefined;
}): Fetch => {
  const url = new URL(server.url);
  const { auth } = server;
  const origins = [url.origin, ...(auth === undefined ? [] : [new URL(auth.issuer).origin])];
  const vouched = (to: URL) => origins.includes(to.origin);
  const options = { vouched, allowed: () => true };
  const messages = fetchFrom(origins, { ...options, maxBytes: mostBytes });
  const documents = fetchFrom(origins, { ...options, maxBytes: mostOther });
  let questions = 0;

  const heard = async (text: string): Promise<string | null> => {
    const said = await reduceMessage(text);
    if (said !== null && "problem" in said) throw new McpFailure(said.problem);
    questions += said?.asks ?? 0;
    return said === null || (said.asks > 0 && questions > mostQuestions) ? null : said.text;
  };

  return async (input, init = {}) => {
    const to = new URL(input);
    const method = init.method ?? "GET";
    // Unsolicited messages of a server are not used, and the library would hold a connection open for them.
    if (method === "GET" && to.href === url.href) return new Response(null, { status: 405 });
    if (to.href !== url.href) return documents(to, init);
    const headers = new Headers(init.headers);
    for (const [name, value] of Object.entries(server.headers)) if (!headers.has(name)) headers.set(name, value);
    const answer = await messages(to, { ...init, headers });
    const { status, headers: given, body } = answer;
    if (body === null) return answer;
    const kind = (given.get("content-type") ?? "").split(";", 1)[0]?.trim().toLowerCase();
    const made = (content: string | ReadableStream) => new Response(content, { status, headers: given });
    if (!answer.ok) return made(ReadableStream.from(firstOf(body, mostOther)));
    if (kind === "text/event-stream") return made(ReadableStream.from(eventsOf(body, heard)));
    if (kind !== "application/json") return answer;
    const text = await heard(await answer.text());
    if (text === null) throw new McpFailure("it answered with what is no answer");
    return made(text);
  };
};

async function* firstOf(body: AsyncIterable<Uint8Array>, most: number): AsyncGenerator<Uint8Array, void, undefined> {
  let left = most;
  for await (const part of body) {
    yield part.subarray(0, left);
    left -= part.length;
    if (left <= 0) return;
  }
}

const valueOf = (line: Buffer, field: "data:" | "event:"): Buffer | undefined => {
  if (line[0] !== field.charCodeAt(0) || line.toString("latin1", 0, field.length) !== field) return undefined;
  return line.subarray(line[field.length] === 32 ? field.length + 1 : field.length);
};

const usual = Buffer.from("message");

/** The messages of a stream of server-sent events (HTML standard); the other fields of an event are ignored. */
async function* eventsOf(
  body: AsyncIterable<Uint8Array>,
  heard: (text: string) => Promise<string | null>,
): AsyncGenerator<Uint8Array, void, undefined> {
  let rest: Buffer[] = [];
  let data: Buffer[] = [];
  let isMessage = true;
  for await (const bytes of body) {
    await tick();
    const part = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    let from = 0;
    for (let at = part.indexOf(10); at >= 0; at = part.indexOf(10, from)) {
      const piece = part.subarray(from, at);
      const whole = rest.length === 0 ? piece : Buffer.concat([...rest, piece]);
      rest = [];
      from = at + 1;
      const line = whole.at(-1) === 13 ? whole.subarray(0, -1) : whole;
      if (line.length > 0) {
        const value = valueOf(line, "data:");
        const kind = valueOf(line, "event:");
        if (value !== undefined) data.push(value);
        if (kind !== undefined) isMessage = kind.length === 0 || kind.equals(usual);
        continue;
      }
      const text = isMessage ? Buffer.concat(data).toString("utf8") : "";
      data = [];
      isMessage = true;
      const said = text === "" ? null : await heard(text);
      if (said !== null) yield Buffer.from(`data: ${said}\n\n`);
    }
    if (from < part.length) rest.push(part.subarray(from));
  }
}
