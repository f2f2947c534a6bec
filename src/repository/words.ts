import { plainLine } from "../process/plain-text.ts";

/**
 * The words of a remote or a forge in one line, without terminal sequences and other control characters, at most `most`
 * characters.
 */
export const plainText = (text: string, most: number): string =>
  text.split("\n").map(plainLine).join(" ").replaceAll(/\s+/g, " ").trim().slice(0, most);
