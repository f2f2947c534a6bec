import { closeSync, existsSync, fsyncSync, openSync, readFileSync, renameSync, rmSync, writeSync } from "node:fs";
import { hash } from "node:crypto";

/**
 * The sessions that were logged out, until they would have ended: by their hash, so that what is kept opens nothing. They
 * are few, and read and written only where somebody has a valid session.
 */

export interface EndedSessions {
  has(token: string): boolean;
  /** Kept when this returns, also over a restart. */
  add(token: string, until: number): void;
}

const most = 10_000;

/** `file`: where they are kept; undefined: in memory only. */
export const createEndedSessions = (file: string | undefined, now: () => number): EndedSessions => {
  let kept: Map<string, number> | undefined;
  const ended = (): Map<string, number> => (kept ??= file === undefined ? new Map() : read(file));
  return {
    has: (token) => ended().has(markOf(token)),
    add(token, until) {
      const all = ended();
      all.set(markOf(token), until);
      for (const [mark, end] of all) if (end <= now() || all.size > most) all.delete(mark);
      if (file !== undefined) write(file, all);
    },
  };
};

const markOf = (token: string): string => hash("sha256", token, "base64url");

const read = (file: string): Map<string, number> => {
  if (!existsSync(file)) return new Map();
  const lines = readFileSync(file, "utf8").split("\n");
  return new Map(
    lines.flatMap((line) => {
      const [mark = "", until = ""] = line.split(" ");
      return mark === "" || until === "" ? [] : [[mark, Number(until)] as const];
    }),
  );
};

const write = (file: string, ended: ReadonlyMap<string, number>): void => {
  const draft = `${file}.draft`;
  rmSync(draft, { force: true });
  const to = openSync(draft, "wx", 0o600);
  try {
    writeSync(to, [...ended].map(([mark, until]) => `${mark} ${until}\n`).join(""));
    fsyncSync(to);
  } finally {
    closeSync(to);
  }
  renameSync(draft, file);
};
