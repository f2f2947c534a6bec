import { pace } from "../pace.ts";

/**
 * Renders the output of a program as a terminal would show it: without colours and other escape sequences, with
 * carriage returns and backspaces applied, so that of a progress bar only the last state is left.
 */

// CSI sequences; then strings (OSC, DCS, SOS, PM, APC) up to their terminator or the end of the line; then every other
// sequence.
const sequences =
  // oxlint-disable-next-line no-control-regex -- to remove them is what it is for
  /(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]?|(?:\u001b[\]PX^_]|[\u0090\u0098\u009d-\u009f])[^\u0007\u001b\u009c]*(?:\u0007|\u001b\\|\u009c)?|\u001b[ -/]*[0-~]?/g;

/** Control characters that display nothing; tab, carriage return and backspace are not among them. */
// oxlint-disable-next-line no-control-regex -- to remove them is what it is for
const controls = /[\u0000-\u0007\u000a-\u000c\u000e-\u001f\u007f-\u009f]/g;

/** Characters that move the cursor within the line. */
const moves = /[\r\b]/g;

/** Longest line, in characters, in which overwriting is applied. */
const widest = 64 * 1024;

export const plainText = async (output: string): Promise<string> => {
  const lines: string[] = [];
  for (const line of output.split("\n")) {
    lines.push(plainLine(line));
    await pace();
  }
  return lines.join("\n");
};

/** Renders one line, given without its line end. */
export const plainLine = (line: string): string => {
  // Most lines have no control characters.
  // oxlint-disable-next-line no-control-regex -- to find them is what it is for
  if (!/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/.test(line)) return line;
  const text = line.replaceAll(sequences, "").replace(/\r+$/, "");
  return text.length <= widest && text.search(moves) >= 0
    ? typed(text)
    : text.replaceAll(controls, "").replaceAll(moves, "");
};

/**
 * Buffers for the characters of a line and its UTF-16, kept because binary output has thousands of lines that need
 * them.
 */
let kept: { cells: Uint32Array; units: Uint16Array; bytes: Buffer } | undefined;

/**
 * Overwrites like a terminal: a carriage return moves to the beginning of the line, a backspace back by one, and the
 * characters that follow replace those there.
 */
const typed = (text: string): string => {
  if (kept === undefined) {
    const units = new Uint16Array(2 * widest);
    kept = { cells: new Uint32Array(widest), units, bytes: Buffer.from(units.buffer) };
  }
  const { cells, units, bytes } = kept;
  let at = 0;
  let end = 0;
  for (let from = 0; from < text.length; from += 1) {
    const code = text.codePointAt(from) ?? 0;
    if (code > 0xffff) from += 1;
    if (code === 0x0d) at = 0;
    else if (code === 0x08) at = Math.max(0, at - 1);
    else if (!isControl(code)) {
      cells[at] = code;
      at += 1;
      end = Math.max(end, at);
    }
  }
  let length = 0;
  for (let cell = 0; cell < end; cell += 1) {
    const code = cells[cell] ?? 0;
    if (code > 0xffff) {
      units[length] = 0xd800 + ((code - 0x1_0000) >> 10);
      length += 1;
    }
    units[length] = code > 0xffff ? 0xdc00 + ((code - 0x1_0000) & 0x3ff) : code;
    length += 1;
  }
  return bytes.toString("utf16le", 0, 2 * length);
};

const isControl = (code: number): boolean => (code < 0x20 && code !== 0x09) || (code >= 0x7f && code < 0xa0);
