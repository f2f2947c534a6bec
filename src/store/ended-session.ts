import { closeSync, existsSync, fsyncSync, openSync, readFileSync, renameSync, rmSync, writeSync } from "node:fs";
import { hash } from "node:crypto";
import type { Nodes } from "./node.ts";

/**
 * Sessions that were logged out, until they would have expired. Only their hashes are kept, so that the file opens no
 * session. They are few, and read and written only for requests with a valid session.
 */

export interface EndedSessions {
  has(token: string): boolean;
  /** Stored when this returns: with a file, it survives a restart. */
  add(token: string, until: number): void;
}

const most = 10_000;

/**
 * Milliseconds between two looks at the sessions that other nodes ended. Nodes tell each other at once; a look finds
 * what was not heard.
 */
const lookMs = 5_000;
const topic = "ended session";

type Others = Pick<Nodes, "tell" | "onTold" | "endedSessions" | "endSession">;

/**
 * `file`: where the sessions are kept; undefined: in memory only. `others`: the nodes at which the same sessions are
 * valid. An entry that could not be written for them is written with the next look.
 */
export const createEndedSessions = (file: string | undefined, now: () => number, others?: Others): EndedSessions => {
  let kept: Map<string, number> | undefined;
  const ended = (): Map<string, number> => (kept ??= file === undefined ? new Map() : read(file));
  const note = (added: readonly (readonly [mark: string, until: number])[]): void => {
    const all = ended();
    const fresh = added.filter(([mark, until]) => until > now() && !all.has(mark));
    if (fresh.length === 0) return;
    for (const [mark, until] of fresh) all.set(mark, until);
    for (const [mark, end] of all) if (end <= now() || all.size > most) all.delete(mark);
    if (file !== undefined) write(file, all);
  };
  const unwritten = new Map<string, number>();
  let looked = Number.NEGATIVE_INFINITY;
  const look = (nodes: Others): void => {
    if (performance.now() < looked + lookMs) return;
    looked = performance.now();
    const share = async (): Promise<void> => {
      for (const [mark, until] of unwritten) {
        await nodes.endSession(mark, until);
        unwritten.delete(mark);
      }
      note(await nodes.endedSessions());
    };
    // The next look does what this one could not.
    share().catch(() => {});
  };
  if (others !== undefined) {
    look(others);
    others.onTold(topic, ([mark, until]) => {
      if (typeof mark === "string" && typeof until === "number") note([[mark, until]]);
    });
  }
  return {
    has(token) {
      if (others !== undefined) look(others);
      return ended().has(markOf(token));
    },
    add(token, until) {
      const mark = markOf(token);
      note([[mark, until]]);
      if (others === undefined) return;
      unwritten.set(mark, until);
      others.tell(topic, [mark, until]);
      looked = Number.NEGATIVE_INFINITY;
      look(others);
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
