import { z } from "zod";
import type { Tool } from "./tool.ts";

const input = z.strictObject({
  agent: z.string(),
  slices: z.array(z.string()).max(20).optional().describe("Ids of the slices it is to deliver"),
  brief: z.string().min(1).max(16_000),
});

export const delegate: Tool<z.infer<typeof input>> = {
  name: "delegate",
  description:
    "Gives a piece of work to another agent of your squad and waits for its last message. It knows the project's handbook and nothing of your conversation: " +
    "the brief says what to do, where, what is ruled out, and what its answer must hold. Several calls in one reply run side by side; give them different files. " +
    "Worth it for work that is separate, or that would fill your memory with what only its result matters of; not for what you can do in a few calls yourself.",
  input,
  effect: "log",
  run: (request, context) => context.delegate(request),
};
