import { z } from "zod";
import { errorCodes } from "../error.ts";

/** The error body of every route. Source: shared/spec/completion.md, "Errors". */
export const errorBody = z
  .object({
    message: z.string().describe("What was expected and what was received"),
    code: z.enum(errorCodes),
    status: z.number().int(),
    requestID: z.string(),
    retryable: z.boolean(),
    remedy: z.string().optional().describe("What to do about it, if the message does not say so"),
    details: z.record(z.string(), z.unknown()).optional(),
    issues: z.array(z.object({ path: z.string(), message: z.string(), code: z.string() })).optional(),
  })
  .meta({ id: "Error" });

export type ErrorBody = z.infer<typeof errorBody>;
