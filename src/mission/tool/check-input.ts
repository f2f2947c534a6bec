import { z } from "zod";
import { checkRequest, commandKinds, commandText } from "../../protocol/check.ts";

/**
 * A check as a Mission's agent writes it: what a request takes, told in words once, with `dispatch`. As a JSON Schema
 * it would be a sixth of all that its tools say, and is read with every request.
 */

export const checkForms = [
  "Each is a command, which passes with exit 0, or an object with `kind`:",
  `${commandKinds.join(", ")}: { run, expect?: { exitCode?, stdoutMatches? } };`,
  "file: { path, exists?, matches? };",
  "http: { start: command that serves, url, expect?: { status?, bodyMatches? } };",
  "visual: { start, url, baseline?: the PNG to compare with, viewport?: { width, height }, waitFor?: CSS selector, maxDiffRatio? };",
  "review: { criteria }.",
  "Each of them takes id?, name?, required? (default true); what runs also cwd?, env?, timeoutSeconds?, and `baseline: true` to run it on the base, too, before the work.",
].join(" ");

/**
 * Models are told no more than that it is a text or an object: some wires take no element without a type. What is wrong
 * is said of the form that was meant; a union would say of either that it is "Invalid input".
 */
export const checkInput = z
  .unknown()
  .transform((given, context): z.output<typeof commandText | typeof checkRequest> => {
    const read = (typeof given === "string" ? commandText : checkRequest).safeParse(given);
    if (read.success) return read.data;
    for (const issue of read.error.issues)
      context.issues.push({ ...issue, path: [...issue.path], input: given } as z.core.$ZodRawIssue);
    return z.NEVER;
  })
  .meta({ anyOf: [{ type: "string" }, { type: "object" }] });
