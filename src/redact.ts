import {
  createFinder,
  createOpening,
  enough,
  type Form,
  type Found,
  longest,
  replaced,
  shortest,
} from "./redact/finder.ts";
import { cutEscape, endOf, escapedParts, mostEscaped, unescapedLevels } from "./redact/unescape.ts";
import { windowsOf } from "./redact/window.ts";
import { inThread, type Job } from "./thread.ts";

/**
 * Keeps secrets out of everything that is written: the values this service knows, in the encodings in which they
 * usually leak and with any of their characters escaped; at export and in the log, also any text in the form of a
 * secret. It does not find a value that was encrypted, compressed, reversed, or cut into pieces of fewer than 20
 * characters.
 */

export type Secret = { kind: string; value: string };

export interface Secrets {
  /** Replaces known values with `[redacted:kind]`. Returns the same string when it holds none. */
  readonly known: (text: string) => string;
  /** Replaces known values, and text in the form of a secret. */
  readonly all: (text: string) => string;
  /** Replaces known values in bytes, which need not be text; returns the same bytes when there are none. */
  bytes(bytes: Uint8Array): Promise<Uint8Array>;
  /**
   * Returns a function that replaces the values known now in bytes that come in pieces, including values split between
   * two pieces. It replaces the same way each time. A piece is searched in one go.
   */
  pieces(): (pieces: AsyncIterable<Uint8Array>) => AsyncGenerator<Uint8Array>;
  /** Whether a text in UTF-8 holds neither known values nor text in the form of a secret. */
  isClean(text: Uint8Array | AsyncIterable<Uint8Array>): Promise<boolean>;
  /** Sets the known values of this kind, instead of the earlier ones. */
  learn(kind: string, values: readonly string[]): void;
  /**
   * Redacts a text that comes in pieces: an end that may be the beginning of a secret is held back until the next
   * piece, or `end`.
   */
  stream(): Stream;
}

export type Stream = { push(piece: string): string; holds(): boolean; end(): string };

const formsOf = ({ kind, value }: Secret): string[] => {
  const bytes = Buffer.from(value);
  const json = (text: string) => JSON.stringify(text).slice(1, -1);
  const url = encodeURIComponent(value);
  // In base64 a character depends on its neighbours, so the ones at the edges of the value are left out.
  const base64 = [0, 1, 2].map((shift) => {
    const text = Buffer.concat([Buffer.alloc(shift), bytes]).toString("base64");
    const whole = Math.floor(((shift + bytes.length) * 8) / 6);
    return text.slice(Math.ceil((shift * 8) / 6), whole);
  });
  const html = value.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
  const named = value
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
  return [
    value,
    bytes.toString("latin1"),
    ...base64,
    ...base64.map((text) => text.replaceAll("+", "-").replaceAll("/", "_")),
    url,
    url.replaceAll("%20", "+"),
    url.replace(/%[0-9A-F]{2}/g, (escape) => escape.toLowerCase()),
    json(value),
    json(json(value)),
    html,
    named,
    bytes.toString("hex"),
    bytes.toString("hex").toUpperCase(),
  ].filter((text) => text.length >= shortest && kind !== "");
};

/** The most bytes that are searched on this thread; more are searched in another one. */
const mostAtOnce = 256 * 1024;

type Task = { secrets: readonly Secret[]; bytes: Uint8Array };

/** undefined: there was nothing to replace. */
export const redacting: Job<Task, Uint8Array | undefined> = {
  name: "redact",
  run({ secrets, bytes }) {
    const clean = build(secrets).bytes(bytes);
    return clean === bytes ? undefined : clean;
  },
};

export const cleanChecking: Job<Task, boolean> = {
  name: "clean",
  run: ({ secrets, bytes }) => build(secrets).isClean(bytes),
};

export const createSecrets = (secrets: readonly Secret[]): Secrets => {
  const learned = new Map<string, readonly string[]>();
  let all = secrets;
  let now = build(all);
  return {
    known: (text) => now.known(text),
    all: (text) => now.all(text),
    async bytes(bytes) {
      if (all.length === 0 || bytes.length <= mostAtOnce) return now.bytes(bytes);
      return (await inThread(redacting, { secrets: all, bytes }, { timeoutMs: longMs })) ?? bytes;
    },
    pieces: () => now.pieces,
    async isClean(text) {
      for await (const bytes of text instanceof Uint8Array ? [text] : windowsOf(text)) {
        const isClean =
          bytes.length <= mostAtOnce
            ? now.isClean(bytes)
            : await inThread(cleanChecking, { secrets: all, bytes }, { timeoutMs: longMs });
        if (!isClean) return false;
      }
      return true;
    },
    stream: () => now.stream(),
    learn(kind, values) {
      if (values.join("\n") === (learned.get(kind) ?? []).join("\n")) return;
      learned.set(kind, values);
      all = [...secrets, ...[...learned].flatMap(([each, found]) => found.map((value) => ({ kind: each, value })))];
      now = build(all);
    },
  };
};

/** Milliseconds; a gigabyte takes some seconds. */
const longMs = 10 * 60_000;

type Built = Omit<Secrets, "learn" | "bytes" | "pieces" | "isClean"> & {
  pieces: ReturnType<Secrets["pieces"]>;
  bytes(bytes: Uint8Array): Uint8Array;
  isClean(bytes: Uint8Array): boolean;
};

const latin1Of = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");

const build = (secrets: readonly Secret[]): Built => {
  const forms = new Map<string, Form>();
  for (const secret of secrets)
    for (const text of secret.value.length < shortest ? [] : formsOf(secret)) {
      const least = text.length >= enough + 4 ? enough : text.length;
      if (!forms.has(text)) forms.set(text, { kind: secret.kind, text, least });
    }
  const all = [...forms.values()];
  const isWhole = (form: Form) => form.least === form.text.length;
  const parts = createFinder(
    all.filter((form) => !isWhole(form)),
    enough - 3,
  );
  const wholes = createFinder(all.filter(isWhole), shortest - 3);
  const someParts = !all.every(isWhole);
  const someWholes = all.some(isWhole);

  const find = (text: string): Found[] => [...(someParts ? parts(text) : []), ...(someWholes ? wholes(text) : [])];
  const longestForm = Math.min(
    longest,
    all.reduce((most, { text }) => Math.max(most, text.length), 0),
  );
  /** Finds forms in a text under escapes, as ranges of the escaped text. */
  const under = (text: string): Found[] =>
    escapedParts(text, longestForm).flatMap((part) =>
      unescapedLevels(part.text).flatMap((level) =>
        find(level.text).map(({ start, end, kind }) => ({
          start: part.start + (level.at[start] ?? 0),
          end: part.start + endOf(level, end),
          kind,
        })),
      ),
    );
  const findAll = (text: string): Found[] =>
    text.length < shortest || all.length === 0 ? [] : [...find(text), ...under(text)];
  const known = (text: string): string => replaced(text, findAll(text));

  const plainOpening = createOpening(all);
  /**
   * The position from which the end of a text may be the beginning of a form, also under escapes. An escape makes a
   * character at most `mostEscaped` times as long; an escape that is cut off is held back.
   */
  const opening = (text: string): number => {
    const from = Math.max(0, text.length - mostEscaped * longestForm);
    const tail = text.slice(from);
    return unescapedLevels(tail, true).reduce(
      (open, { text: level, at }) => Math.min(open, from + (at[plainOpening(level)] ?? 0)),
      Math.min(plainOpening(text), from + plainOpening(tail.slice(0, cutEscape(tail)))),
    );
  };
  const stream = (): Stream => {
    let held = "";
    return {
      push(piece) {
        if (all.length === 0) return piece;
        const text = held + piece;
        const begun = opening(text);
        // A possible beginning of another form must not cut a complete match, as the letter of an escape might.
        const open = findAll(text)
          .toSorted((a, b) => b.start - a.start)
          .reduce((at, { start, end }) => (start < at && at < end ? start : at), begun);
        held = text.slice(open);
        return known(text.slice(0, open));
      },
      holds: () => held !== "",
      end() {
        const rest = known(held);
        held = "";
        return rest;
      },
    };
  };
  return {
    known,
    all: (text) => patterned(known(text)),
    async *pieces(pieces) {
      if (all.length === 0) return yield* pieces;
      const text = stream();
      for await (const piece of pieces) {
        const clean = text.push(latin1Of(piece));
        if (clean !== "") yield Buffer.from(clean, "latin1");
      }
      const rest = text.end();
      if (rest !== "") yield Buffer.from(rest, "latin1");
    },
    bytes(bytes) {
      if (all.length === 0) return bytes;
      const text = latin1Of(bytes);
      const clean = known(text);
      return clean === text ? bytes : Buffer.from(clean, "latin1");
    },
    isClean(bytes) {
      const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString();
      return patterned(known(text)) === text;
    },
    stream,
  };
};

/**
 * Every quantifier is bounded, and none can match what another one gave back, so matching is linear in the text (test
 * T19). The first group is the text that stays. No pattern matches a quote or half of an escape, so that a line of JSON
 * stays valid.
 */
const patterns: readonly (readonly [kind: string, form: RegExp])[] = [
  [
    "private-key",
    /()-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY-----(?:[A-Za-z0-9+/=\s]|\\[nrt]){0,16384}(?:-----END [A-Z0-9 ]{0,41}-----)?/g,
  ],
  ["jwt", /()(?<![\w-])eyJ[\w-]{10,4000}\.eyJ[\w-]{10,4000}\.[\w-]{10,2000}/g],
  ["key", /()sk-[\w-]{16,200}/g],
  ["github-token", /()(?:gh[oprsu]_[A-Za-z0-9]{30,255}|github_pat_\w{22,255})/g],
  ["gitlab-token", /()glpat-[\w-]{20,100}/g],
  ["aws-key", /()A[KS]IA[A-Z0-9]{16}(?![A-Z0-9])/g],
  ["google-key", /()AIza[\w-]{35}/g],
  ["slack-token", /()xox[abeoprs]-[\w-]{10,250}/g],
  ["webhook-secret", /()whsec_[A-Za-z0-9+/]{32,100}={0,2}/g],
  ["npm-token", /()npm_[A-Za-z0-9]{36}/g],
  ["authorization", /(\b(?:Bearer|Basic) {1,3})[\w.~+/-]{16,4000}={0,2}/gi],
  ["url-password", /(:\/\/[^\s/:@'"\\]{0,64}:)[^\s/@'"\\]{1,256}(?=@)/g],
  ["variable", /((?:KEY|TOKEN|SECRET|PASSWORD)=)[^\s"'\\[]{8,200}/g],
];

const patterned = (text: string): string => {
  let clean = text;
  for (const [kind, form] of patterns) clean = clean.replace(form, `$1[redacted:${kind}]`);
  return clean;
};

/** A copy of plain data with `change` applied to every string; the same value when nothing changed. */
export const mapStrings = <T>(value: T, change: (text: string) => string): T => walk(value, change) as T;

const walk = (value: unknown, change: (text: string) => string): unknown => {
  if (typeof value === "string") return change(value);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) {
    const items: unknown[] = value.map((item) => walk(item, change));
    return items.some((item, at) => item !== value[at]) ? items : value;
  }
  let copy: Record<string, unknown> | undefined;
  for (const [key, item] of Object.entries(value)) {
    const name = change(key);
    const mapped = walk(item, change);
    if (mapped === item && name === key) continue;
    copy ??= { ...value };
    if (name !== key) delete copy[key];
    copy[name] = mapped;
  }
  return copy ?? value;
};
