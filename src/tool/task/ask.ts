import { z } from "zod";
import { ofMission } from "../../protocol/event/source.ts";
import { ok, failed } from "../result.ts";
import type { Tool } from "../tool.ts";

const input = z.strictObject({
  question: z.string().min(1).max(2000).describe("With all that its answer needs"),
  options: z.array(z.string().min(1).max(200)).min(2).max(6).optional(),
  default: z.string().min(1).max(500).optional().describe("What you do if nobody answers"),
});

export const ask: Tool<z.infer<typeof input>> = {
  name: "ask",
  description:
    "Puts one question to whoever gave you the Task, and waits; they are often away. " +
    "Only for what the request leaves open, you cannot find out, and would be costly to undo; never for permission. " +
    "First do all that needs no answer; background commands stop meanwhile.",
  input,
  effect: "log",
  async run({ question, options = [], default: fallback }, context) {
    const answer = await context.ask({ prompt: question, options, default: fallback ?? null });
    if ("refused" in answer) return failed(answer.refused);
    switch (answer.by) {
      case "caller":
        return ok(`${ofMission(answer.source, answer) ? "Your Mission" : "The user"} answered: ${answer.answer}`);
      case "timeout":
        return ok(
          answer.answer === undefined
            ? "Nobody answered in time. Decide yourself, and say in your last message what you decided."
            : `Nobody answered in time, so your default applies: ${answer.answer}\nSay in your last message that you used it.`,
        );
      case "ended":
        return ok(
          answer.source === "message"
            ? "A message came instead of an answer. It follows: go by it, and decide yourself what it leaves open."
            : "The question was closed without an answer: the user wants you to stop.",
        );
    }
  },
};
