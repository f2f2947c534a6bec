import { type Pattern, parsePattern } from "../repository/address.ts";
import { secretReader } from "../repository/credential.ts";
import type { ForgeKind } from "../repository/repository.ts";
import { shortestSecret } from "./signature.ts";

/** `repositories.events` of config.jsonc: the repositories and people whose events the service acts on. */

export type EventSettings = {
  match: string;
  forge: ForgeKind;
  /** `env:NAME` or `file:/PATH`. */
  secret: string;
  /** The forge's user names whose texts and labels count. */
  authors: readonly string[];
  label: string;
  /** How a comment that asks for a Task begins. */
  mention: string;
  tasksPerHour: number;
  /** How often failed checks of the forge are returned to a Task. */
  checkRounds: number;
  /** The address of the page, for links. */
  page?: string | undefined;
  /**
   * `network`, `secrets`: the operator accepts that Tasks from these events have the network access and the variables
   * of all commands of this service.
   */
  network: boolean;
  secrets: boolean;
};

export type EventEntry = Omit<EventSettings, "match" | "secret"> & { pattern: Pattern; secret: () => string };

/**
 * Parses the settings; a text describes what is wrong with an entry, for the operator. `given`: what commands get on
 * this service.
 */
export const parseEvents = (
  settings: readonly EventSettings[],
  env: Readonly<Record<string, string | undefined>>,
  given: { network: boolean; env: readonly string[]; web: boolean },
): EventEntry[] | string => {
  const entries: EventEntry[] = [];
  for (const [at, { match, secret: where, ...entry }] of settings.entries()) {
    const pattern = parsePattern(match);
    if (pattern === undefined) return `events.${at}.match: expected scheme://host/path, got "${match}"`;
    const secret = secretReader(where, env);
    if (secret === undefined) return `events.${at}.secret: expected env:NAME or file:/PATH, got something else`;
    if (where.startsWith("env:") && secret().length < shortestSecret)
      return `events.${at}.secret: expected at least ${shortestSecret} characters in ${where}`;
    if ((given.network || given.web) && !entry.network)
      return `events.${at}: its Tasks would have network access (sandbox.network, web.fetch), which other people's text could use: turn it off, or set "network": true here`;
    if (given.env.length > 0 && !entry.secrets)
      return `events.${at}: its Tasks would have ${given.env.join(", ")} (sandbox.env), which other people's text could ask for: remove it, or set "secrets": true here`;
    entries.push({ ...entry, pattern, secret });
  }
  return entries;
};
