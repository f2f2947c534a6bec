import { citedPlaces, isSeen, type Place } from "../../domain/evidence/citation.ts";
import { lastWordOf, messagesOf } from "../../domain/conversation/message.ts";
import { serviceSourceOf } from "../../protocol/event/source.ts";
import { loadInput, loadText } from "../../store/blob/text.ts";
import { countLines } from "../../tool/file/text.ts";
import { counted } from "../../tool/result.ts";
import type { Run } from "../run.ts";
import { messageFromService } from "./message.ts";

/**
 * Checks the sources of an answer that changes nothing, because nobody reviews such an answer. The agent is told once
 * of places, cited as file:line, in files that no call of the Task has opened or found, and of lines that do not exist.
 */
export const tellSources = async (run: Run): Promise<void> => {
  const { version } = run.state();
  const messages = messagesOf(run.chat);
  const since = messages.findLastIndex((message) => message.role === "user" && serviceSourceOf(message) === undefined);
  const told = messages
    .slice(since)
    .some((message) => message.role === "user" && serviceSourceOf(message) === "sources");
  if (told) return;
  const places = citedPlaces(await loadText(run.store.blobs, lastWordOf(run.chat)));
  if (places.length === 0) return;
  const seen = await seenBy(run);
  if (seen === undefined) return;
  const unseen = new Set<string>();
  const beyond: string[] = [];
  for (const { path, line } of places) {
    const lines = await linesOf(run, path);
    if (lines === undefined) continue;
    if (line > lines) beyond.push(`${path}:${line} (it has ${counted(lines, "line")})`);
    else if (!isSeen(path, seen.calls, seen.results)) unseen.add(`${path}:${line}`);
  }
  if (unseen.size + beyond.length === 0) return;
  const facts = [
    ...(unseen.size === 0
      ? []
      : [`These are in files that no call of this Task has opened or found: ${listed([...unseen])}.`]),
    ...(beyond.length === 0 ? [] : [`These lines are not there: ${listed(beyond)}.`]),
  ];
  const text = `The service looked at the places that your answer cites. ${facts.join(" ")}\n\nLook at them, and give your whole answer again, mended where they do not say what you cite them for.`;
  await run.record([await messageFromService(run, "sources", text)], { decidedAt: version });
};

const mostNamed = 20;

const listed = (items: readonly string[]): string =>
  [...items.slice(0, mostNamed), ...(items.length > mostNamed ? [`${items.length - mostNamed} more`] : [])].join(", ");

/** The inputs and results of all sessions' calls; undefined: some were summarised, so nothing can be said. */
const seenBy = async (run: Run): Promise<{ calls: string[]; results: string[] } | undefined> => {
  const calls: string[] = [];
  const results: string[] = [];
  for (const { sessionID } of run.state().sessions) {
    const chat = await run.chats.of(sessionID);
    for (const message of messagesOf(chat)) {
      if (message.role === "user" && message.summary !== undefined) return undefined;
      if (message.role === "assistant")
        for (const { input } of message.calls) calls.push(JSON.stringify(await loadInput(run.store.blobs, input)));
      if (message.role === "tool")
        // That a file is in a folder says nothing about its content.
        for (const { tool, output } of message.results)
          if (tool !== "list") results.push(await loadText(run.store.blobs, output));
    }
    run.chats.close(sessionID);
  }
  return { calls, results };
};

const mostBytes = 4 * 1024 * 1024;

/** How many lines the file has; undefined: there is no such text in the project. */
const linesOf = async (run: Run, path: Place["path"]): Promise<number | undefined> => {
  const { files } = await run.workspace();
  return await files.read(path, mostBytes).then(
    ({ bytes }) => countLines(bytes),
    () => undefined,
  );
};
