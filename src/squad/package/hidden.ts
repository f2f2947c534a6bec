/**
 * Text for agents must not contain characters that a human reader does not see: all that Unicode marks as ignored in
 * display, control characters, line separators, and the few others without a visible shape. Those that emoji and some
 * scripts need are allowed in the places that need them, one at a time.
 */

/** Scripts in which a joiner or non-joiner between two letters changes their shape. */
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
  // An emoji in its picture or text form, and a digit on a key.
  `(?<=${emoji})[\\ufe0e\\ufe0f]`,
  `(?<=[0-9#*])\\ufe0f(?=\\u20e3)`,
  // The forms of a Mongolian letter.
  `(?<=[\\p{Script=Mongolian}&&\\p{L}])[\\u180b-\\u180d\\u180f]`,
];
/**
 * Characters to find: default ignorable ones, and others such as interlinear marks, further format characters, an empty
 * braille pattern, and a musical note without a head.
 */
const unseen =
  "[[\\p{Default_Ignorable_Code_Point}\\p{Cc}\\p{Zl}\\p{Zp}\\p{Noncharacter_Code_Point}\\ufff9-\\ufffc\\u2800\\u{1d159}\\u{13430}-\\u{1343f}]--[\\t\\n\\r]]";

export const hidden = new RegExp(`(?!${allowed.join("|")})${unseen}`, "v");

/** The first hidden character, as `U+200B`, and its index. */
export const hiddenIn = (text: string): { code: string; index: number } | undefined => {
  const found = hidden.exec(text);
  if (found === null) return undefined;
  const code = (found[0].codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
  return { code: `U+${code}`, index: found.index };
};

/**
 * Finds hidden characters in the texts and keys of a parsed value: an escape in JSON or YAML is visible, the character
 * that it produces is not.
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
