import { isUtf8 } from "node:buffer";

/**
 * File names are bytes, ours are strings. A byte that is not UTF-8 becomes a lone surrogate U+DC80–U+DCFF (Python's
 * "surrogateescape"), so every name has exactly one string and converts back to the same bytes.
 */

export const decodePath = (bytes: Buffer): string => {
  if (isUtf8(bytes)) return bytes.toString("utf8");
  let text = "";
  for (let at = 0; at < bytes.length; ) {
    const length = characterAt(bytes, at);
    text += length === 0 ? String.fromCharCode(0xdc00 + (bytes[at] ?? 0)) : bytes.toString("utf8", at, at + length);
    at += length === 0 ? 1 : length;
  }
  return text;
};

/** Length in bytes of the UTF-8 character at this offset, 0 when there is no valid one. */
const characterAt = (bytes: Buffer, at: number): number => {
  const first = bytes[at] ?? 0;
  const length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  return length > 0 && at + length <= bytes.length && isUtf8(bytes.subarray(at, at + length)) ? length : 0;
};

export const encodePath = (path: string): Buffer => {
  if (path.isWellFormed()) return Buffer.from(path, "utf8");
  const parts: Buffer[] = [];
  for (const character of path) {
    const code = character.codePointAt(0) ?? 0;
    if (code >= 0xdc80 && code <= 0xdcff) parts.push(Buffer.of(code - 0xdc00));
    else if (code >= 0xd800 && code <= 0xdfff)
      throw new Error(`Expected a path of characters and escaped bytes, got U+${code.toString(16).toUpperCase()}`);
    else parts.push(Buffer.from(character, "utf8"));
  }
  return Buffer.concat(parts);
};

/** A path in the form that file system calls take. */
export const osPath = (path: string): string | Buffer => (path.isWellFormed() ? path : encodePath(path));
