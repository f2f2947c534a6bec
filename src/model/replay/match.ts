/**
 * When two requests are equivalent: only the conversation counts. The instructions, tool descriptions and cache marks
 * do not, because we revise them; nor does what differs from run to run (ids, dates, hashes, durations, absolute
 * paths).
 */

export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };

/** `text`: equal for equivalent requests. `volatile`: the words that were replaced, in order. */
export type Compared = { value: Json; text: string; volatile: string[] };

const conversations = ["messages", "input", "contents"];
const marks = new Set(["cache_control", "cacheControl"]);

/** The conversation in a request's body, without the instructions. */
export const conversationIn = (body: Json): Json => {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return body;
  return Object.fromEntries(
    conversations.flatMap((field) => {
      const said = body[field];
      return Array.isArray(said) ? [[`body.${field}`, said.filter((message) => !isHandbook(message))]] : [];
    }),
  );
};

const isHandbook = (message: Json): boolean =>
  typeof message === "object" &&
  message !== null &&
  !Array.isArray(message) &&
  (message["role"] === "system" || message["role"] === "developer");

const volatilePattern = new RegExp(
  [
    String.raw`\b(?:task|ses|msg|call|slice|art|run)_[0-9a-z]{26}\b`,
    String.raw`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`,
    String.raw`\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z| ?[+-]\d\d:?\d\d)?)?`,
    // Needs a digit and a letter: otherwise it is a word or a number.
    String.raw`\b(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{7,64}\b`,
    String.raw`\b\d{1,9}(?:\.\d{1,9})? ?(?:ms|s|seconds)\b`,
    String.raw`\.sortie/attachments/[0-9a-z]{8}`,
    String.raw`/(?:tmp|home|root|Users|private|var)/(?:[^\s"'\x60:,;)\]<>\\.]|\.(?=[\w/]))+`,
  ].join("|"),
  "g",
);

export const compared = (value: Json): Compared => {
  const volatile: string[] = [];
  const plain = (part: Json): Json => {
    if (typeof part === "string")
      return part.replace(volatilePattern, (found) => {
        volatile.push(found);
        return "<…>";
      });
    if (Array.isArray(part)) return part.map(plain);
    if (typeof part !== "object" || part === null) return part;
    const kept = Object.entries(part).filter(([key]) => !marks.has(key) && !isCallID(part, key));
    return Object.fromEntries(kept.map(([key, inner]) => [key, plain(inner)]));
  };
  const normal = plain(value);
  return { value: normal, text: JSON.stringify(sorted(normal)), volatile };
};

/**
 * Calls are matched by their place, without their ids: a recording may have ids of ours where the provider's own are
 * sent now.
 */
const isCallID = (part: { [key: string]: Json }, key: string): boolean =>
  key === "tool_call_id" || key === "tool_use_id" || key === "call_id" || (key === "id" && isCall(part));

const isCall = ({ type, functionCall, functionResponse, name, args, response }: { [key: string]: Json }): boolean =>
  type === "tool_use" ||
  type === "function" ||
  type === "function_call" ||
  functionCall !== undefined ||
  functionResponse !== undefined ||
  (typeof name === "string" && (args !== undefined || response !== undefined));

const sorted = (value: Json): Json => {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const names = Object.keys(value).toSorted();
  return Object.fromEntries(names.map((name) => [name, sorted(value[name] ?? null)]));
};

/** The first field in which two values differ, in words; `depth` grows with how far they agree. */
export const differenceOf = (expected: Json, got: Json, path = ""): { depth: number; words: string } => {
  const same = (a: Json | undefined, b: Json | undefined) => JSON.stringify(a) === JSON.stringify(b);
  if (Array.isArray(expected) && Array.isArray(got)) {
    const at = expected.findIndex((part, index) => !same(part, got[index]));
    const index = at === -1 ? expected.length : at;
    if (index >= got.length || index >= expected.length)
      return { depth: index, words: `${path}: expected ${expected.length} entries, got ${got.length}.` };
    const inner = differenceOf(expected[index] ?? null, got[index] ?? null, `${path}[${index}]`);
    return { depth: index + inner.depth / (inner.depth + 1), words: inner.words };
  }
  if (isObject(expected) && isObject(got)) {
    const names = [...new Set([...Object.keys(expected), ...Object.keys(got)])];
    const name = names.find((field) => !same(expected[field], got[field]));
    if (name === undefined) return { depth: 0, words: `${path}: the order of the fields differs.` };
    const field = path === "" ? name : `${path}.${name}`;
    return differenceOf(expected[name] ?? null, got[name] ?? null, field);
  }
  const [one, other] = [expected, got].map((part) => (typeof part === "string" ? part : JSON.stringify(part)));
  const [a = "", b = ""] = [one, other];
  let at = 0;
  while (at < a.length && a[at] === b[at]) at += 1;
  const excerpt = (text: string) => JSON.stringify(text.slice(Math.max(0, at - 40), at + 60));
  return { depth: 0, words: `${path}: expected ${excerpt(a)}, got ${excerpt(b)}.` };
};

const isObject = (value: Json): value is { [key: string]: Json } =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * Encodes a body relative to the one before: `{"$same": true}` for an equal field, `{"$same": 4}` for a list's first
 * four entries.
 */
export const pack = (body: Json, before: Json | undefined): Json => {
  if (!isObject(body) || before === undefined || !isObject(before)) return body;
  return Object.fromEntries(
    Object.entries(body).map(([name, value]) => {
      const old = before[name];
      if (old === undefined || typeof value !== "object") return [name, value];
      if (JSON.stringify(old) === JSON.stringify(value)) return [name, { $same: true }];
      if (!Array.isArray(value) || !Array.isArray(old)) return [name, value];
      const differs = value.findIndex((part, index) => JSON.stringify(part) !== JSON.stringify(old[index]));
      return [name, differs <= 0 ? value : [{ $same: differs }, ...value.slice(differs)]];
    }),
  );
};

export const unpack = (body: Json, before: Json | undefined): Json => {
  if (!isObject(body) || before === undefined || !isObject(before)) return body;
  return Object.fromEntries(
    Object.entries(body).map(([name, value]) => {
      const old = before[name] ?? null;
      if (isObject(value) && value["$same"] === true) return [name, old];
      const first = Array.isArray(value) ? value[0] : undefined;
      if (first === undefined || !isObject(first) || typeof first["$same"] !== "number") return [name, value];
      return [name, [...(Array.isArray(old) ? old.slice(0, first["$same"]) : []), ...(value as Json[]).slice(1)]];
    }),
  );
};
