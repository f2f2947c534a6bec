import { z } from "zod";
import type { Tool } from "../tool.ts";

const input = z.strictObject({
  agent: z.string(),
  slices: z.array(z.string()).max(20).optional().describe("Ids of those it delivers"),
  brief: z.string().min(1).max(16_000),
});

export const delegate: Tool<z.infer<typeof input>> = {
  name: "delegate",
  description:
    "Gives work to an agent of your squad and waits for its last message. It knows nothing of your conversation: " +
    "the brief has the goal, the places, what is decided and what is ruled out, what the answer must hold. Several in one reply run side by side: give them different files.",
  input,
  effect: "log",
  run: (request, context) => context.delegate(request),
};
