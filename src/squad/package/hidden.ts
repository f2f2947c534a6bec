/**
 * Characters that a human reader does not see must not be in what an agent reads: all that Unicode says are ignored in
 * display, controls, separators of lines, and the few others without a shape. Those that emoji and scripts are written
 * with are allowed where these need them, one at a time.
 */

/** Scripts whose letters take another shape by a joiner or a non-joiner between them. */
const joining =
  "Arab Syrc Mand Mong Nkoo Phag Mani Phlp Rohg Sogd Adlm Deva Beng Guru Gujr Orya Taml Telu Knda Mlym Sinh Khmr Mymr Bali Java Sund Newa Tirh Gran Sidd Modi Shrd"
    .split(" ")
    .map((script) => `\\p{Script_Extensions=${script}}`)
    .join("");
const letter = `[[${joining}]&&[\\p{L}\\p{M}]]`;
const emoji = "\\p{Extended_Pictographic}";

const allowed = [
  // Between two letters of such a script.
  `(?<=${letter})[\\u200c\\u200d](?=${letter})`,
  // Between the parts of an emoji: a family, a profession.
  `(?<=${emoji}[\\ufe0f\\p{Emoji_Modifier}]?)\\u200d(?=${emoji})`,
  // An emoji as a picture or as a letter, and a digit on a key.
  `(?<=${emoji})[\\ufe0e\\ufe0f]`,
  `(?<=[0-9#*])\\ufe0f(?=\\u20e3)`,
  // The forms of a Mongolian letter.
  `(?<=[\\p{Script=Mongolian}&&\\p{L}])[\\u180b-\\u180d\\u180f]`,
];
/** Default ignorable or not: interlinear marks and other formats, an empty braille pattern, a note without a head. */
const unseen =
  "[[\\p{Default_Ignorable_Code_Point}\\p{Cc}\\p{Zl}\\p{Zp}\\p{Noncharacter_Code_Point}\\ufff9-\\ufffc\\u2800\\u{1d159}\\u{13430}-\\u{1343f}]--[\\t\\n\\r]]";

export const hidden = new RegExp(`(?!${allowed.join("|")})${unseen}`, "v");

/** The first character that does not show, as `U+200B`, and where it stands. */
export const hiddenIn = (text: string): { code: string; index: number } | undefined => {
  const found = hidden.exec(text);
  if (found === null) return undefined;
  const code = (found[0].codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
  return { code: `U+${code}`, index: found.index };
};

/**
 * The same in the texts and keys of a value that was parsed: an escape in JSON or YAML shows, what it makes does not.
 */
export const hiddenWithin = (
  value: unknown,
  path: PropertyKey[] = [],
): { code: string; path: PropertyKey[] } | undefined => {
  if (typeof value === "string") {
    const found = hiddenIn(value);
    return found && { code: found.code, path };
  }
  if (typeof value !== "object" || value === null) return undefined;
  for (const [key, inner] of Object.entries(value)) {
    const at = [...path, Array.isArray(value) ? Number(key) : key];
    const inKey = hiddenIn(key);
    const found = inKey === undefined ? hiddenWithin(inner, at) : { code: inKey.code, path: at };
    if (found !== undefined) return found;
  }
  return undefined;
};
