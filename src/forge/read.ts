import { isTextNestedWithin } from "../json.ts";
import { asBuffer, inThread, type Job, ThreadLimit } from "../thread.ts";
import type { ForgeKind } from "../repository/repository.ts";
import type { ForgeEvent, Read } from "./event.ts";
import { readGitea } from "./gitea.ts";
import { readGitHub } from "./github.ts";
import { readGitLab } from "./gitlab.ts";

/**
 * Reads the event in a body. A signer may send megabytes around the fields that are read, so a long body is read in a
 * thread.
 */

export type Body = { kind: ForgeKind; name: string; body: Uint8Array };

/** `refused`: what was expected of the body; `ignored`: why the event has no effect. */
export type Said = { event: ForgeEvent } | { ignored: string } | { refused: string };

const readers: Readonly<Record<ForgeKind, Read>> = { github: readGitHub, gitlab: readGitLab, gitea: readGitea };

export const isKind = (text: string): text is ForgeKind => Object.hasOwn(readers, text);

/** No forge sends more levels or values in an event that is read here; more of either would block the reader. */
const mostLevels = 64;
const mostValues = 50_000;
/** Characters of an event; a Task's request takes fewer. */
const longestEvent = 1024 * 1024;
/** In bytes; shorter bodies are read without a thread. */
const shortest = 64 * 1024;
const timeoutMs = 10_000;

const saidIn = ({ kind, name, body }: Body): Said => {
  const text = asBuffer(body).toString("utf8");
  if (!isTextNestedWithin(text, mostLevels, mostValues))
    return { refused: `JSON of at most ${mostLevels} levels and ${mostValues} values, got more` };
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return { refused: "JSON (content type application/json)" };
  }
  const event = readers[kind](name, parsed);
  if (typeof event === "string") return { ignored: event };
  return JSON.stringify(event).length > longestEvent
    ? { refused: `an event of at most ${longestEvent} characters, got more` }
    : { event };
};

export const eventReading: Job<Body, Said> = { name: "forge-event", run: saidIn };

export const readEvent = (body: Body): Said | Promise<Said> =>
  body.body.length <= shortest
    ? saidIn(body)
    : inThread(eventReading, body, { timeoutMs }).catch((error: unknown) => {
        if (error instanceof ThreadLimit) return { refused: "an event that can be read in a moment" };
        throw error;
      });
