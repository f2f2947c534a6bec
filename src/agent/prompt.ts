import type { AgentSpec } from "../domain/agent.ts";
import { type ChatMessage, type Conversation, messagesOf } from "../domain/conversation.ts";
import type { TaskState } from "../domain/task.ts";
import type { Facts, PromptFile, PromptMessage } from "../model/model.ts";
import type { AttachmentRef } from "../protocol/event.ts";
import { loadInput, loadText, requireText } from "../store/text.ts";
import type { Blobs } from "../store/store.ts";

/**
 * What the model reads: the agent's handbook with the Task's standing facts, then the conversation with its long
 * texts loaded. Nothing in it changes from turn to turn but the end, so that providers can keep the prefix.
 */

export const systemOf = (agent: AgentSpec, state: TaskState, facts: Facts): string => {
  const lines = [
    agent.instructions,
    "",
    "This Task",
    `- ${state.productPillar === "code" ? "Repository work: the result is a change to the project." : "Knowledge work: the result is a document or an answer; write documents as files in the project."}`,
    state.isolation === "worktree"
      ? "- You work in a Git worktree of the project made for this Task; the user's own checkout is elsewhere and is not yours to touch."
      : "- You work directly in the user's directory: every edit is final at once.",
  ];
  const detected = Object.entries(facts.detected);
  if (detected.length > 0)
    lines.push(`- The project's own commands: ${detected.map(([kind, run]) => `${kind} = \`${run}\``).join(", ")}.`);
  if (state.checks.length > 0)
    lines.push(
      "- Acceptance checks, run by the service when you are done:",
      ...state.checks.map(
        (check) =>
          `  - \`${check.run}\`${check.cwd === undefined ? "" : ` in ${check.cwd}`} (${check.kind}${check.required ? "" : ", advisory"})`,
      ),
    );
  return lines.join("\n");
};

const wrapUp =
  "The user asks you to stop here. Call no tools. Say in a few sentences what is done, what is not, and what state the files are in.";

/** The messages of the next request. `last`: the user wants an end, so the agent is told to summarise. */
export const promptOf = async (chat: Conversation, blobs: Blobs, last: boolean): Promise<PromptMessage[]> => {
  const messages = await Promise.all(messagesOf(chat).map((message) => load(message, blobs)));
  if (last) messages.push({ role: "user", messageID: "wrap-up", source: "service", text: wrapUp, files: [] });
  return messages;
};

const load = async (message: ChatMessage, blobs: Blobs): Promise<PromptMessage> => {
  switch (message.role) {
    case "user": {
      const { messageID, source } = message;
      const files = await Promise.all(message.attachments.map((ref) => loadFile(ref, blobs)));
      const restarted = message.restarted === true ? { restarted: true } : {};
      return { role: "user", messageID, source, text: await requireText(blobs, message.text), files, ...restarted };
    }
    case "assistant": {
      const calls = await Promise.all(
        message.calls.map(async ({ callID, tool, input }) => ({ callID, tool, input: await loadInput(blobs, input) })),
      );
      return { ...message, text: await loadText(blobs, message.text), calls };
    }
    case "tool":
      return {
        role: "tool",
        results: await Promise.all(
          message.results.map(async (result) => ({ ...result, output: await loadText(blobs, result.output) })),
        ),
      };
  }
};

const loadFile = async (ref: AttachmentRef, blobs: Blobs): Promise<PromptFile> => ({
  filename: ref.filename,
  mime: ref.mime,
  bytes: (await blobs.get(ref.sha256)) ?? Buffer.from("[gone from the data folder]"),
});
