import picocolors from "picocolors";
import { duration } from "./format.ts";

/** How things look on a terminal. Everything that came from the service goes through `clean` before it is printed. */

type Colors = ReturnType<typeof picocolors.createColors>;

export type Screen = {
  /** A person at a terminal who wants colours and a moving last line; else plain lines. */
  rich: boolean;
  colors: Colors;
  /** One or more whole lines, for people. */
  say(text: string): void;
  /** The last line, plain text, replaced by the next; nothing on a plain screen. undefined removes it. */
  status(text: string | undefined): void;
};

/** `plain`: NO_COLOR, CI and the like, said by the caller; a stream that is no terminal is plain anyway. */
export const createScreen = (stream: NodeJS.WriteStream, plain: boolean): Screen => {
  const rich = !plain && stream.isTTY;
  let last: string | undefined;
  const wipe = () => {
    if (last !== undefined) stream.write("\r\u001b[2K");
  };
  const colors = picocolors.createColors(rich);
  const draw = () => {
    // A line that wraps could not be wiped. Some terminals say they have 0 columns.
    if (last !== undefined) stream.write(colors.dim(last.slice(0, (stream.columns || 80) - 1)));
  };
  return {
    rich,
    colors,
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

/** Waits for something that may take a while: after half a second a terminal shows what it is, and for how long now. */
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
