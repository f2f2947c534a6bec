import { z } from "zod";
import { checkRequest, commandKinds, commandText } from "../../protocol/check.ts";

/**
 * A check as a Mission's agent writes it: what a request takes, told in words once, with `dispatch`. As a JSON Schema it
 * would be a sixth of all that its tools say, and is read with every request.
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

const parsed = (given: unknown, context: z.core.$RefinementCtx) => {
  const check = checkRequest.safeParse(given);
  if (check.success) return check.data;
  for (const { path, message } of check.error.issues)
    context.issues.push({ code: "custom", path: [...path], message, input: given });
  return z.NEVER;
};

/** Models are told neither form in its schema: `unknown` is none. */
export const checkInput = z.unknown().pipe(z.union([commandText, z.record(z.string(), z.unknown()).transform(parsed)]));
