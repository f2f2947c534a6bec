/**
 * A text with its escapes undone, so that a secret is found even if some of its characters are escaped: `\u0061`,
 * `\x61`, `\141` and the short escapes of JSON, `%61`, `&#97;`. Linear in the text.
 */

export type Unescaped = {
  text: string;
  /** Where each UTF-16 unit of `text` begins in the escaped text; one more at the end, for the text's own end. */
  at: Uint32Array;
};

/** Levels of escapes in escapes: JSON in JSON in a URL has three. */
const maxLevels = 3;
/** How many characters may stand for one: two levels of `&#0000097;` are a hundred. */
export const mostEscaped = 128;

/** A text without these hides no characters in a way that the forms of redact.ts do not have. */
const telling =
  /\\(?:u(?:[\da-f]{4}|\{[\da-f])|x[\da-f]{2}|[0-3][0-7]{2})|%(?:u[\da-f]{4}|[\da-f]{2})|&(?:amp;)?#(?:\d|x[\da-f])/gi;

const isTelling = (text: string): boolean => {
  telling.lastIndex = 0;
  return telling.test(text);
};

/** The parts of a text that have escapes, each with up to `reach` characters before and after its escapes. */
export const escapedParts = (text: string, reach: number): { start: number; text: string }[] => {
  const parts: { start: number; end: number }[] = [];
  let last: { start: number; end: number } | undefined;
  for (telling.lastIndex = 0; telling.test(text); ) {
    // `test` creates no match object: it gives only the end of the match, and the beginning is near.
    const start = telling.lastIndex - longestEscape - reach;
    const end = telling.lastIndex + longestEscape + reach;
    if (last !== undefined && start <= last.end) last.end = end;
    else parts.push((last = { start: Math.max(0, start), end }));
  }
  return parts.map(({ start, end }) => ({ start, text: text.slice(start, end) }));
};
const longestEscape = 10;

/**
 * The text with one level of escapes undone, then with two, and so on while there are any. `open`: more of the text is
 * to come, so each level leaves out an escape that may be cut off at its end.
 */
export const unescapedLevels = (text: string, open = false): Unescaped[] => {
  const levels: Unescaped[] = [];
  const seen = (level: string) => (open ? level.slice(0, cutEscape(level)) : level);
  for (let now = seen(text); levels.length < maxLevels && isTelling(now); ) {
    const next = unescapeOnce(now);
    const before = levels.at(-1)?.at;
    if (before !== undefined)
      for (let unit = 0; unit < next.at.length; unit += 1) next.at[unit] = before[next.at[unit] ?? 0] ?? 0;
    now = seen(next.text);
    levels.push({ text: now, at: next.at });
  }
  return levels;
};

/**
 * The position in the escaped text at which the units before `end` end; an escape that stands for two units is kept
 * whole.
 */
export const endOf = ({ at }: Unescaped, end: number): number => {
  let unit = end;
  while (unit > 0 && unit < at.length - 1 && at[unit] === at[unit - 1]) unit += 1;
  return at[unit] ?? 0;
};

/**
 * The position of the escape, or of the bytes of a character, that the end of the text may have cut off; the text's
 * length if there is none.
 */
export const cutEscape = (text: string): number => {
  const tail = text.slice(-longestCut);
  const cut = cutOff.exec(tail);
  return cut === null ? text.length : text.length - tail.length + cut.index;
};
const longestCut = 32;
const cutOff =
  /(?:(?:(?:%|\\x)[c-f][\da-f]|\\3[0-7]{2})(?:(?:%|\\x)[89ab][\da-f]|\\2[0-7]{2}){0,3})?(?:\\{1,8}(?:u(?:\{?[\da-f]{0,6})?|x[\da-f]?|[0-3][0-7]?)?|%(?:u[\da-f]{0,3}|[\da-f])?|&(?:#(?:\d{0,7}|x[\da-f]{0,6})|[a-z]{0,4})?)?$/i;

const unescapeOnce = (text: string): Unescaped => {
  const units = new Uint16Array(text.length);
  const at = new Uint32Array(text.length + 1);
  let length = 0;
  const put = (unit: number, from: number) => {
    units[length] = unit;
    at[length] = from;
    length += 1;
  };
  for (let from = 0; from < text.length; ) {
    const unit = text.charCodeAt(from);
    const escape = escapeAt(text, from);
    if (escape === undefined) {
      put(unit, from);
      from += 1;
      continue;
    }
    const { code, end } = escape.code < 0xc2 || !escape.isByte ? escape : characterOf(text, escape);
    if (code > 0xffff) {
      put(0xd800 + ((code - 0x1_0000) >> 10), from);
      put(0xdc00 + ((code - 0x1_0000) & 0x3ff), from);
    } else put(code, from);
    from = end;
  }
  at[length] = text.length;
  const bytes = Buffer.from(units.buffer, 0, length * 2);
  return { text: bytes.toString("utf16le"), at: at.subarray(0, length + 1) };
};

const [backslash, percent, ampersand] = ["\\", "%", "&"].map((sign) => sign.charCodeAt(0));

/** `isByte`: it is a byte, which may form a character in UTF-8 with others that follow. */
type Escape = { code: number; end: number; isByte: boolean };

/** The escape at this place; undefined: none. */
const escapeAt = (text: string, from: number): Escape | undefined => {
  switch (text.charCodeAt(from)) {
    case backslash:
      return slash(text, from);
    case percent:
      return url(text, from);
    case ampersand:
      return entity(text, from);
    default:
      return undefined;
  }
};

/** The character that this byte forms with the escaped bytes after it; the byte itself if they form none. */
const characterOf = (text: string, first: Escape): Escape => {
  const more = first.code >= 0xf0 ? 3 : first.code >= 0xe0 ? 2 : 1;
  let code = first.code & (0x3f >> more);
  let { end } = first;
  for (let count = 0; count < more; count += 1) {
    const next = escapeAt(text, end);
    if (next?.isByte !== true || (next.code & 0xc0) !== 0x80) return first;
    code = (code << 6) | (next.code & 0x3f);
    end = next.end;
  }
  return code > 0x10_ffff ? first : { code, end, isByte: false };
};

const short: Readonly<Record<string, number>> = {
  b: 8,
  t: 9,
  n: 10,
  f: 12,
  r: 13,
  '"': 34,
  "'": 39,
  "/": 47,
  "\\": 92,
};

/** Escapes of JSON, JavaScript, Python, C and shells. */
const slash = (text: string, from: number): Escape | undefined => {
  const sign = text[from + 1] ?? "";
  switch (sign) {
    case "u":
    case "U":
      return text[from + 2] === "{" ? number(text, from + 3, 16, 1, 6, "}") : number(text, from + 2, 16, 4, 4);
    case "x":
      return byte(text, from + 2, 16, 2);
    case "0":
    case "1":
    case "2":
    case "3":
      return byte(text, from + 1, 8, 3);
    default: {
      const code = short[sign];
      return code === undefined ? undefined : { code, end: from + 2, isByte: false };
    }
  }
};

/** Escapes of URLs. `%u0061` comes from JavaScript's old `escape`. */
const url = (text: string, from: number): Escape | undefined =>
  text[from + 1] === "u" ? number(text, from + 2, 16, 4, 4) : byte(text, from + 1, 16, 2);

const names: readonly (readonly [name: string, code: number])[] = [
  ["&amp;", 38],
  ["&lt;", 60],
  ["&gt;", 62],
  ["&quot;", 34],
  ["&apos;", 39],
];

const entity = (text: string, from: number): Escape | undefined => {
  if (text[from + 1] === "#") {
    const hex = text[from + 2] === "x" || text[from + 2] === "X";
    const found = hex ? number(text, from + 3, 16, 1, 6) : number(text, from + 2, 10, 1, 7);
    return found && { ...found, end: text[found.end] === ";" ? found.end + 1 : found.end };
  }
  const named = names.find(([name]) => text.startsWith(name, from));
  return named && { code: named[1], end: from + named[0].length, isByte: false };
};

/** A byte of exactly this many digits. */
const byte = (text: string, from: number, base: number, digits: number): Escape | undefined => {
  const escape = number(text, from, base, digits, digits);
  if (escape !== undefined) escape.isByte = true;
  return escape;
};

/**
 * A character of `least` to `most` digits, followed by `close`. undefined: fewer digits, no `close`, or no character of
 * Unicode.
 */
const number = (
  text: string,
  from: number,
  base: number,
  least: number,
  most: number,
  close = "",
): Escape | undefined => {
  let code = 0;
  let end = from;
  for (; end < from + most; end += 1) {
    const digit = digitOf(text.charCodeAt(end));
    if (digit >= base) break;
    code = code * base + digit;
  }
  if (end - from < least || code > 0x10_ffff || !text.startsWith(close, end)) return undefined;
  return { code, end: end + close.length, isByte: false };
};

/** The value of a digit; 16 and above: not a digit. */
const digitOf = (unit: number): number => {
  if (unit >= 48 && unit <= 57) return unit - 48;
  const letter = unit | 32;
  return letter >= 97 && letter <= 102 ? letter - 87 : 99;
};
