/**
 * Keeps secrets out of everything that is written: the values this service knows, in the encodings in which they
 * usually leak, and at export and in the log also any text in the form of a secret. It does not find a value that was
 * encrypted, compressed, reversed, or cut into pieces of fewer than 20 characters.
 */

export type Secret = { kind: string; value: string };

export interface Secrets {
  /** Replaces known values with `[redacted:kind]`. Returns the same string when it holds none. */
  readonly known: (text: string) => string;
  /** Replaces known values, and text in the form of a secret. */
  readonly all: (text: string) => string;
  /** Replaces known values in bytes, which need not be text. */
  bytes(bytes: Uint8Array): Uint8Array;
  /** Replaces the known values of this kind. */
  learn(kind: string, values: readonly string[]): void;
  /**
   * Redacts a text that comes in pieces: what may be the beginning of a secret is held back until the next piece, or
   * `end`.
   */
  stream(): Stream;
}

export type Stream = { push(piece: string): string; holds(): boolean; end(): string };

/** Minimum length of a value that is redacted; shorter ones are ordinary words. */
const shortest = 8;
/** This many characters of a longer value suffice to redact them: the rest may be cut off, or on another line. */
const enough = 20;
/** The most characters that a stream holds back, and the longest value that is searched for as a whole. */
const longest = 4096;
type Form = { kind: string; text: string; least: number };

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

/** Four characters as one number. Characters above 255 collide with others, which only costs a comparison. */
const gram = (text: string, at: number): number =>
  (text.charCodeAt(at) & 0xff) |
  ((text.charCodeAt(at + 1) & 0xff) << 8) |
  ((text.charCodeAt(at + 2) & 0xff) << 16) |
  (text.charCodeAt(at + 3) << 24);

const gramIn = (text: string, at: number): number => (at < 0 || at + 4 > text.length ? 0 : gram(text, at));

const slot = (code: number): number => Math.imul(code, 0x9e3779b1) >>> 16;

type Found = { start: number; end: number; kind: string };

/**
 * Examines only every `stride`th position of a text, and searches a table for the four characters there: any match of
 * at least `stride + 3` characters covers such a position.
 */
const createFinder = (forms: readonly Form[], stride: number) => {
  const places = new Map<number, { form: Form; at: number; left: number; right: number }[]>();
  const seen = new Uint8Array(forms.length === 0 ? 0 : 65_536);
  for (const form of forms)
    for (let at = 0; at + 4 <= form.text.length; at += 1) {
      // A form that must match as a whole is first hit at one of its first `stride` positions.
      if (form.least === form.text.length && at >= stride) break;
      const code = gram(form.text, at);
      seen[slot(code)] = 1;
      const place = { form, at, left: gramIn(form.text, at - 8), right: gramIn(form.text, at + 8) };
      const known = places.get(code);
      if (known === undefined) places.set(code, [place]);
      else known.push(place);
    }

  /** The longest match around a position that is long enough for its form. */
  const around = (text: string, at: number, from: number): Found | undefined => {
    let best: Found | undefined;
    const left = gramIn(text, at - 8);
    const right = gramIn(text, at + 8);
    for (const place of places.get(gram(text, at)) ?? []) {
      const { form, at: inForm } = place;
      // A partial match that is long enough continues for 8 characters to at least one side.
      if (form.least === enough && place.right !== right && place.left !== left) continue;
      let end = at + 4;
      while (text.charCodeAt(end) === form.text.charCodeAt(end - at + inForm)) end += 1;
      let start = at;
      while (start > from && text.charCodeAt(start - 1) === form.text.charCodeAt(start - 1 - at + inForm)) start -= 1;
      if (end - start >= form.least && (best === undefined || end - start > best.end - best.start))
        best = { start, end, kind: form.kind };
      if (end - start === form.text.length) break;
    }
    return best;
  };

  return (text: string): string => {
    let clean = "";
    let from = 0;
    for (let at = 0; at + 4 <= text.length; at += stride) {
      if (seen[slot(gram(text, at))] !== 1) continue;
      const found = around(text, at, from);
      if (found === undefined) continue;
      clean += `${text.slice(from, found.start)}[redacted:${found.kind}]`;
      from = found.end;
      at = from - stride;
    }
    return from === 0 ? text : clean + text.slice(from);
  };
};

export const createSecrets = (secrets: readonly Secret[]): Secrets => {
  const learned = new Map<string, readonly string[]>();
  let now = build(secrets);
  return {
    known: (text) => now.known(text),
    all: (text) => now.all(text),
    bytes: (bytes) => now.bytes(bytes),
    stream: () => now.stream(),
    learn(kind, values) {
      if (values.join("\n") === (learned.get(kind) ?? []).join("\n")) return;
      learned.set(kind, values);
      now = build([...secrets, ...[...learned].flatMap(([each, all]) => all.map((value) => ({ kind: each, value })))]);
    },
  };
};

const build = (secrets: readonly Secret[]): Omit<Secrets, "learn"> => {
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

  const known = (text: string): string => {
    if (text.length < shortest) return text;
    const clean = someParts ? parts(text) : text;
    return someWholes ? wholes(clean) : clean;
  };

  const opening = createOpening(all);
  return {
    known,
    all: (text) => patterned(known(text)),
    bytes(bytes) {
      if (all.length === 0) return bytes;
      const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
      const clean = known(text);
      return clean === text ? bytes : Buffer.from(clean, "latin1");
    },
    stream() {
      let held = "";
      return {
        push(piece) {
          if (all.length === 0) return piece;
          const text = held + piece;
          const open = opening(text);
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
    },
  };
};

/**
 * The position at which the longest suffix of a text begins that could be the beginning of a form; the text's length if
 * there is none.
 */
const createOpening = (forms: readonly Form[]) => {
  const beginnings = new Map<string, Form[]>();
  const few = new Set(forms.flatMap(({ text }) => [1, 2, 3].map((length) => text.slice(0, length))));
  const first = new Set(forms.map(({ text }) => text.charCodeAt(0)));
  for (const form of forms) {
    const start = form.text.slice(0, 4);
    beginnings.set(start, [...(beginnings.get(start) ?? []), form]);
  }
  return (text: string): number => {
    let at = Math.max(0, text.length - longest);
    while (at < text.length) {
      if (!first.has(text.charCodeAt(at))) {
        at += 1;
        continue;
      }
      const rest = text.slice(at);
      if (rest.length < 4 && few.has(rest)) return at;
      const begun = beginnings.get(rest.slice(0, 4)) ?? [];
      if (begun.some((form) => rest.length < form.text.length && form.text.startsWith(rest))) return at;
      // A complete match is skipped as a whole, not cut because another form may begin in its middle.
      at += begun.find((form) => rest.startsWith(form.text))?.text.length ?? 1;
    }
    return at;
  };
};

/**
 * Every quantifier is bounded, and none can match what another one gave back, so matching is linear in the text (test
 * T19). What must stay is in the first group. None matches a quote or half of an escape, so that a line of JSON stays
 * valid.
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
