import { z } from "zod";
import { refusalsLeft } from "../../domain/session/output.ts";
import { keepText } from "../../store/blob/text.ts";
import { inThread, ThreadLimit } from "../../thread.ts";
import { failed, ok } from "../result.ts";
import type { Tool } from "../tool.ts";
import { maxOutputBytes, outputReading } from "./schema.ts";

const input = z.strictObject({
  output: z
    .unknown()
    .refine((value) => value !== undefined, "Expected the output itself")
    .describe("The JSON value itself, as the schema in your instructions says"),
});

/** The tool with which the lead agent of a Task with an `outputSchema` gives its output. */
export const giveOutput = (schema: string): Tool<z.infer<typeof input>> => ({
  name: "give_output",
  description:
    "Gives the Task's output, once the work is done; programs read it, so nothing beside it is in it. What you give later replaces it.",
  input,
  effect: "log",
  async run({ output }, context) {
    const { sessionID, callID, signal } = context;
    const left = refusalsLeft(context.state());
    if (left < 0) return failed("It was given wrongly too often: no output is taken any more. End your turn.");
    const read = await meant(schema, output, signal);
    if ("text" in read) {
      const kept = await keepText({ put: (bytes) => context.keep(bytes) }, read.text);
      return { ...ok("Taken."), facts: [{ type: "output.given", data: { sessionID, callID, output: kept } }] };
    }
    const reason = read.wrong.join("; ");
    const more =
      left === 0
        ? "It is not taken any more: end your turn, and say why it cannot be given."
        : `Give it again; ${left === 1 ? "this is the last time" : `it is asked for ${left} times more`}.`;
    return {
      ...failed(`The output does not meet the schema: ${reason}.\n${more}`),
      facts: [{ type: "output.refused", data: { sessionID, callID, reason } }],
    };
  },
});

/** The value as it is, or the JSON that it contains as a string: many models write JSON inside a string. */
const meant = async (
  schema: string,
  output: unknown,
  signal: AbortSignal,
): Promise<{ text: string } | { wrong: string[] }> => {
  const text = JSON.stringify(output);
  const wrong = await wrongWith(schema, text, signal);
  if (wrong.length === 0) return { text };
  const inner = typeof output === "string" ? asJSON(output) : undefined;
  return inner !== undefined && (await wrongWith(schema, inner, signal)).length === 0 ? { text: inner } : { wrong };
};

const wrongWith = async (schema: string, output: string, signal: AbortSignal): Promise<string[]> => {
  const bytes = Buffer.byteLength(output);
  if (bytes > maxOutputBytes) return [`it may have ${maxOutputBytes} bytes and has ${bytes}`];
  try {
    return await inThread(outputReading, { schema, output }, { signal, timeoutMs: 15_000 });
  } catch (error) {
    if (error instanceof ThreadLimit) return ["it could not be held against the schema in time: give a smaller one"];
    throw error;
  }
};

const asJSON = (text: string): string | undefined => {
  try {
    return JSON.stringify(JSON.parse(text));
  } catch {
    return undefined;
  }
};
