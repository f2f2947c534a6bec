import { createPace } from "../pace.ts";

/**
 * What a program wrote for a terminal, as one reads it there: without colours and other sequences, with carriage returns and
 * backspaces applied, so that of a progress bar its last state is left.
 */

// CSI sequences; then strings (OSC, DCS, SOS, PM, APC) up to their terminator or the end of the line; then every other one.
const sequences =
  // oxlint-disable-next-line no-control-regex -- to remove them is what it is for
  /(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]?|(?:\u001b[\]PX^_]|[\u0090\u0098\u009d-\u009f])[^\u0007\u001b\u009c]*(?:\u0007|\u001b\\|\u009c)?|\u001b[ -/]*[0-~]?/g;

/** Control characters that show nothing; tab, carriage return and backspace are no part of them. */
const controls = /(?![\t\r\b])\p{Cc}/gu;

/** What moves within the line. */
const moves = /[\r\b]/g;

/** Characters of a line above which nothing is overwritten in it. */
const widest = 64 * 1024;

export const plainText = async (output: string): Promise<string> => {
  const pace = createPace();
  const lines: string[] = [];
  for (const line of output.split("\n")) {
    lines.push(plainLine(line));
    await pace();
  }
  return lines.join("\n");
};

/** Of one line, without its end. */
export const plainLine = (line: string): string => {
  // Most lines have none of it.
  // oxlint-disable-next-line no-control-regex -- to find them is what it is for
  if (!/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/.test(line)) return line;
  const text = line.replaceAll(sequences, "").replaceAll(controls, "").replace(/\r+$/, "");
  return text.length <= widest && text.search(moves) >= 0 ? typed(text) : text.replaceAll(moves, "");
};

/** As a terminal has it: a carriage return goes back to the beginning, a backspace by one, and what follows overwrites. */
const typed = (text: string): string => {
  const cells: string[] = [];
  let at = 0;
  for (const character of text) {
    if (character === "\r") at = 0;
    else if (character === "\b") at = Math.max(0, at - 1);
    else {
      cells[at] = character;
      at += 1;
    }
  }
  return cells.join("");
};
