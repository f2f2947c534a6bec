import type { EventData } from "../../protocol/event/event.ts";
import { readDiff } from "../evidence/diff.ts";
import { shownCommand } from "../evidence/named-command.ts";
import type { LongText } from "../../protocol/text.ts";
import { editingTools, notRun } from "./edited.ts";
import { type Conversation, messagesOf } from "./message.ts";

/**
 * What the agent of a session did, according to its conversation: the files that it changed and the commands that it
 * ran.
 */

export type Activity = { files: string[]; commands: { command: string; exitCode: number | null }[] };

/** If older turns were replaced by a summary, only the activity since then is known. */
export const activityOf = (chat: Conversation): Activity => {
  const calls = new Map<string, Record<string, unknown>>();
  const files = new Set<string>();
  const commands: Activity["commands"] = [];
  for (const message of messagesOf(chat)) {
    if (message.role === "assistant")
      for (const { callID, input } of message.calls)
        if (typeof input === "object" && input !== null) calls.set(callID, input as Record<string, unknown>);
    if (message.role !== "tool") continue;
    for (const { callID, tool, outcome, exitCode, output } of message.results) {
      if (outcome === "error" && headOf(output).startsWith(notRun)) continue;
      const input = calls.get(callID) ?? {};
      if (outcome === "ok" && editingTools.has(tool)) for (const path of pathsIn(input)) files.add(path);
      if (tool === "shell" && typeof input["command"] === "string" && !wasRefused(headOf(output)))
        commands.push({ command: shownCommand(input["command"]), exitCode });
    }
  }
  return { files: [...files], commands };
};

/** A refused call ran nothing; its result says this. */
const wasRefused = (result: string): boolean => /\bNothing was (?:run|done)\.$/.test(result);

const headOf = (text: LongText): string => (typeof text === "string" ? text : text.head);

const pathsIn = ({ path, file, file_path: other, patch }: Record<string, unknown>): string[] => {
  const named = [path, file, other].filter((each): each is string => typeof each === "string");
  if (typeof patch !== "string") return named.slice(0, 1);
  return patch.split("\n").flatMap((line) => {
    const found = /^(?:\+\+\+ b\/|\*\*\* (?:Add|Update|Delete) File: |\*\*\* Move to: )([^\t\r]+)/.exec(line);
    return found?.[1] === undefined ? [] : [found[1].trim()];
  });
};

const mostFiles = 30;
const longestPath = 300;
const mostCommands = 8;
const longestCommand = 160;

type Changed = NonNullable<EventData["session.ended"]["changed"]>;

/** What a session changed, according to the diff of its files: the largest changes first. */
export const changedOf = (diff: string): Changed => {
  const files = readDiff(diff)
    .map(({ path, insertions: added, deletions: removed }) => ({ path, added, removed }))
    .toSorted((a, b) => b.added + b.removed - a.added - a.removed);
  const named = files.slice(0, mostFiles).filter(({ path }) => path.length <= longestPath);
  return { files: named, more: files.length - named.length };
};

/**
 * Describes the activity in a few lines for the agent that delegated the work; "" if nothing was done. `changed`: the
 * actual changes of the files, which take precedence over the paths that calls name.
 */
export const activityText = ({ files, commands }: Activity, changed?: Changed): string => {
  const rest = (count: number) => (count > 0 ? `, and ${count} more` : "");
  const counted = changed?.files.map(({ path, added, removed }) => `${path} (+${added} -${removed})`);
  const named = (counted ?? files.slice(0, mostFiles)).join(", ") + rest(changed?.more ?? files.length - mostFiles);
  const ran = commands.slice(-mostCommands).map(({ command, exitCode }) => {
    const cut = command.length > longestCommand ? `${command.slice(0, longestCommand)}…` : command;
    return `- \`${cut}\` ${exitCode === null ? "did not exit" : `exit ${exitCode}`}`;
  });
  const earlier = commands.length - ran.length;
  return [
    ...(named === "" ? [] : [`Files it changed${changed === undefined ? " with tools" : ""}: ${named}.`]),
    ...(ran.length === 0
      ? []
      : [`Commands it ran${earlier > 0 ? `, the last ${ran.length} of ${commands.length}` : ""}:`, ...ran]),
  ].join("\n");
};
