import { z } from "zod";
import { checkKinds, checkRequest, commandText } from "../../protocol/check.ts";

/**
 * A check as a Mission's agent writes it: what a request takes, told as one flat object. A schema for each kind would be a
 * third of all that its tools say, and is read with every request.
 */

const flat = z.strictObject({
  kind: z.enum(checkKinds).describe("The first five run a command"),
  id: z.string().optional(),
  name: z.string().optional(),
  required: z.boolean().optional().describe("Default true"),
  baseline: z
    .union([z.boolean(), z.string()])
    .optional()
    .describe("true: also run on the base, before the work; visual: the PNG to compare with"),
  timeoutSeconds: z.number().int().optional(),
  run: z.string().optional().describe("Commands; exit 0 passes unless `expect` says otherwise"),
  cwd: z.string().optional(),
  env: z.record(z.string(), z.string()).optional(),
  expect: z
    .strictObject({
      exitCode: z.number().int().optional(),
      stdoutMatches: z.string().optional(),
      status: z.number().int().optional().describe("http; default 200"),
      bodyMatches: z.string().optional(),
    })
    .optional(),
  path: z.string().optional().describe("file"),
  exists: z.boolean().optional().describe("file; default true"),
  matches: z.string().optional().describe("file"),
  start: z.string().optional().describe("http, visual: command that serves"),
  url: z.string().optional().describe("http, visual"),
  viewport: z.strictObject({ width: z.number().int(), height: z.number().int() }).optional(),
  waitFor: z.string().optional().describe("visual: a CSS selector"),
  maxDiffRatio: z.number().optional(),
  criteria: z.string().optional().describe("review: what the result is to be"),
});

const parsed = (given: unknown, context: z.core.$RefinementCtx) => {
  const check = checkRequest.safeParse(given);
  if (check.success) return check.data;
  for (const { path, message } of check.error.issues)
    context.issues.push({ code: "custom", path: [...path], message, input: given });
  return z.NEVER;
};

export const checkInput = z.union([commandText, flat.transform(parsed)]);

/** The same where another tool has told what a check is. */
export const checkAsTold = z.union([commandText, z.record(z.string(), z.unknown()).transform(parsed)]);
