import picocolors from "picocolors";
import { duration } from "./format.ts";

/** Output to a terminal. Everything that comes from the service must pass `clean` before it is printed. */

type Colors = ReturnType<typeof picocolors.createColors>;

export type Screen = {
  /** Whether a person sees it at a terminal, with colours and a status line; otherwise only plain lines are printed. */
  rich: boolean;
  colors: Colors;
  /** Width in columns. */
  width: number;
  /** Prints one or more complete lines. */
  say(text: string): void;
  /** Replaces the status line, which is plain text; undefined removes it. Does nothing on a plain screen. */
  status(text: string | undefined): void;
};

/** `plain`: set by NO_COLOR, CI or TERM. A stream that is not a terminal is always plain. */
export const createScreen = (stream: NodeJS.WriteStream, plain: boolean): Screen => {
  const rich = !plain && stream.isTTY;
  let last: string | undefined;
  const wipe = () => {
    if (last !== undefined) stream.write("\r\u001b[2K");
  };
  const colors = picocolors.createColors(rich);
  const draw = () => {
    // Truncated, because a line that wraps could not be erased. Some terminals report 0 columns.
    if (last !== undefined) stream.write(colors.dim(last.slice(0, (stream.columns || 80) - 1)));
  };
  return {
    rich,
    colors,
    width: stream.columns || 80,
    say(text) {
      wipe();
      stream.write(`${text}\n`);
      draw();
    },
    status(text) {
      if (!rich) return;
      wipe();
      last = text;
      draw();
    },
  };
};

/** Waits for `work`; after half a second a rich screen shows `what` is being done, and for how long. */
export const during = async <T>(screen: Screen, what: string, work: Promise<T>): Promise<T> => {
  const began = performance.now();
  const timer = setInterval(() => screen.status(`${duration(performance.now() - began)}  ${what} …`), 500);
  try {
    return await work;
  } finally {
    clearInterval(timer);
    screen.status(undefined);
  }
};
