/** Finds known texts, and long enough parts of them, in time that is linear in the text. */

/** Minimum length of a value that is redacted; shorter ones are ordinary words. */
export const shortest = 8;
/**
 * This many consecutive characters of a longer value suffice to redact them: the rest may be cut off, or on another
 * line.
 */
export const enough = 20;
/** The most characters that a stream holds back, and the longest value that is searched for as a whole. */
export const longest = 4096;

/** A text to find. `least`: how many consecutive characters of it count as a match. */
export type Form = { kind: string; text: string; least: number };

/** Four characters as one number. Characters above 255 collide with others, which only costs a comparison. */
const gram = (text: string, at: number): number =>
  (text.charCodeAt(at) & 0xff) |
  ((text.charCodeAt(at + 1) & 0xff) << 8) |
  ((text.charCodeAt(at + 2) & 0xff) << 16) |
  (text.charCodeAt(at + 3) << 24);

const gramIn = (text: string, at: number): number => (at < 0 || at + 4 > text.length ? 0 : gram(text, at));

const slot = (code: number): number => Math.imul(code, 0x9e3779b1) >>> 16;

export type Found = { start: number; end: number; kind: string };

/**
 * Examines only every `stride`th position of a text, and searches a table for the four characters there: any match of
 * at least `stride + 3` characters covers such a position.
 */
export const createFinder = (forms: readonly Form[], stride: number) => {
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

  return (text: string): Found[] => {
    const all: Found[] = [];
    let from = 0;
    for (let at = 0; at + 4 <= text.length; at += stride) {
      if (seen[slot(gram(text, at))] !== 1) continue;
      const found = around(text, at, from);
      if (found === undefined) continue;
      all.push(found);
      from = found.end;
      at = from - stride;
    }
    return all;
  };
};

/** The text with everything found replaced; overlapping finds are replaced once. */
export const replaced = (text: string, all: readonly Found[]): string => {
  let clean = "";
  let from = 0;
  for (const { start, end, kind } of all.toSorted((a, b) => a.start - b.start || b.end - a.end)) {
    if (start >= from) clean += `${text.slice(from, start)}[redacted:${kind}]`;
    from = Math.max(from, end);
  }
  return from === 0 ? text : clean + text.slice(from);
};

/**
 * The position at which the longest suffix of a text begins that could be the beginning of a form; the text's length if
 * there is none.
 */
export const createOpening = (forms: readonly Form[]) => {
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
