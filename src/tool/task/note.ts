import { z } from "zod";
import { ok } from "../result.ts";
import type { Tool } from "../tool.ts";

const maxBytes = 8 * 1024;

const input = z.strictObject({
  text: z
    .string()
    .min(1)
    .refine((text) => Buffer.byteLength(text) <= maxBytes, {
      error: ({ input: text }) =>
        `Expected at most ${maxBytes} bytes, got ${Buffer.byteLength(String(text))}; keep what you need to go on, and leave out the rest`,
    })
    .describe("Replaces the one before; at most 8 KiB"),
});

export const note: Tool<z.infer<typeof input>> = {
  name: "note",
  description:
    "Keeps your plan in long work, where a summary replaces old turns and the note stays word for word: " +
    "goal, steps done and open, decisions, files that matter, what failed.",
  input,
  effect: "log",
  run: ({ text }, { sessionID, callID }) =>
    Promise.resolve({ ...ok("Noted."), facts: [{ type: "note.written", data: { sessionID, callID, text } }] }),
};
