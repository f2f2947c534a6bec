import { z } from "zod";

/** Requests that a project keeps as files. */

export const savedRequest = z
  .object({
    name: z.string().describe("The file's name, with its folder before a colon"),
    description: z.string().describe("From its front matter, else its first line"),
    arguments: z.string().nullable().describe("The arguments it expects, in words"),
    text: z.string(),
  })
  .meta({ id: "SavedRequest" });

export type SavedRequest = z.infer<typeof savedRequest>;
