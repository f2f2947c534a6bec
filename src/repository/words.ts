import { plainLine } from "../process/plain-text.ts";

/**
 * What a remote or a forge says, as text: without sequences for terminals and other control characters, in one line.
 */
export const plainWords = (text: string, most: number): string =>
  text.split("\n").map(plainLine).join(" ").replaceAll(/\s+/g, " ").trim().slice(0, most);
