import type { PromptMessage } from "../../model/model.ts";

/**
 * Renders a conversation as one text, for an agent that takes over in the middle. When it is too long, the oldest
 * messages are left out.
 */

const maxTranscript = 48_000;
const maxPart = 4_000;

export const transcriptOf = (messages: readonly PromptMessage[]): string => {
  const parts = messages.map(partOf);
  const kept: string[] = [];
  let length = 0;
  for (const part of parts.toReversed()) {
    length += part.length;
    if (length > maxTranscript) break;
    kept.unshift(part);
  }
  const missing = parts.length - kept.length;
  const first = missing === 0 ? "" : `[${missing} earlier messages are left out.]\n\n`;
  return `What happened in this Task so far. The files are as these steps left them.\n\n${first}${kept.join("\n\n")}`;
};

const partOf = (message: PromptMessage): string => {
  switch (message.role) {
    case "user":
      return `## ${message.source}\n${cut(message.text)}`;
    case "assistant":
      return `## you\n${cut(message.text)}${message.calls.map(({ tool, input }) => `\n- called ${tool} ${cut(JSON.stringify(input), 500)}`).join("")}`;
    case "tool":
      return message.results
        .map(({ tool, outcome, output }) => `## ${tool}: ${outcome}\n${cut(output, 1500)}`)
        .join("\n");
  }
};

const cut = (text: string, max = maxPart): string =>
  text.length <= max ? text : `${text.slice(0, max / 2)}\n…\n${text.slice(-max / 2)}`;
