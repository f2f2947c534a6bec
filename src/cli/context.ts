import { type Command, InvalidArgumentError } from "commander";
import type { Target } from "./connection.ts";
import type { Screen } from "./terminal/screen.ts";

/** What the commands that call a service share: service, project, screen, JSON output, and parsers of option values. */

export type Shared = { url: string; directory: string; repo?: string; node?: string; json?: true };

export type CommandParts = {
  speaking: (command: Command) => Command;
  context: (options: Shared) => Promise<Context & { display: boolean }>;
  finish: (code: number) => void;
};

export const parseAmount = (text: string): number => {
  const value = Number(text);
  if (!(value > 0)) throw new InvalidArgumentError("Expected a number above 0.");
  return value;
};

/** Parses a limit that can also be removed, with "none". */
export const parseCap = (text: string): number | "none" => {
  if (text === "none") return text;
  const value = Number(text);
  if (!(value > 0)) throw new InvalidArgumentError('Expected a number above 0, or "none".');
  return value;
};

export const wholeNumber = (min: number, max: number) => (text: string) => {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < min || value > max)
    throw new InvalidArgumentError(`Expected a whole number from ${min} to ${max}.`);
  return value;
};

/** Parses the length of a list. */
export const parseCount = wholeNumber(1, 200);

/** Quotes a text with spaces, so that what was one word in the shell stays one argument of a saved request. */
export const asWord = (text: string): string => (/\s/.test(text) && !text.includes('"') ? `"${text}"` : text);

/** Collects the values of an option that may be given several times. */
export const collect = (value: string, before: string[] = []) => [...before, value];

export type Context = { target: Target; screen: Screen; emit: ((value: object) => void) | undefined };
