import { z } from "zod";
import { checkRequest, commandKinds, commandText } from "../../protocol/check.ts";

/**
 * A check as a Mission's agent writes it: any that a request takes. Its forms are described once, in words, with
 * `dispatch`: as a JSON Schema they would be a sixth of all tool descriptions, which are sent with every request.
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
 * Models are told only that a check is a string or an object: the APIs of some providers accept no element without a
 * type. A check is parsed by the form that was meant, so that the issues say what is wrong; a union would only report
 * "Invalid input".
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
